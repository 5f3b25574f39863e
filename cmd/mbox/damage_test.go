package main

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/linttest"
	"mbox/mailbox/verify"
)

// damages are ways to break a home, each with where the way out ends: "" is a
// clean home, else what the last hint speaks of.
var damages = map[string]struct {
	do  func(w *walk)
	end string
}{
	"nothing":            {func(*walk) {}, ""},
	"the ledger deleted": {func(w *walk) { w.remove("audit/shared") }, ""},
	"audit deleted":      {func(w *walk) { w.remove("audit") }, ""},
	"the ledger cut":     {func(w *walk) { w.edit(w.ledger(), func(b []byte) []byte { return b[:len(b)/3] }) }, ""},
	"a line tampered with": {func(w *walk) {
		w.edit(w.ledger(), func(b []byte) []byte { b[bytes.IndexByte(b, '\n')+30] ^= 1; return b })
	}, ""},
	"the first line gone":      {func(w *walk) { w.edit(w.ledger(), func(b []byte) []byte { return b[bytes.IndexByte(b, '\n')+1:] }) }, ""},
	".mbox deleted":            {func(w *walk) { w.remove(".mbox") }, ""},
	".mbox and ledger deleted": {func(w *walk) { w.remove(".mbox"); w.remove("audit") }, "backup"},
	".mbox gone, ledger cut": {func(w *walk) {
		w.remove(".mbox")
		w.edit(w.ledger(), func(b []byte) []byte { return b[:bytes.IndexByte(b, '\n')+1] })
	}, ""},
	"VERSION gone":             {func(w *walk) { w.remove(".mbox/VERSION") }, ""},
	"VERSION cut":              {func(w *walk) { w.edit(".mbox/VERSION", func(b []byte) []byte { return b[:len(b)/2] }) }, ""},
	"the salt gone":            {func(w *walk) { w.remove(".mbox/keys/salt") }, ""},
	"the salt cut":             {func(w *walk) { w.edit(".mbox/keys/salt", func(b []byte) []byte { return b[:len(b)/2] }) }, ""},
	"locks gone":               {func(w *walk) { w.remove(".mbox/locks") }, ""},
	"one lock gone":            {func(w *walk) { w.remove(".mbox/locks/chain") }, ""},
	"an intent damaged":        {func(w *walk) { w.edit(".mbox/intents", func(b []byte) []byte { copy(b, "intent x\n"); return b }) }, ""},
	"the intents cut":          {func(w *walk) { w.edit(".mbox/intents", func(b []byte) []byte { return b[:len(b)/3] }) }, ""},
	"the intents of NULs":      {func(w *walk) { w.edit(".mbox/intents", func(b []byte) []byte { clear(b); return b }) }, ""},
	"the intents gone":         {func(w *walk) { w.remove(".mbox/intents") }, ""},
	"intents and locks gone":   {func(w *walk) { w.remove(".mbox/intents"); w.remove(".mbox/locks") }, ""},
	"an old lock planted":      {func(w *walk) { w.edit(".mbox/locks/recover", nil) }, ""},
	"the head record damaged":  {func(w *walk) { w.edit(".mbox/locks/chain", func(b []byte) []byte { b[20] ^= 1; return b }) }, ""},
	"the index damaged":        {func(w *walk) { w.edit(".mbox/index", func([]byte) []byte { return []byte("junk") }) }, ""},
	"a folder of its own gone": {func(w *walk) { w.remove(".mbox/tmp") }, ""},
	"a folder of tasks gone":   {func(w *walk) { w.remove("tasks/failed") }, ""},
	"a mode changed":           {func(w *walk) { w.must(os.Chmod(w.path("tasks/completed/done.json"), 0o644)) }, ""},
	"a copy edited":            {func(w *walk) { w.edit(w.file("audit/coder/*.jsonl"), func(b []byte) []byte { return b[:20] }) }, ""},
	"a staged file planted":    {func(w *walk) { w.edit(".mbox/tmp/x~00000000000000000000000000000000", nil) }, ""},
	"read-only by an I/O error": {func(w *walk) {
		w.edit(".mbox/readonly", func([]byte) []byte { return []byte("2026-01-01: the disk broke") })
	}, ""},
	"a task edited":               {func(w *walk) { w.edit("tasks/completed/done.json", func(b []byte) []byte { return append(b, ' ') }) }, ""},
	"a task removed":              {func(w *walk) { w.remove("tasks/completed/done.json") }, ""},
	"two tasks removed":           {func(w *walk) { w.remove("tasks/completed/done.json"); w.remove("tasks/in-progress/running.json") }, ""},
	"a decision edited":           {func(w *walk) { w.edit(w.file("decisions/*.md"), func(b []byte) []byte { return append(b, '\n') }) }, "backup"},
	"a quarantine entry removed":  {func(w *walk) { w.remove(w.file("tasks/quarantine/*~????????????????????????????????")) }, "backup"},
	"a copy beside a task":        {func(w *walk) { w.edit("tasks/completed/done (copy).json", nil) }, ""},
	"a note among decisions":      {func(w *walk) { w.edit("decisions/notes.md", nil) }, ""},
	"a file among artifacts":      {func(w *walk) { w.edit("tasks/artifacts/.DS_Store", nil) }, ""},
	"a file beside the ledger":    {func(w *walk) { w.edit("audit/shared/old.bak", nil) }, ""},
	"another name of a task":      {func(w *walk) { w.must(os.Link(w.path("tasks/completed/done.json"), w.home+".link")) }, "other names"},
	"a folder of tasks swapped":   {func(w *walk) { w.remove("tasks/completed"); w.must(os.Mkdir(w.path("tasks/completed"), 0o700)) }, ""},
	"a private file open to all":  {func(w *walk) { w.must(os.Chmod(w.path(".mbox/VERSION"), 0o666)) }, ""},
	"a private file closed":       {func(w *walk) { w.must(os.Chmod(w.path(".mbox/locks/numbers"), 0)) }, ""},
	"a waiting task open to all":  {func(w *walk) { w.must(os.Chmod(w.path("tasks/pending/waiting.json"), 0o644)) }, ""},
	"a reason open to all":        {func(w *walk) { w.must(os.Chmod(w.path(w.file("tasks/quarantine/*.reason.json")), 0o644)) }, ""},
	"junk among the leases":       {func(w *walk) { w.edit(".mbox/leases/junk", nil); w.plant(".mbox/leases/a.b") }, ""},
	"junk among the staged files": {func(w *walk) { w.plant(".mbox/tmp/junk") }, ""},
	"junk among the copies":       {func(w *walk) { w.edit("audit/coder/junk", nil); w.plant("audit/mbox/more") }, ""},
	"junk in the quarantine":      {func(w *walk) { w.plant("tasks/quarantine/junk") }, ""},
	"VERSION of another mailbox": {func(w *walk) {
		w.edit(".mbox/VERSION", func(b []byte) []byte {
			return regexp.MustCompile(`[0-9a-f]{32}`).ReplaceAll(b, bytes.Repeat([]byte("0f"), 16))
		})
	}, ""},
	"a folder for a task": {func(w *walk) {
		w.remove("tasks/completed/done.json")
		w.plant("tasks/completed/done.json")
	}, ""},
	"a file for a copy":          {func(w *walk) { w.remove("audit/tester"); w.edit("audit/tester", nil) }, ""},
	"a folder for a copy's file": {func(w *walk) { name := w.file("audit/coder/*.jsonl"); w.remove(name); w.plant(name) }, ""},
}

// The hint of a fault says what mends just that.
func TestHintOfFault(t *testing.T) {
	home := t.TempDir()
	for name, make := range map[string]func(path string) error{
		"folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"link":   func(path string) error { return os.Symlink("nowhere", path) },
		"file":   func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"closed": func(path string) error { return os.WriteFile(path, nil, 0) },
	} {
		for _, dir := range []string{".mbox", "tasks/pending", "tasks/completed", "audit/coder", "decisions"} {
			if err := errors.Join(os.MkdirAll(filepath.Join(home, dir), 0o700), make(filepath.Join(home, dir, name))); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		gone string
		f    verify.Finding
		want string
	}{
		{"", verify.Finding{Invariant: 8, File: "tasks/pending/gone", Seq: 1, Task: "x"}, "--adopt x"},
		{"why", verify.Finding{Invariant: 8, File: "tasks/pending/gone", Seq: 1, Task: "x"}, "--adopt-deleted"},
		{"", verify.Finding{Invariant: 8, File: "tasks/completed/file", What: "no ledger line knows it"}, "move " + home + "/tasks/completed/file out"},
		{"", verify.Finding{Invariant: 14, File: "tasks/completed/folder", Seq: 1, What: "is no regular file"}, "move "},
		{"", verify.Finding{Invariant: 14, File: ".mbox/link", What: "is a symlink, not a regular file"}, "move "},
		{"", verify.Finding{Invariant: 14, File: ".mbox/file", What: "mode is 0644, not 0600"}, "mbox doctor --fix"},
		{"", verify.Finding{Invariant: 14, File: ".mbox/closed", What: "mode is 0000, not 0600"}, "chmod -R u+rwX " + home + ", then"},
		{"", verify.Finding{Invariant: 14, File: "tasks/pending/file", What: "mode is 0644, not 0600"}, "mbox doctor --fix"},
		{"", verify.Finding{Invariant: 14, File: ".mbox/locks/chain", What: "the lock file is missing"}, "mbox recover mends"},
		{"", verify.Finding{Invariant: 13, File: ".mbox/folder", What: "is the lease of no task in progress"}, "mbox recover mends"},
		{"", verify.Finding{Invariant: 11, File: "audit/coder/file", What: "seq 1 of the ledger is missing"}, "mbox recover mends"},
		{"", verify.Finding{Invariant: 12, File: "decisions/file", Seq: 1, What: "its bytes are not those"}, "backup"},
		{"", verify.Finding{Invariant: 13, File: "tasks/quarantine/gone", Seq: 1, What: "the entry is gone"}, "--adopt-deleted"},
		{"", verify.Finding{Invariant: 12, File: "decisions/file", What: "no ledger line knows it"}, "move "},
	} {
		if got := nextStep(t.Context(), home, verify.Report{Gone: c.gone, Findings: []verify.Finding{c.f}}); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s", c.f, got)
		}
	}
}

// Whoever reads the hints, and nothing else, comes out: at a clean home, or at a
// backup. No hint leads in a circle, and looking works everywhere.
func TestWayOutOfDamage(t *testing.T) {
	clean := &walk{T: t, bin: program(t), home: filepath.Join(t.TempDir(), "home")}
	clean.furnish()
	for _, name := range someDamages(t, sized(4, 9, 99)) {
		t.Run(name, func(t *testing.T) {
			w := clean.copied(t)
			damages[name].do(w)
			w.looks()
			w.out(damages[name].end)
		})
	}
}

// Whatever is damaged, the second recover changes no byte of what the first left.
func TestRecoverDamageTwice(t *testing.T) {
	clean := &walk{T: t, bin: program(t), home: filepath.Join(t.TempDir(), "home")}
	clean.furnish()
	for _, name := range someDamages(t, sized(9, 99, 99)) {
		t.Run(name, func(t *testing.T) {
			w := clean.copied(t)
			damages[name].do(w)
			first, second := w.recover(), w.recover()
			for name := range maps.Keys(second) {
				if first[name] != second[name] {
					t.Errorf("%s was changed from %q to %q", name, first[name], second[name])
				}
			}
			if len(first) != len(second) {
				t.Errorf("%d files, then %d", len(first), len(second))
			}
		})
	}
}

// someDamages draws n of them.
func someDamages(t *testing.T, n int) []string {
	names := slices.Sorted(maps.Keys(damages))
	rand.New(rand.NewPCG(seedOf(t), 9)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:min(len(names), n)]
}

// copied is a copy of the home to damage.
func (w *walk) copied(t *testing.T) *walk {
	t.Helper()
	c := &walk{T: t, bin: w.bin, home: filepath.Join(t.TempDir(), "home")}
	if out, err := exec.Command("cp", "-a", w.home, c.home).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.recover() // a copy is another home, and says so once
	return c
}

// recover recovers, if that can be done, and returns all that is kept.
func (w *walk) recover() map[string]string {
	w.Helper()
	_, _ = mailbox.Recover(w.Context(), w.home, mailbox.Options{Sync: durable.None}, mailbox.RecoverOptions{}) // or the hint tells more
	files := map[string]string{}
	w.must(filepath.WalkDir(w.home, func(path string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(w.home, path)
		switch {
		case err != nil:
			return err
		case name == ".mbox/boot" || name == ".mbox/index":
			return nil
		case !e.Type().IsRegular():
			files[name] = e.Type().String()
			return nil
		}
		data, err := os.ReadFile(path)
		files[name] = string(data)
		return err
	}))
	return files
}

// walk is a home that is damaged, and somebody who follows hints.
type walk struct {
	*testing.T
	bin, home string
	asked     string // the id that a hint or a message named
}

func (w *walk) path(name string) string { return filepath.Join(w.home, filepath.FromSlash(name)) }

func (w *walk) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *walk) remove(name string) { w.Helper(); w.must(os.RemoveAll(w.path(name))) }

func (w *walk) file(pattern string) string {
	w.Helper()
	found, err := filepath.Glob(w.path(pattern))
	if err != nil || len(found) == 0 {
		w.Fatalf("%s: %v", pattern, err)
	}
	name, _ := filepath.Rel(w.home, found[0])
	return name
}

// plant makes a folder with something in it.
func (w *walk) plant(name string) {
	w.Helper()
	w.must(os.Mkdir(w.path(name), 0o700))
	w.edit(name+"/more", nil)
}

func (w *walk) ledger() string { w.Helper(); return w.file("audit/shared/*.jsonl") }

func (w *walk) edit(name string, change func([]byte) []byte) {
	w.Helper()
	data, err := os.ReadFile(w.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.Fatal(err)
	}
	if change != nil {
		data = change(data)
	}
	w.must(os.WriteFile(w.path(name), data, 0o600))
}

// command runs mbox, and returns its exit code and what it printed.
func (w *walk) command(args ...string) (code int, out, said string) {
	w.Helper()
	cmd := exec.Command(w.bin, args...)
	cmd.Env = append(os.Environ(), "MBOX_HOME="+w.home, "GOCOVERDIR=")
	var data, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &data, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), data.String(), errs.String()
}

// furnish makes a home with something in every folder.
func (w *walk) furnish() {
	w.Helper()
	token := func(out string) string {
		return regexp.MustCompile(`"token": ?"([0-9a-f]{32})"`).FindStringSubmatch(out)[1]
	}
	for _, args := range [][]string{
		{"init", "--sync", "none"},
		{"send", "One", "--id", "done", "--to", "coder"},
		{"claim", "--agent", "coder"},
		{"complete", "done", "--output", "yes", "--token"},
		{"send", "Two", "--id", "waiting", "--to", "coder"},
		{"send", "Three", "--id", "running", "--to", "tester"},
		{"claim", "--agent", "tester"},
		{"decision", "new", "--agent", "coder", "--context", "c", "--option", "a", "--decision", "d"},
	} {
		if args[len(args)-1] == "--token" {
			args = append(args, w.asked)
		}
		code, out, said := w.command(args...)
		if code != 0 {
			w.Fatalf("mbox %q: %s", args, said)
		}
		if args[0] == "claim" {
			w.asked = token(out)
		}
	}
	w.must(os.WriteFile(w.path("tasks/pending/x.json"), []byte(`{"id":"y"}`), 0o600))
	w.command("ls")
}

// looks runs what only shows: each answers, and shows the tasks.
func (w *walk) looks() {
	w.Helper()
	done, err := os.Stat(w.path("tasks/completed/done.json"))
	for _, args := range [][]string{{"ls"}, {"show", "waiting"}, {"why", "waiting"}, {"tail", "--no-follow"}, {"verify"}} {
		code, out, said := w.command(args...)
		if shows := args[0] == "tail" || args[0] == "verify" || strings.Contains(out, "waiting"); !shows || code != 0 && args[0] != "verify" {
			w.Errorf("mbox %s: %d\n%s%s", args[0], code, out, said)
		}
		if args[0] == "ls" && err == nil && done.Mode().IsRegular() && !strings.Contains(out, "done") && !strings.Contains(out, "tasks/failed") {
			w.Errorf("mbox ls shows %s%s", out, said)
		}
	}
}

var quotedCommand = regexp.MustCompile(`mbox ((?:recover|doctor --fix|init)(?: --?[a-z-]+(?:=[0-9a-f]+)?(?: [a-z]+\b)?)*)`)

// out follows the hints: first verify's, then each one's in turn. What has been
// tried is not tried again, unless something was done in between that counts.
func (w *walk) out(end string) {
	w.Helper()
	var tried []string
	for range 12 {
		code, _, said := w.command("verify")
		if code == 0 {
			code, _, said = w.command("send", "More", "--to", "coder") // perhaps it can only be looked at
		}
		if code == 0 {
			code, _, said = w.command("recover")
		}
		if code == 0 {
			if end != "" {
				w.Errorf("it ended well, and was to end with a %s: %q", end, tried)
			}
			w.works()
			return
		}
		if code != 0 && w.byHand(said) {
			tried = nil
			continue
		}
		for next := w.next(said, tried); next != ""; next = w.next(said, tried) {
			tried = append(tried, next)
			if code, _, said = w.command(strings.Fields(next)...); code != 0 && w.byHand(said) {
				code, tried = 0, nil
			}
			if code == 0 {
				break
			}
		}
		if code != 0 {
			if end == "" || !strings.Contains(said, end) {
				w.Errorf("the way ends after %q with %s", tried, said)
			}
			return
		}
	}
	w.Errorf("in a circle: %q", tried)
}

var (
	toMove = regexp.MustCompile(`move (?:"([^"]+)"|(\S+)) out of the home`)
	toOpen = regexp.MustCompile(`chmod (-R u\+rwX|0600) "?([^" ,\n]+)`)
)

// byHand does what a hint asks a person to do with a file, if it does.
func (w *walk) byHand(said string) bool {
	w.Helper()
	_, hint, _ := strings.Cut(said, "hint: ")
	if m := toMove.FindStringSubmatch(hint); m != nil {
		w.must(os.Rename(m[1]+m[2], filepath.Join(w.TempDir(), "moved")))
		return true
	}
	m := toOpen.FindStringSubmatch(hint)
	if m == nil {
		return false
	}
	args := append(strings.Fields(m[1]), m[2])
	if out, err := exec.Command("chmod", args...).CombinedOutput(); err != nil {
		w.Fatalf("chmod %q: %v\n%s", args, err, out)
	}
	return true
}

// next is the first command of a hint that was not tried.
func (w *walk) next(said string, tried []string) string {
	_, hint, ok := strings.Cut(said, "hint: ")
	if !ok {
		w.Errorf("no hint: %s", said)
	}
	for _, found := range quotedCommand.FindAllStringSubmatch(hint, -1) {
		command := regexp.MustCompile(` (mends|makes|brings|looks|goes|takes|tells)$`).ReplaceAllString(found[1], "")
		if !slices.Contains(tried, command) {
			return command
		}
	}
	return ""
}

// works wants a home in which work goes on.
func (w *walk) works() {
	w.Helper()
	for _, args := range [][]string{{"claim", "--agent", "coder"}, {"recover"}, {"verify"}} {
		if code, out, said := w.command(args...); code != 0 {
			w.Errorf("mbox %q: %d\n%s%s", args, code, out, said)
		}
	}
	if err := linttest.Home(w.home, "--whole"); err != nil {
		w.Error(err)
	}
}
