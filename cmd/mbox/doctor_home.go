package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"mbox/mailbox"
	"mbox/mailbox/durable"
)

// The folders of a home, as the format's description lists them.
var homeFolders = []string{
	"tasks/pending", "tasks/in-progress", "tasks/completed", "tasks/failed", "tasks/quarantine", "tasks/archive",
	"audit/shared", "decisions", "changes", "memory/context", "agents",
	".mbox/tmp", ".mbox/locks", ".mbox/leases", ".mbox/spare", ".mbox/keys",
}

func (e *exam) isMailbox() error {
	_, err := os.Lstat(filepath.Join(e.home, ".mbox", "VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", e.home, mailbox.ErrNoMailbox)
	}
	return err
}

func (e *exam) config() {
	config, err := loadConfig(e.home)
	if err != nil {
		_, hint := judge(err)
		e.add("config", wrong, hint, "%v", err)
		config, _ = parseConfig(configFile, nil) // the defaults
	} else {
		e.s.config = config
		e.add("config", fine, "", "%s is read", configFile)
	}
	e.options = config.options()
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
			e.add("folders", wrong, "", "%s is no folder", name)
		}
	}
	if bad == 0 {
		e.add("folders", fine, "", "all %d are there", len(homeFolders))
	}
}

// modes looks at owner and permissions of everything that is mbox's own. What
// waits in pending or lies in quarantine is others', and so is what agents keep
// in their homes.
func (e *exam) modes() {
	m := modeCheck{exam: e, device: -1}
	err := filepath.WalkDir(e.home, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // moved on while we looked
			return nil
		}
		if err != nil {
			return err
		}
		return m.look(path, d)
	})
	if !e.check("modes", err) {
		return
	}
	switch {
	case m.mended > 0:
		e.add("modes", fixed, "", "%d mended", m.mended)
	case m.bad == 0:
		e.add("modes", fine, "", "folders 0700, files 0600, one owner, one device")
	case m.bad > len(m.first):
		e.add("modes", wrong, "mbox doctor --fix mends modes", "%s and %d more", strings.Join(m.first, "; "), m.bad-len(m.first))
	default:
		e.add("modes", wrong, "mbox doctor --fix mends modes", "%s", strings.Join(m.first, "; "))
	}
}

type modeCheck struct {
	exam        *exam
	device      int64
	bad, mended int
	first       []string // what is wrong, the first few
}

func (m *modeCheck) look(path string, d fs.DirEntry) error {
	name, _ := filepath.Rel(m.exam.home, path)
	info, err := d.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	switch dir := filepath.Dir(name); {
	case dir == "." && strings.HasPrefix(name, probe):
		return filepath.SkipDir
	case dir == filepath.Join("tasks", "pending"), dir == filepath.Join("tasks", "quarantine"):
		if d.IsDir() {
			return filepath.SkipDir
		}
		return nil
	case dir == "agents":
		m.judge(path, name, info)
		return filepath.SkipDir
	}
	m.judge(path, name, info)
	return nil
}

func (m *modeCheck) judge(path, name string, info fs.FileInfo) {
	want, what := durable.FileMode, ""
	if info.IsDir() {
		want = durable.DirMode
	}
	stat := info.Sys().(*syscall.Stat_t)
	if m.device < 0 {
		m.device = int64(stat.Dev)
	}
	switch {
	case !info.IsDir() && !info.Mode().IsRegular():
		what = "is no regular file"
	case int(stat.Uid) != os.Getuid():
		what = fmt.Sprintf("belongs to user %d", stat.Uid)
	case int64(stat.Dev) != m.device:
		what = "is on another device: one mailbox, one file system"
	case info.Mode().Perm() == want:
		return
	case m.exam.fix && mendMode(path, info, want) == nil:
		m.mended++
		return
	default:
		what = fmt.Sprintf("has mode %04o, not %04o", info.Mode().Perm(), want)
	}
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
