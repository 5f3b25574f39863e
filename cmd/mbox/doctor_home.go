package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/mailbox/durable"
)

// The folders of a home, as the format's description lists them.
var homeFolders = []string{
	"tasks/pending", "tasks/in-progress", "tasks/completed", "tasks/failed", "tasks/quarantine", "tasks/archive",
	"audit/shared", "decisions", "changes", "memory/context", "agents",
	".mbox/tmp", ".mbox/locks", ".mbox/leases", ".mbox/keys",
}

func (e *exam) isMailbox() error {
	_, err := os.Lstat(filepath.Join(e.home, ".mbox", "VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(mailbox.CheckVacant(e.home), fmt.Errorf("%s: %w", e.home, mailbox.ErrNoMailbox))
	}
	return err
}

func (e *exam) config() {
	c, err := config.Load(e.home)
	if err != nil {
		_, hint := judge(err)
		e.add("config", wrong, hint, "%v", err)
		c = config.Default()
	} else {
		e.s.config = c
		e.add("config", fine, "", "%s is read", config.Name)
	}
	e.options = c.Options()
	e.options.Progress = e.s.progress
	if e.options.Sync == durable.None {
		e.add("sync", doubt, `sync = "standard" in mbox.toml`, "nothing is flushed: a power cut loses what was acknowledged")
	}
}

// folders looks for missing folders and for what is none.
func (e *exam) folders() {
	bad := 0
	for _, name := range homeFolders {
		path := filepath.Join(e.home, name)
		info, err := os.Lstat(path)
		switch {
		case err == nil && info.IsDir():
		case errors.Is(err, fs.ErrNotExist) && e.fix:
			if bad++; e.check("folders", durable.MkdirAll(path, e.options.Sync)) {
				e.add("folders", fixed, "", "%s is made", name)
			}
		case errors.Is(err, fs.ErrNotExist):
			bad++
			e.add("folders", wrong, "mbox doctor --fix makes it", "%s is missing", name)
		default:
			bad++
			e.add("folders", wrong, moveOut(path), "%s is no folder", name)
		}
	}
	if bad == 0 {
		e.add("folders", fine, "", "all %d are there", len(homeFolders))
	}
}

// modes looks at owner and permissions of everything that is mbox's own. What
// lies in quarantine stays as it came. What waits in pending, and what agents
// keep in their homes, is theirs: of that only the owner matters, for what is
// another user's mbox cannot read.
func (e *exam) modes() {
	m := modeCheck{exam: e, device: -1}
	err := filepath.WalkDir(e.home, func(path string, d fs.DirEntry, err error) error {
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
		hint = moveOut(m.odd)
	}
	if m.closed {
		hint = openUp(e.home)
	}
	if m.foreign {
		hint = fmt.Sprintf("sudo chown -Rh %s %s", quoteWord(userName(os.Geteuid())), quoteWord(e.home))
	}
	switch {
	case m.bad > 0:
		e.add("modes", wrong, hint, "%s", found)
	case m.mended > 0:
		e.add("modes", fixed, "", "%d mended", m.mended)
	default:
		e.add("modes", fine, "", "folders 0700, files 0600, one owner, one device")
	}
	if m.theirs > maxTheirs {
		e.add("modes", doubt, "", "agents' homes: only the first %d files were looked at", maxTheirs)
	}
}

// maxTheirs bounds how many files of agents are looked at.
const maxTheirs = 50_000

type modeCheck struct {
	exam        *exam
	device      int64
	bad, mended int
	first       []string // what is wrong, the first few
	odd         string   // the first that is neither file nor folder
	closed      bool     // some of it cannot be opened, so not mended
	foreign     bool     // some of it is another user's
	theirs      int      // files in agents' homes so far
}

func (m *modeCheck) look(path string, d fs.DirEntry) error {
	name, _ := filepath.Rel(m.exam.home, path)
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
	switch top, dir := strings.Split(name, string(filepath.Separator)), filepath.Dir(name); {
	case dir == "." && strings.HasPrefix(name, probe):
		return filepath.SkipDir
	case dir == filepath.Join("tasks", "pending"), dir == filepath.Join("tasks", "quarantine"):
		if filepath.Base(dir) == "pending" {
			m.owner(path, info)
		}
		if d.IsDir() {
			return filepath.SkipDir
		}
		return nil
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
	case info.Mode().Perm() == want:
	case m.exam.fix && mendMode(path, info, want) == nil:
		m.mended++
	default:
		m.closed = m.closed || info.Mode()&0o400 == 0
		m.say(path, fmt.Sprintf("has mode %04o, not %04o", info.Mode().Perm(), want))
	}
}

func (m *modeCheck) say(path, what string) {
	name, _ := filepath.Rel(m.exam.home, path)
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
