package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// Folders whose files mbox did not make, or does not keep in one place.
const (
	archive    = "tasks/archive"
	quarantine = "tasks/quarantine"
	staging    = ".mbox/tmp"
	leases     = ".mbox/leases"
)

// idOf is the folded id of the task whose file bears the name.
func idOf(file string) string { return task.ID(task.TrimJSON(path.Base(file))).Fold() }

// missing tells of folders and files that every mailbox has: such as are not there, and
// what lies in their place.
func (v *run) missing() error {
	files := map[string]string{".mbox/intents": "is missing; mbox recover makes it anew", ".mbox/journal": ""}
	for _, name := range home.LockNames() {
		files[".mbox/locks/"+name] = "the lock file is missing; mbox recover makes it anew"
	}
	for name, missing := range files {
		if err := v.place(name, false, missing); err != nil {
			return err
		}
	}
	for _, dir := range home.Folders {
		missing := "the folder is missing"
		if top, _, _ := strings.Cut(dir, "/"); top == "memory" || top == "agents" || dir == task.ArtifactsDir { // not of the mailbox itself, or made when it is needed
			missing = ""
		}
		if err := v.place(dir, true, missing); err != nil {
			return err
		}
	}
	if _, err := home.Salt(v.dir); errors.Is(err, home.ErrSalt) {
		v.find(14, ".mbox/keys/salt", "is missing or damaged; a backup has it, and mbox recover makes another")
	}
	if err := audit.CheckWritable(v.dir); err != nil {
		v.note("%s", err)
	}
	return nil
}

// place tells whether a file or folder is missing, "" being that it need not be there, or
// is a folder or file. Where it is neither, its shape tells of it.
func (v *run) place(name string, folder bool, missing string) error {
	info, err := os.Lstat(v.path(name))
	switch {
	case errors.Is(err, fs.ErrNotExist) && missing != "":
		v.find(14, name, missing)
	case err == nil && info.IsDir() && !folder:
		v.find(14, name, "is a folder, not a regular file")
	case err == nil && info.Mode().IsRegular() && folder:
		v.find(14, name, "is a regular file, "+noFolder)
	}
	return gone(err)
}

// lastRecovery tells whether the next command has to recover everything first.
func (v *run) lastRecovery() error {
	now, err := home.CurrentBoot(v.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there is no .mbox, and it was said
	}
	if err != nil {
		return err
	}
	was, err := home.ReadBoot(v.dir)
	if err != nil {
		return err
	}
	v.due, v.r.Gone = was != now, was.Stopped
	if v.r.Gone == "" && was.Dev == now.Dev && was.Inode == now.Inode && was.Folders != (home.Inodes{}) {
		v.r.Gone = was.Replaced(now.Folders)
	}
	switch {
	case !v.due:
	case v.r.Gone != "":
		v.note("nothing is written until the tasks are back: %s", v.r.Gone)
	case was.SameAs(now):
		v.note("a recovery was interrupted; the next command goes on with it")
	default:
		v.note("the machine was restarted, or the home was moved or restored, since the last recovery: the next command recovers everything first")
	}
	return nil
}

// walk looks at every file and folder of the mailbox, on all cores. What is not as
// the ledger has it is only a doubt yet: it may have moved on since the ledger was
// read. So is what the ledger knows and the walk has not seen.
func (v *run) walk() error {
	for _, t := range v.fold.tasks {
		if t.file() != "" {
			v.total++
		}
	}
	if err := v.visit("."); err != nil {
		return err
	}
	for len(v.dirs) > 0 {
		dir := v.dirs[0]
		v.dirs = v.dirs[1:]
		names := []string{"tasks", "audit", "decisions", "changes", "channels", ".mbox"}
		if dir != "." {
			var err error
			if names, err = durable.Names(v.path(dir)); gone(err) != nil {
				return err
			}
		}
		if err := home.OnAllCores(v.ctx, len(names), func(i int) error { return v.visit(path.Join(dir, names[i])) }); err != nil {
			return err
		}
	}
	for key, t := range v.fold.tasks {
		if _, strays := v.strays[key]; !strays && !t.seen && t.file() != "" {
			v.strays[key] = nil
		}
	}
	for file, k := range v.fold.files {
		if !k.seen {
			v.doubts[file] = true
		}
	}
	v.o.Progress(v.r.Tasks, max(v.total, v.r.Tasks))
	return nil
}

// gone takes no file for no error.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// visit looks at one file or folder.
func (v *run) visit(file string) error {
	dir := path.Dir(file)
	if entry, is := strings.CutSuffix(file, home.ReasonSuffix); is && dir == quarantine {
		if file = entry; v.fold.files[entry] != nil {
			return nil // it is looked at with its entry
		}
	}
	info, found, err := v.look(file)
	if err != nil {
		return err
	}
	if k := v.fold.files[file]; k != nil {
		k.seen = true
	}
	folder := info != nil && info.IsDir()
	v.mu.Lock()
	if len(found) > 0 {
		v.doubts[file] = true
	}
	if folder && !foreign(dir) {
		v.dirs = append(v.dirs, file)
	}
	v.mu.Unlock()
	if s := home.StateAt("", file); s != task.None && !(folder && s == task.Archived) {
		return v.visitTask(file, s)
	}
	return nil
}

// foreign tells whether the names in a folder count, and not what lies there: in
// quarantine all is as it came, and who has staged a file is asked of the intent
// records.
func foreign(dir string) bool { return dir == quarantine || dir == staging }

// shape says what is wrong with a file's kind, mode, device or links.
func (v *run) shape(info fs.FileInfo) string {
	want := durable.FileMode
	if info.IsDir() {
		want = durable.DirMode
	}
	st := durable.StatOf(info)
	switch {
	case !info.IsDir() && !info.Mode().IsRegular():
		return fmt.Sprintf("is a %s, not a regular file", durable.KindOf(info.Mode()))
	case info.Mode()&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != want:
		return fmt.Sprintf("mode is %04o, not %04o", info.Mode().Perm(), want)
	case uint64(st.Dev) != v.device:
		return "is on another file system than the home"
	case st.Nlink != 1 && !info.IsDir():
		return fmt.Sprintf("has %d %s", st.Nlink, linked)
	}
	return ""
}
