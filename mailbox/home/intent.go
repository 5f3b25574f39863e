package home

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync"

	"mbox/mailbox/task"

	"mbox/audit"
	"mbox/mailbox/durable"
)

// .mbox/intents holds the intent records, each in a slot of its own: that of shard n
// is slot n, that of the lock of delegations the one behind them. The last slot
// remembers which serial number was drawn. The file is made by init, of blank slots,
// and never grows.
const (
	SlotSize   = 1024
	SerialSlot = Delegations + 1
)

// Intent is an intent record: what the holder of a shard is about to do. While it
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
type Intent struct {
	Kind string // "task", "record", "drop" or "note"
	Name string // task id, record file name, name in a folder, or agent
	TX   string
	At   audit.Position // a place before the line
	PID  int
}

// What a slot holds where it is no intent record. The others are damage to
// whoever wants the shard, so that nobody takes it before a recovery has been there.
// With remade and upgraded that one appends a line, which whoever stood still with
// the lock of the file before finds in his way.
var (
	BlankSlot    = append(bytes.Repeat([]byte{' '}, SlotSize-1), '\n')
	RemadeSlot   = SlotOf("made anew")
	upgradedSlot = SlotOf("of format 1")
	DoubtedSlot  = SlotOf("written by two")

	toSay = map[string]string{string(RemadeSlot): MadeAnew, string(upgradedSlot): UpgradedSays}
)

const (
	MadeAnew     = "lock files made anew"
	UpgradedSays = "brought from format 1 to 2"
)

var ErrDamagedIntent = errors.New("damaged intent record")

// SlotOf is a text, padded to a slot.
func SlotOf(text string) []byte { return padded([]byte(text)) }

// padded leaves a text that is longer than a slot as it is: it equals none.
func padded(text []byte) []byte { return append(text, BlankSlot[min(len(text), SlotSize):]...) }

// Encode is the slot that holds the record.
func (d Intent) Encode() []byte {
	slot := make([]byte, 0, SlotSize)
	slot = fmt.Appendf(slot, "intent %s %q %s %s %d %d %s %d", d.Kind, url.PathEscape(d.Name), d.TX, cmp.Or(d.At.File, "-"), d.At.Offset, d.At.Seq, d.At.Checksum, d.PID)
	return padded(fmt.Appendf(slot, " %08x", crc32.ChecksumIEEE(slot)))
}

// DecodeIntent reads a slot. What would not be written so again is damaged.
func DecodeIntent(slot []byte) (d Intent, set bool, err error) {
	if bytes.Equal(slot, BlankSlot) {
		return d, false, nil
	}
	var name string
	_, err = fmt.Sscanf(string(slot), "intent %s %s %s %s %d %d %s %d", &d.Kind, &name, &d.TX, &d.At.File, &d.At.Offset, &d.At.Seq, &d.At.Checksum, &d.PID)
	if err == nil {
		d.Name, err = url.PathUnescape(strings.Trim(name, `"`))
	}
	if d.At.File == "-" {
		d.At.File = ""
	}
	if err != nil || !bytes.Equal(d.Encode(), slot) {
		return Intent{}, true, ErrDamagedIntent
	}
	return d, true, nil
}

// Owns tells whether a staged file or a quarantine entry is that of the intent
// record's transaction, or of its task, whose transition puts strangers' files
// aside under transactions of their own.
func (d Intent) Owns(name string) bool {
	owner, tx, _ := CutLast(strings.TrimSuffix(name, ReasonSuffix), "~")
	return tx == d.TX || d.Kind == "task" && (owner == d.Name || owner == task.ID(d.Name).File())
}

// Lines are the entries of a transaction behind the place that the record names.
func (d Intent) Lines(l *audit.Ledger, tx string) (out []audit.Entry, err error) {
	if l.Check(d.At) != nil {
		d.At = audit.Position{}
	}
	for line, err := range l.Read(d.At).Lines() {
		if err != nil {
			return nil, err
		}
		if line.Text("tx") != tx {
			continue
		}
		e, err := line.Decode()
		if err != nil {
			return nil, fmt.Errorf("ledger seq %d: %w", line.Seq, err)
		}
		out = append(out, e)
	}
	return out, nil
}

// Intents is the file of slots, opened when it is first needed.
type Intents struct {
	path string
	flag int

	mu   sync.Mutex // guards what follows
	file *durable.File
	sure bool   // it had its name when Last was asked
	all  []byte // of the last look at all slots
}

// NewIntents is the file of a home; flag is os.O_RDONLY for who only looks.
func NewIntents(dir string, flag int) *Intents { return &Intents{path: IntentsPath(dir), flag: flag} }

// Open returns the file that bears the name. One that was open before stays so as
// long as somebody holds a shard with it.
func (f *Intents) Open() (*durable.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.opened()
}

// Last is Open that looks at the name only once, until Doubt.
func (f *Intents) Last() (file *durable.File, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sure {
		return f.file, nil
	}
	file, err = f.opened()
	f.sure = err == nil
	return file, err
}

// Doubt lets Last look whether the file still has its name.
func (f *Intents) Doubt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sure = false
}

func (f *Intents) opened() (*durable.File, error) {
	if f.file != nil && f.file.Check() == nil {
		return f.file, nil
	}
	file, err := durable.OpenNamed(f.path, f.flag)
	if err == nil {
		f.file = file
	}
	return file, err
}

// Close closes the file.
func (f *Intents) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file != nil {
		f.file.Close()
		f.file, f.sure = nil, false
	}
}

// Read reads the record of one shard, whose lock the caller need not hold.
func (f *Intents) Read(number int) (Intent, bool, error) {
	file, err := f.Open()
	if err != nil {
		return Intent{}, false, err
	}
	return ReadIntent(file, number)
}

// Holder names the process in the intent record of a busy lock, for the message.
func (f *Intents) Holder(number int) string {
	d, set, err := f.Read(number)
	if err != nil || !set {
		return ""
	}
	return fmt.Sprintf(", held by process %d for %s", d.PID, d.Name)
}

// ReadIntent reads the record in a slot of an open file.
func ReadIntent(file *durable.File, number int) (Intent, bool, error) {
	slot, err := ReadSlot(file, number)
	if err != nil {
		return Intent{}, false, err
	}
	return DecodeIntent(slot)
}

// ReadSlot reads a slot; one that is cut short, as far as it goes.
func ReadSlot(file *durable.File, number int) ([]byte, error) {
	slot := make([]byte, SlotSize)
	n, err := file.ReadAt(slot, int64(number)*SlotSize)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return slot[:n], err
}

// WriteSlot writes a slot.
func WriteSlot(file *durable.File, number int, slot []byte) error {
	return durable.WriteAt(file.File, slot, int64(number)*SlotSize)
}

// Slot is one that is not blank.
type Slot struct {
	Number int
	Intent
	Damaged error
	Say     string // what a recovery has yet to tell the ledger
}

// Filled returns all slots that are not blank, by one read: those of others who
// are at work as well, which may be half written.
func (f *Intents) Filled() ([]Slot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, err := f.opened()
	if err != nil {
		return nil, err
	}
	if f.all == nil {
		f.all = make([]byte, SerialSlot*SlotSize)
	}
	n, err := file.ReadAt(f.all, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var out []Slot
	for i := range SerialSlot {
		slot := f.all[min(n, i*SlotSize):min(n, (i+1)*SlotSize)]
		if d, set, err := DecodeIntent(slot); set {
			out = append(out, Slot{i, d, err, toSay[string(slot)]})
		}
	}
	return out, nil
}

// IntentsPath is the place of the file of slots.
func IntentsPath(dir string) string { return Private(dir, "intents") }

// Interrupted names what somebody is about to do in a home, or was when he died:
// task ids, names of files, agents.
func Interrupted(home string) ([]string, error) {
	f := NewIntents(home, os.O_RDONLY)
	defer f.Close()
	all, err := f.Filled()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // of an earlier format; or lost, which Verify tells
	}
	var out []string
	for _, s := range all {
		if s.Damaged != nil {
			s.Name = "something in " + ShardName(s.Number)
		}
		out = append(out, s.Name)
	}
	return out, err
}
