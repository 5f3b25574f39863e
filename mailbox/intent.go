package mailbox

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync"

	"mbox/audit"
	"mbox/mailbox/durable"
)

// .mbox/intents holds the intent records, each in a slot of its own: that of shard n
// is slot n, that of the lock of delegations the one behind them. The last slot
// remembers which serial number was drawn. The file is made by init, of blank slots,
// and never grows.
const (
	slotSize   = 1024
	serialSlot = delegating + 1
	slotCount  = serialSlot + 1
)

// intent is an intent record: what the holder of a shard is about to do. While it
// stands, a line with TX may be in the ledger from At on; whoever finds it with
// the lock free settles it.
//
// On disk it is one line of text, padded to slotSize:
//
//	intent KIND "NAME" TX FILE OFFSET SEQ CHECKSUM PID CRC32
//
// NAME is escaped as in a URL. A slot of spaces is blank. Anything else is damaged
// (NULs, a slot that is cut short), and means full recovery; so does that of a lock
// file that recovery has made anew.
type intent struct {
	kind string // "task", "record", "drop" or "note"
	name string // task id, record file name, name in a folder, or agent
	tx   string
	at   audit.Position // a place before the line
	pid  int
}

// What a slot holds where it is no intent record. The others are damage to
// whoever wants the shard, so that nobody takes it before a recovery has been there.
// With remade and upgraded that one appends a line, which whoever stood still with
// the lock of the file before finds in his way.
var (
	blankSlot    = slotOf("")
	remadeSlot   = slotOf("made anew")
	upgradedSlot = slotOf("of format 1")
	doubtedSlot  = slotOf("written by two")

	toSay = map[string]string{string(remadeSlot): madeAnew, string(upgradedSlot): upgradedSays}
)

const (
	madeAnew     = "lock files made anew"
	upgradedSays = "brought from format 1 to 2"
)

var errDamagedIntent = errors.New("damaged intent record")

func slotOf(text string) []byte { return fmt.Appendf(nil, "%-*s\n", slotSize-1, text) }

func (d intent) encode() []byte {
	file := d.at.File
	if file == "" {
		file = "-"
	}
	text := fmt.Sprintf("intent %s %q %s %s %d %d %s %d", d.kind, url.PathEscape(d.name), d.tx, file, d.at.Offset, d.at.Seq, d.at.Checksum, d.pid)
	return slotOf(fmt.Sprintf("%s %08x", text, crc32.ChecksumIEEE([]byte(text))))
}

// decodeIntent reads a slot. What would not be written so again is damaged.
func decodeIntent(slot []byte) (d intent, set bool, err error) {
	if bytes.Equal(slot, blankSlot) {
		return d, false, nil
	}
	var name string
	_, err = fmt.Sscanf(string(slot), "intent %s %s %s %s %d %d %s %d", &d.kind, &name, &d.tx, &d.at.File, &d.at.Offset, &d.at.Seq, &d.at.Checksum, &d.pid)
	if err == nil {
		d.name, err = url.PathUnescape(strings.Trim(name, `"`))
	}
	if d.at.File == "-" {
		d.at.File = ""
	}
	if err != nil || !bytes.Equal(d.encode(), slot) {
		return intent{}, true, errDamagedIntent
	}
	return d, true, nil
}

// owns tells whether a staged file or a quarantine entry is that of the intent
// record's transaction, or of its task, whose transition puts strangers' files
// aside under transactions of their own.
func (d intent) owns(name string) bool {
	owner, tx, _ := cutLast(strings.TrimSuffix(name, reasonSuffix), "~")
	return tx == d.tx || d.kind == "task" && (owner == d.name || owner == ID(d.name).File())
}

// intents is the file of slots, opened when it is first needed.
type intents struct {
	path string
	flag int // os.O_RDONLY for who only looks

	mu   sync.Mutex // guards what follows
	file *durable.File
	all  []byte // of the last look at all slots
}

// open returns the file that bears the name. One that was open before stays so as
// long as somebody holds a shard with it.
func (f *intents) open() (*durable.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.opened()
}

func (f *intents) opened() (*durable.File, error) {
	if f.file != nil && f.file.Check() == nil {
		return f.file, nil
	}
	file, err := durable.OpenNamed(f.path, f.flag)
	if err == nil {
		f.file = file
	}
	return file, err
}

func (f *intents) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file != nil {
		f.file.Close()
		f.file = nil
	}
}

// read reads the record of one shard, whose lock the caller need not hold.
func (f *intents) read(number int) (intent, bool, error) {
	file, err := f.open()
	if err != nil {
		return intent{}, false, err
	}
	return readIntent(file, number)
}

func readIntent(file *durable.File, number int) (intent, bool, error) {
	slot, err := readSlot(file, number)
	if err != nil {
		return intent{}, false, err
	}
	return decodeIntent(slot)
}

// readSlot reads a slot; one that is cut short, as far as it goes.
func readSlot(file *durable.File, number int) ([]byte, error) {
	slot := make([]byte, slotSize)
	n, err := file.ReadAt(slot, int64(number)*slotSize)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return slot[:n], err
}

func writeSlot(file *durable.File, number int, slot []byte) error {
	return durable.WriteAt(file.File, slot, int64(number)*slotSize)
}

// filledSlot is a slot that is not blank.
type filledSlot struct {
	number int
	intent
	damaged error
	say     string // what a recovery has yet to tell the ledger
}

// filled returns all slots that are not blank, by one read: those of others who
// are at work as well, which may be half written.
func (f *intents) filled() ([]filledSlot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, err := f.opened()
	if err != nil {
		return nil, err
	}
	if f.all == nil {
		f.all = make([]byte, serialSlot*slotSize)
	}
	n, err := file.ReadAt(f.all, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var out []filledSlot
	for i := range serialSlot {
		slot := f.all[min(n, i*slotSize):min(n, (i+1)*slotSize)]
		if d, set, err := decodeIntent(slot); set {
			out = append(out, filledSlot{i, d, err, toSay[string(slot)]})
		}
	}
	return out, nil
}

// makeIntents makes the file, where it is missing.
func makeIntents(dir string, slot []byte, m durable.Mode) error {
	all := append(bytes.Repeat(slot, serialSlot), blankSlot...)
	return durable.Stage(intentsPath(dir), all, m)
}

func intentsPath(dir string) string { return privatePath(dir, "intents") }

// Interrupted names what somebody is about to do in a home, or was when he died:
// task ids, names of files, agents.
func Interrupted(home string) ([]string, error) {
	f := &intents{path: intentsPath(home), flag: os.O_RDONLY}
	defer f.close()
	all, err := f.filled()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // of an earlier format; or lost, which Verify tells
	}
	var out []string
	for _, s := range all {
		if s.damaged != nil {
			s.name = "something in " + shardName(s.number)
		}
		out = append(out, s.name)
	}
	return out, err
}
