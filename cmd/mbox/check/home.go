package check

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/schemas"
)

// The folders of a home, as the format's description lists them.
var homeFolders = []string{
	"tasks/pending", "tasks/in-progress", "tasks/completed", "tasks/failed", "tasks/quarantine", "tasks/archive",
	"audit/shared", "decisions", "changes", "memory/context", "agents",
	".mbox/tmp", ".mbox/locks", ".mbox/leases", ".mbox/keys",
}

// ours are the names in the root of a home that mbox makes or reads.
var ours = []string{
	"tasks", "audit", "decisions", "changes", "channels", "memory", "agents", "prompts", ".mbox",
	config.Name, config.Dir, "README.md", "AGENTS.md",
}

// nobodys are names that file systems and desktops make by themselves.
var nobodys = []string{"lost+found", ".DS_Store"}

// Stranger is the first name in the folder, which need not be there, that is not
// one of a home; "" if there is none.
func Stranger(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, e := range entries {
		if !slices.Contains(ours, e.Name()) && !slices.Contains(nobodys, e.Name()) {
			return e.Name(), nil
		}
	}
	return "", nil
}

func (e *Exam) isMailbox() error {
	_, err := os.Lstat(filepath.Join(e.Home, ".mbox", "VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(home.CheckVacant(e.Home), fmt.Errorf("%s: %w", e.Home, mailbox.ErrNoMailbox))
	}
	return err
}

func (e *Exam) config() {
	c, err := config.Load(e.Home)
	if err == nil {
		err = config.CheckBridges(c, e.Kinds)
	}
	if err != nil {
		e.fault("config", "", err)
		c = config.Default()
	} else {
		e.Config = c
		e.add("config", Fine, "", "%s", readFrom(config.Files(c)))
		if stray := config.Ignored(c); len(stray) > 0 {
			e.add("config", Doubt, "a name that ends in .toml has it read, one that begins with a dot is passed over", "nobody reads %s", few(stray))
		}
		if dead := config.NamingDead(c); len(dead) > 0 {
			e.add("config", Doubt, "take its name out there, or mbox agent restore brings it back", "an agent that is dead is named: %s", few(dead))
		}
	}
	e.options = c.Options()
	e.options.Progress = e.Progress
	if e.options.Sync == durable.None {
		e.add("sync", Doubt, `sync = "standard" in mbox.toml`, "nothing is flushed: a power cut loses what was acknowledged")
	}
}

// readFrom tells which files the configuration was read from.
func readFrom(files []string) string {
	further := len(files)
	if slices.Contains(files, config.Name) {
		further--
	}
	switch further {
	case 0:
		return config.Name + " is read"
	case 1:
		return config.Name + " and 1 file of " + config.Dir + " are read"
	}
	return fmt.Sprintf("%s and %d files of %s are read", config.Name, further, config.Dir)
}

// folders looks for missing folders and for what is none.
func (e *Exam) folders() {
	bad := 0
	for _, name := range homeFolders {
		path := filepath.Join(e.Home, name)
		info, err := os.Lstat(path)
		switch {
		case err == nil && info.IsDir():
		case errors.Is(err, fs.ErrNotExist) && name == "audit/shared" && e.lostLedger():
			bad++
			e.add("folders", Wrong, WayOut, "%s is missing, and the ledger with it", name)
		case errors.Is(err, fs.ErrNotExist) && e.Fix:
			if bad++; e.check("folders", durable.MkdirAll(path, e.options.Sync)) {
				e.add("folders", Fixed, "", "%s is made", name)
			}
		case errors.Is(err, fs.ErrNotExist):
			bad++
			e.add("folders", Wrong, "mbox doctor --fix makes it", "%s is missing", name)
		default:
			bad++
			e.add("folders", Wrong, MoveOut(path), "%s is no folder", name)
		}
	}
	if bad == 0 {
		e.add("folders", Fine, "", "all %d are there", len(homeFolders))
	}
}

// lostLedger tells whether lines were written that are not in the ledger.
func (e *Exam) lostLedger() bool {
	box, err := mailbox.Look(e.Home, e.options)
	if err != nil {
		return false
	}
	defer box.Close()
	at, _ := box.Ledger().Seen()
	return at.Seq > 0
}

// Places tells of the first folder or lock file that is not there.
func Places(dir string) []Finding {
	for _, name := range homeFolders {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || !info.IsDir() {
			return []Finding{{Check: Mailbox, Level: Wrong, Text: name + " is missing, or no folder", Hint: "mbox doctor"}}
		}
	}
	for _, name := range home.LockNames() {
		if _, err := os.Lstat(home.LockPath(dir, name)); errors.Is(err, fs.ErrNotExist) {
			return []Finding{{Check: Mailbox, Level: Wrong, Text: ".mbox/locks/" + name + " is missing", Hint: "mbox recover"}}
		}
	}
	return nil
}

// modes looks at owner and permissions of everything that is mbox's own: of what
// else lies in the root of the home it looks at nothing. What
// lies in quarantine stays as it came. What was dropped into pending and is no task
// yet, and what agents keep in their homes, is theirs: of that only the owner
// matters, for what is another user's mbox cannot read.
func (e *Exam) modes() {
	m := modeCheck{e: e, device: -1}
	err := filepath.WalkDir(e.Home, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // moved on while we looked
			return nil
		case errors.Is(err, fs.ErrPermission):
			m.closed = true
			m.say(path, "cannot be read")
			return fs.SkipDir
		case err != nil:
			return err
		}
		return m.look(path, d)
	})
	if !e.check("modes", err) {
		return
	}
	found, hint := strings.Join(m.first, "; "), "mbox doctor --fix mends modes"
	if m.bad > len(m.first) {
		found += fmt.Sprintf(" and %d more", m.bad-len(m.first))
	}
	if m.odd != "" {
		hint = MoveOut(m.odd)
	}
	if m.closed {
		hint = OpenUp(e.Home)
	}
	if m.foreign {
		hint = fmt.Sprintf("sudo chown -Rh %s %s", schemas.ShellWord(UserName(os.Geteuid())), schemas.ShellWord(e.Home))
	}
	switch {
	case m.bad > 0:
		e.add("modes", Wrong, hint, "%s", found)
	case m.mended > 0:
		e.add("modes", Fixed, "", "%d mended", m.mended)
	default:
		e.add("modes", Fine, "", "folders 0700, files 0600, one owner, one device")
	}
	if m.theirs > maxTheirs {
		e.add("modes", Doubt, "", "agents' homes: only the first %d files were looked at", maxTheirs)
	}
}

// maxTheirs bounds how many files of agents are looked at.
const maxTheirs = 50_000

type modeCheck struct {
	e           *Exam
	device      int64
	bad, mended int
	first       []string // what is wrong, the first few
	odd         string   // the first that is neither file nor folder
	closed      bool     // some of it cannot be opened, so not mended
	foreign     bool     // some of it is another user's
	theirs      int      // files in agents' homes so far
}

func (m *modeCheck) look(path string, d fs.DirEntry) error {
	name, _ := filepath.Rel(m.e.Home, path)
	top, dir := strings.Split(name, string(filepath.Separator)), filepath.Dir(name)
	if name != "." && !slices.Contains(ours, top[0]) {
		return skip(d)
	}
	info, err := d.Info()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, fs.ErrPermission):
		m.closed = true
		m.say(path, "cannot be looked at")
		return nil
	case err != nil:
		return err
	}
	switch {
	case dir == filepath.Join("tasks", "quarantine"):
		return skip(d)
	case dir == filepath.Join("tasks", "pending") && !m.admitted(path, info):
		m.owner(path, info)
		return skip(d)
	case top[0] == "agents" && len(top) > 2:
		if m.theirs++; m.theirs > maxTheirs {
			return filepath.SkipDir
		}
		m.owner(path, info)
		return nil
	}
	m.judge(path, info)
	return nil
}

// admitted tells whether what lies in pending with another mode than a task's is a
// task all the same, or cannot be read: a drop that names a transaction is refused.
func (m *modeCheck) admitted(path string, info fs.FileInfo) bool {
	if !info.Mode().IsRegular() || modeOf(info) == durable.FileMode {
		return false
	}
	f, err := home.Read(m.e.Home, mailbox.Pending, path)
	if err != nil {
		return errors.Is(err, fs.ErrPermission)
	}
	return f.Task.Mbox.TX != "" && f.Task.ID.File() == filepath.Base(path)
}

// skip passes over what lies in it, if it is a folder.
func skip(d fs.DirEntry) error {
	if d.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// owner tells whether the file is the user's own.
func (m *modeCheck) owner(path string, info fs.FileInfo) bool {
	stat := info.Sys().(*syscall.Stat_t)
	if int(stat.Uid) == os.Geteuid() {
		return true
	}
	m.foreign = true
	m.say(path, fmt.Sprintf("belongs to user %d", stat.Uid))
	return false
}

func (m *modeCheck) judge(path string, info fs.FileInfo) {
	want := durable.FileMode
	if info.IsDir() {
		want = durable.DirMode
	}
	device := int64(info.Sys().(*syscall.Stat_t).Dev)
	if m.device < 0 {
		m.device = device
	}
	switch {
	case !info.IsDir() && !info.Mode().IsRegular():
		m.odd = cmp.Or(m.odd, path)
		m.say(path, "is no regular file")
	case !m.owner(path, info):
	case device != m.device:
		m.say(path, "is on another device: one mailbox, one file system")
	case modeOf(info) == want:
	case m.e.Fix && mendMode(path, info, want) == nil:
		m.mended++
	default:
		m.closed = m.closed || info.Mode()&0o400 == 0
		m.say(path, fmt.Sprintf("has mode %04o, not %04o", info.Mode().Perm(), want))
	}
}

// modeOf is what of a file's mode has to be right.
func modeOf(info fs.FileInfo) fs.FileMode {
	return info.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
}

func (m *modeCheck) say(path, what string) {
	name, _ := filepath.Rel(m.e.Home, path)
	if m.bad++; len(m.first) < 5 {
		m.first = append(m.first, name+" "+what)
	}
}

// mendMode sets the mode of exactly the file that was looked at: what somebody
// puts in its place meanwhile, a symlink above all, keeps its own.
func mendMode(path string, seen fs.FileInfo, want fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(info, seen) {
		return fmt.Errorf("%s: changed meanwhile", path)
	}
	return f.Chmod(want)
}
