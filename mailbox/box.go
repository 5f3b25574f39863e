package mailbox

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// Options of a mailbox. The zero value is the default.
type Options struct {
	Sync           durable.Mode            // what is flushed before an answer
	AllowNetworkFS bool                    // work on NFS, SMB, 9p and FUSE all the same
	Lease          time.Duration           // how long a claim lasts without a sign of life; 15 min
	MaxAttempts    int                     // claims before a task has failed for good; 3
	ScanInterval   time.Duration           // 5 s, between 1 s and 60 s
	StartWithin    time.Duration           // a ready task not taken by then is an alarm; 10 min
	LockWait       time.Duration           // for any lock; 10 s
	CopyDelay      time.Duration           // after which lines stand in their agents' copies; if zero, when the box is closed
	RetryBase      time.Duration           // retry n waits RetryBase·2ⁿ, with jitter; 1 s
	MaxDepth       int                     // of delegation: a task this deep is refused; 3
	HashIdentities bool                    // sessions enter the ledger as salted hashes
	AppendOnly     bool                    // finished files of the ledger become append-only, where this process may do that
	Agents         map[string]Capabilities // the registry: who may take what
	Now            func() time.Time        // the clock
	// Review judges a task that is to be created, by Submit or from a drop; a task
	// that Delegate creates has been judged by whoever delegates. An error refuses
	// it: the notes are written into the ledger either way. nil accepts all. Drops
	// with an action are judged in goroutines of their own, and do not wait for each
	// other; one that takes more than 10 s is refused.
	Review func(*Task) (notes []audit.Entry, err error)
	// Approval tells why a task needs an operator's approval before it is worked
	// at; "" if it needs none. nil: none does.
	Approval func(*Task) string
	// Folders lists what else than its own bytes an approval of a task binds, in
	// the order of the names. An error says that it cannot be bound, so that the
	// task cannot be approved. nil: nothing.
	Folders func(context.Context, *Task) ([]Folder, error)
	// Unable tells why a registered agent cannot take a task now that it has to
	// think about; "" if it can. It is asked for alarms. nil: all can.
	Unable func(agent string) string
	// Progress is called now and then during long work: what is done, how many
	// of how many (total 0 where it is not known).
	Progress func(what string, done, total int64)
}

// Capabilities of a registered agent.
type Capabilities struct {
	Types     []string // task types that it takes from "any"
	Actions   []string // action names that it takes from "any"
	OnlyNamed bool     // takes only what names it
	Paused    bool     // takes nothing
}

func (o Options) withDefaults() Options {
	fill := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	fill(&o.Lease, 15*time.Minute)
	fill(&o.ScanInterval, 5*time.Second)
	fill(&o.StartWithin, 10*time.Minute)
	fill(&o.LockWait, 10*time.Second)
	fill(&o.RetryBase, time.Second)
	if o.MaxDepth == 0 {
		o.MaxDepth = MaxDepth
	}
	if o.MaxAttempts == 0 {
		o.MaxAttempts = 3
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	return o
}

// Box is an open mailbox. It is for use by many goroutines; any number of
// processes may have the same mailbox open.
type Box struct {
	home   string
	o      Options
	id     string // mailbox id
	salt   []byte // for hashes of identities and keys
	boot   string
	writer audit.Writer
	ledger *audit.Ledger
	shards [shards + 1]*durable.Lock
	serial *durable.Lock
	// recoveries is held by who recovers. It comes before all others.
	recoveries *durable.Lock
	intents    *intents
	start      string // startTime of this process
	namespace  string // of the numbers of processes
	looks      bool   // it was opened by Look

	index  *index
	mu     sync.Mutex // guards index and what follows
	queued bool       // somebody has asked for the queue
	paces  map[string]pace
	out    int // records that claims of this process have taken from the index

	forest  forest   // delegation trees; it has a lock of its own
	lookout *lookout // of the last Wait, for the next one
	checks  checks   // of drops, by Options.Review; it has a lock of its own
	closed  bool

	settledAt time.Time // when every shard was last looked at
	seenBoot  seenBoot
	seenTasks seenTasks
	judgedAt  time.Time     // when a recovery last found that tasks are gone
	judging   time.Duration // how long that took
}

// folders of a home, parents first.
var folders = []string{
	"tasks/pending", "tasks/in-progress", "tasks/completed", "tasks/failed", "tasks/quarantine", "tasks/archive", task.ArtifactsDir,
	"audit/shared", "decisions", "changes", "memory/context", "agents",
	".mbox/tmp", ".mbox/locks", ".mbox/leases", ".mbox/keys",
}

func (b *Box) path(parts ...string) string {
	return filepath.Join(append([]string{b.home}, parts...)...)
}

func privatePath(home string, parts ...string) string {
	return filepath.Join(append([]string{home, ".mbox"}, parts...)...)
}

// Create makes a mailbox in dir, which may exist. It never opens one: where one
// is, the error matches ErrExists; where what is left of one is, ErrLost. A
// Create that was cut short is finished by calling it again, because VERSION is
// written last.
func Create(dir string, o Options) error {
	o = o.withDefaults()
	if _, err := os.Lstat(privatePath(dir, "VERSION")); err == nil {
		return fmt.Errorf("%s: %w", dir, ErrExists)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err // perhaps there is one, and making another would take its id away
	}
	if err := CheckVacant(dir); err != nil {
		return err
	}
	if err := durable.MkdirAll(dir, o.Sync); err != nil {
		return err
	}
	if err := checkFileSystem(dir, o); err != nil {
		return err
	}
	if err := os.Chmod(dir, durable.DirMode); err != nil {
		return err
	}
	if err := makeFolders(dir, "", o.Sync); err != nil {
		return err
	}
	if _, err := makeLocks(dir, blankSlot, o.Sync); err != nil {
		return err
	}
	if err := makeSalt(dir, o.Sync); err != nil {
		return err
	}
	if err := probeRenames(dir); err != nil {
		return err
	}
	boot, err := currentBoot(dir)
	if err != nil {
		return err
	}
	return makeVersion(dir, randomHex(16), boot, o.Sync)
}

// makeFolders makes the folders whose names begin so, where they are missing.
func makeFolders(dir, prefix string, m durable.Mode) error {
	for _, f := range folders {
		if !strings.HasPrefix(f, prefix) {
			continue
		}
		if err := durable.MkdirAll(filepath.Join(dir, f), m); err != nil {
			return err
		}
	}
	return nil
}

// probeRenames refuses a file system on which the renames that mbox rests on do
// not work.
func probeRenames(dir string) (err error) {
	a, b := privatePath(dir, "tmp", "probe~a"), privatePath(dir, "tmp", "probe~b")
	defer func() { err = errors.Join(err, removeIfThere(a), removeIfThere(b)) }()
	for _, p := range []string{a, b} {
		if err := errors.Join(removeIfThere(p), durable.Stage(p, nil, durable.None)); err != nil {
			return err
		}
	}
	if err := durable.Move(a, b); err == nil || unsupported(err) {
		return fmt.Errorf("%s: %w: a rename that must not replace a file answers %v", dir, ErrFileSystem, err)
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := durable.Exchange(a, b); unsupported(err) {
		return fmt.Errorf("%s: %w: %w", dir, ErrFileSystem, err)
	} else if err != nil {
		return err
	}
	return nil
}

// unsupported tells whether the system does not know such a rename.
func unsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP)
}

// makeLocks makes the file of intent records and the lock files, where they are
// missing. That goes into the slots of those that it makes, before anybody can take
// them.
func makeLocks(dir string, slot []byte, m durable.Mode) (made int, err error) {
	there, err := listNames(privatePath(dir, "locks"))
	if err != nil {
		return 0, err
	}
	all := makeIntents(dir, slot, m)
	if all == nil {
		made++
	} else if !errors.Is(all, fs.ErrExist) {
		return 0, all
	}
	slots, err := durable.OpenNamed(intentsPath(dir), os.O_RDWR)
	if err != nil {
		return made, err
	}
	defer slots.Close()
	slices.Sort(there)
	for i, name := range lockNames() {
		if _, found := slices.BinarySearch(there, name); found {
			continue
		}
		if i <= delegating && all != nil {
			err = writeSlot(slots, i, slot)
		}
		if err == nil {
			err = makeLock(dir, name, m)
		}
		if err == nil {
			made++
		} else if !errors.Is(err, fs.ErrExist) {
			return made, err
		}
	}
	return made, errors.Join(durable.SyncDir(privatePath(dir, "locks"), m), durable.SyncDir(privatePath(dir), m))
}

// makeLock makes an empty lock file, with room for the one record that it may hold.
func makeLock(dir, name string, m durable.Mode) error {
	return durable.Stage(lockPath(dir, name), slotOf(""), m)
}

func lockPath(home, name string) string { return privatePath(home, "locks", name) }

// lockNames are the names of all lock files, those with a slot first, in its order.
func lockNames() []string {
	var names []string
	for i := range shards + 1 {
		names = append(names, shardName(i))
	}
	return append(append(names, audit.LockNames()...), "recovery", "routing", "snapshot", "numbers")
}

func makeSalt(dir string, m durable.Mode) error {
	err := durable.Stage(privatePath(dir, "keys", "salt"), []byte(randomHex(32)+"\n"), m)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return durable.SyncDir(privatePath(dir, "keys"), m)
}

func makeVersion(dir, id string, boot bootRecord, m durable.Mode) error {
	if err := writeBoot(dir, boot, m); err != nil {
		return err
	}
	return writeVersion(dir, id, m)
}

func inode(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}

// checkFileSystem refuses file systems where flock and rename promise less, and
// such where the rename flags are missing.
func checkFileSystem(dir string, o Options) error {
	name, network, err := durable.FileSystem(dir)
	if err != nil {
		return err
	}
	if network && !o.AllowNetworkFS {
		return fmt.Errorf("%s: %w: it is on %s, where locks and renames promise less", dir, ErrFileSystem, name)
	}
	return nil
}

// Open opens the mailbox in dir. It never makes one (ErrNoMailbox). What a
// crash left is settled first: one task's transition where only a process died,
// everything where the machine was restarted or the home was moved.
func Open(ctx context.Context, dir string, o Options) (*Box, error) {
	b, err := open(ctx, dir, o)
	if err != nil {
		return nil, err
	}
	err = b.afterBoot(ctx)
	if errors.Is(err, ErrGone) {
		err = nil // reading goes on, and whoever would write is told
	}
	if err == nil {
		err = b.settleAll(ctx)
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Look opens a mailbox that Open refuses, to show what there is: nothing is
// settled, nothing may be written, and what the ledger says ends where its chain
// does. Even .mbox may be missing.
func Look(dir string, o Options) (*Box, error) {
	v, err := present(dir)
	if errors.Is(err, ErrLost) {
		v.MailboxID, _ = audit.Identity(dir, "") // without it the chain begins nowhere
	} else if err != nil {
		return nil, err
	}
	salt, _ := Salt(dir) // nothing is compared with what was hashed
	return boxOf(dir, v, salt, o, true)
}

// open makes a Box without looking at what a crash left.
func open(ctx context.Context, dir string, o Options) (*Box, error) {
	if err := CheckOwner(dir); err != nil {
		return nil, err
	}
	if _, err := readVersion(dir); err != nil {
		return nil, err
	}
	if err := checkFileSystem(dir, o); err != nil {
		return nil, err
	}
	if err := upgrade(ctx, dir, o.withDefaults()); err != nil {
		return nil, err
	}
	v, err := present(dir)
	if err != nil {
		return nil, err
	}
	salt, err := Salt(dir)
	if err != nil {
		return nil, fmt.Errorf("the home's salt: %w", err)
	}
	return boxOf(dir, v, salt, o, false)
}

func boxOf(dir string, v version, salt []byte, o Options, looks bool) (*Box, error) {
	o = o.withDefaults()
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	boot, err := durable.BootID()
	if err != nil {
		return nil, err
	}
	writer := audit.ThisWriter()
	b := &Box{
		home: dir, o: o, id: v.MailboxID, salt: salt, boot: boot, writer: writer,
		start: startTime(os.Getpid()), namespace: pidNamespace(), paces: map[string]pace{}, looks: looks,
	}
	b.ledger, err = audit.Open(dir, v.MailboxID, audit.Options{Mode: o.Sync, Wait: o.LockWait, Now: o.Now, Stands: b.standing, Seal: o.AppendOnly, Looks: looks, CopyDelay: o.CopyDelay})
	if err != nil {
		return nil, err
	}
	b.index = newIndex()
	for i := range b.shards {
		b.shards[i] = durable.NewLock(lockPath(dir, shardName(i)))
	}
	b.serial = durable.NewLock(lockPath(dir, "numbers"))
	b.recoveries = durable.NewLock(lockPath(dir, "recovery"))
	b.intents = &intents{path: intentsPath(dir), flag: os.O_RDWR}
	return b, nil
}

// Close copies what waits for that and releases what the box holds open.
func (b *Box) Close() error {
	b.mu.Lock()
	b.index.close()
	last := b.lookout
	b.lookout, b.closed = nil, true
	b.mu.Unlock()
	for _, l := range b.shards {
		l.Idle()
	}
	b.serial.Idle()
	b.recoveries.Idle()
	b.intents.close()
	if last != nil {
		last.w.close()
	}
	return b.ledger.Close()
}

// Home is the mailbox's folder.
func (b *Box) Home() string { return b.home }

// Ledger is the mailbox's ledger.
func (b *Box) Ledger() *audit.Ledger { return b.ledger }

// MailboxID names the mailbox; its ledger's chain begins with it.
func (b *Box) MailboxID() string { return b.id }

// Options returns the options in force, with defaults filled in.
func (b *Box) Options() Options { return b.o }

func (b *Box) now() time.Time { return b.o.Now() }

// bootRecord says in which boot of a machine and on which inode the mailbox was
// last recovered. Any difference means that unflushed renames may be lost, or
// that the home was moved or copied, or a folder of tasks replaced. The boot
// tells the machine too: the name of a host changes, and containers share it or
// have one each. Recovering stands while a recovery within one boot is at work:
// if it dies, the next Open goes on with it. Stopped says which tasks a recovery
// found gone (ErrGone).
type bootRecord struct {
	Boot       string `json:"boot"`
	Host       string `json:"host,omitzero"` // in records of earlier mboxes; it tells nothing
	Dev        uint64 `json:"dev"`
	Inode      uint64 `json:"inode"`
	Folders    inodes `json:"folders"` // of taskPlaces
	Recovering bool   `json:"recovering,omitzero"`
	Stopped    string `json:"stopped,omitzero"`
}

func currentBoot(dir string) (bootRecord, error) {
	boot, err := durable.BootID()
	if err != nil {
		return bootRecord{}, err
	}
	info, err := os.Stat(privatePath(dir))
	if err != nil {
		return bootRecord{}, err
	}
	folders, err := taskInodes(dir)
	return bootRecord{Boot: boot, Dev: deviceOf(info), Inode: inode(info), Folders: folders}, err
}

// readBoot returns the boot record; an empty one, which no machine has, where
// there is none or it is damaged.
func readBoot(dir string) (bootRecord, error) {
	path := privatePath(dir, "boot")
	data, err := durable.Read(path, 4096)
	if errors.Is(err, fs.ErrNotExist) {
		return bootRecord{}, nil
	}
	if err != nil {
		return bootRecord{}, err
	}
	var was bootRecord
	if schemas.Decode(data, &was) != nil {
		return bootRecord{}, nil
	}
	was.Host = ""
	return was, nil
}

func writeBoot(dir string, r bootRecord, m durable.Mode) error {
	data, err := schemas.Encode(r)
	if err != nil {
		return err
	}
	return durable.Replace(privatePath(dir, "boot"), data, m)
}

// Salt reads the salt of the mailbox in dir, for hashes of what may not stand in
// the ledger itself.
func Salt(dir string) ([]byte, error) {
	return durable.Read(privatePath(dir, "keys", "salt"), 4096)
}

// saltedHash is how an identity or key stands in the ledger.
func (b *Box) saltedHash(kind, text string) string {
	return audit.Hash([]byte(string(b.salt) + kind + "\n" + text))
}

// Session is the task's session as the ledger has it: itself, or its salted
// hash; nil where there is none.
func (b *Box) Session(t *Task) *string {
	if t == nil || t.Source.Session == "" {
		return nil
	}
	s := t.Source.Session
	if b.o.HashIdentities {
		s = b.saltedHash("session", s)
	}
	return &s
}

// folder is where a task in the state lies. For archived tasks it is the
// month's folder, named by the time of the line that archived them.
func (b *Box) folder(s State, archivedAt time.Time) string {
	if s == Archived {
		return b.path("tasks", "archive", archivedAt.UTC().Format("2006-01"))
	}
	return b.path("tasks", string(s))
}
