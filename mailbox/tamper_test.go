package mailbox

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	records "mbox/audit/record"
	"mbox/mailbox/home"
	"mbox/mailbox/verify"
)

// vandal does damage to a home at random places, and takes it back.
type vandal struct {
	*verifyHome
	r     *rand.Rand
	clean map[string]node // the home as it was, by path from it
	wrote map[string]bool // files whose bytes were changed since
	days  []string        // the ledger's files, from the home
	other string          // a day file of another mailbox
}

// node is a file or folder.
type node struct {
	mode fs.FileMode
	text string
}

// newVandal makes a home of three days on which much has happened, often.
func newVandal(t *testing.T, seed uint64) *vandal {
	h := newVerifyHome(t)
	other := newVerifyHome(t)
	v := &vandal{verifyHome: h, r: rand.New(rand.NewPCG(seed, 7)), other: other.read("audit/shared/2026-02-17.jsonl")}
	b := h.open()
	ctx := t.Context()
	for i := range 24 {
		id := ID(fmt.Sprintf("w-%02d", i))
		h.submit(b, id)
		if i == 12 {
			h.now = h.now.AddDate(0, 0, 1)
		}
		if i%6 == 0 {
			continue
		}
		c := h.claim(b, id)
		switch i % 6 {
		case 1, 2:
			h.must(c.Complete(ctx, Result{Output: jsontext.Value(`"` + strings.Repeat("o", 100*i) + `"`)}))
		case 3:
			h.must(c.Fail(ctx, Failure{TaskError: TaskError{Code: "no", Message: "why"}, Final: true}))
		case 4:
			h.must(c.Progress(ctx, Progress{Message: "half"}))
		}
		if i == 8 {
			_, err := b.Archive(ctx, 0, "human")
			h.must(err)
		}
		_, err := b.Decide(ctx, records.Decision{Agent: "coder", Context: "c", Options: []string{"a"}, Decision: "d"})
		h.must(err)
		junk := h.path(fmt.Sprintf("tasks/pending/junk-%d.json", i))
		h.must(os.WriteFile(junk, []byte(`[]`), 0o600))
		h.must(os.Chtimes(junk, h.now.Add(-time.Hour), h.now.Add(-time.Hour)))
		h.must(scanNow(b))
	}
	h.must(b.Close())
	v.days = v.files("audit/shared/")
	v.clean = v.snapshot(func(string) bool { return true })
	if r := h.verify(); len(r.Findings) > 0 {
		t.Fatalf("before any damage: %v", r.Findings)
	}
	return v
}

// snapshot looks at the whole home, and reads the files that are asked for.
func (v *vandal) snapshot(read func(name string) bool) map[string]node {
	v.t.Helper()
	all := make(map[string]node, len(v.clean)+8)
	v.must(filepath.WalkDir(v.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		name, n := strings.TrimPrefix(path[len(v.dir):], "/"), node{mode: info.Mode()}
		if n.mode.IsRegular() && read(name) {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			n.text = string(data)
		}
		all[name] = n
		return nil
	}))
	return all
}

// write remembers which files are not what they were. Nothing else changes the
// bytes of a file: the rest moves, removes and makes.
func (v *vandal) write(name, text string) {
	v.t.Helper()
	if v.wrote == nil {
		v.wrote = map[string]bool{}
	}
	v.wrote[name] = true
	v.verifyHome.write(name, text)
}

// restore makes the home what it was.
func (v *vandal) restore() {
	v.t.Helper()
	now := v.snapshot(func(string) bool { return false })
	for name, is := range now {
		was, ok := v.clean[name]
		if ok && was.mode.Type() == is.mode.Type() {
			continue
		}
		v.must(os.RemoveAll(v.path(name)))
		delete(now, name)
	}
	for _, name := range slices.Sorted(maps.Keys(v.clean)) {
		was, is := v.clean[name], now[name]
		if is.mode == was.mode && !v.wrote[name] {
			continue
		}
		switch {
		case was.mode.IsDir():
			v.must(os.MkdirAll(v.path(name), 0o700))
		case was.mode.IsRegular():
			_ = os.Chmod(v.path(name), 0o600) // it may not be there
			v.verifyHome.write(name, was.text)
		default: // the symlink in quarantine
			v.must(linkOut(v.dir, v.path(name)))
			continue
		}
		v.must(os.Chmod(v.path(name), was.mode.Perm()))
	}
	v.wrote = nil
}

// files are the regular files whose path begins with one of these.
func (v *vandal) files(prefixes ...string) (out []string) {
	all := v.clean
	if all == nil {
		all = v.snapshot(func(string) bool { return false })
	}
	for name, n := range all {
		if n.mode.IsRegular() && slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func pick[T any](v *vandal, among []T) T { return among[v.r.IntN(len(among))] }

// lineAt is one line of the ledger.
type lineAt struct {
	day   int
	index int // in its file, from 0
	seq   int64
}

// ledger is the ledger's lines by day.
func (v *vandal) ledger() (days [][]string) {
	for _, day := range v.days {
		days = append(days, slices.Collect(strings.Lines(v.read(day))))
	}
	return days
}

// anyLine picks a line.
func (v *vandal) anyLine() lineAt {
	days := v.ledger()
	total := 0
	for _, d := range days {
		total += len(d)
	}
	n := v.r.IntN(total)
	for at, seq := 0, int64(1); ; at++ {
		if n < len(days[at]) {
			return lineAt{at, n, seq + int64(n)}
		}
		n, seq = n-len(days[at]), seq+int64(len(days[at]))
	}
}

// edit changes one day's lines.
func (v *vandal) edit(day int, change func(lines []string) []string) {
	v.write(v.days[day], strings.Join(change(v.ledger()[day]), ""))
}

// first is the seq of a day's first line.
func (v *vandal) first(day int) int64 {
	seq := int64(1)
	for i, name := range v.days {
		if i < day {
			seq += int64(strings.Count(v.clean[name].text, "\n"))
		}
	}
	return seq
}

func (v *vandal) copies() []string {
	return slices.DeleteFunc(v.files("audit/"), func(name string) bool { return strings.HasPrefix(name, "audit/shared/") })
}

// anyEntry is an entry of the quarantine that is a regular file.
func (v *vandal) anyEntry() string {
	return pick(v, slices.DeleteFunc(v.files("tasks/quarantine/"), func(name string) bool { return strings.HasSuffix(name, home.ReasonSuffix) }))
}

// seqOf is the seq of the last clean line with this text.
func (v *vandal) seqOf(text string) (seq int64) {
	n := int64(0)
	for _, day := range v.days {
		for line := range strings.Lines(v.clean[day].text) {
			if n++; strings.Contains(line, text) {
				seq = n
			}
		}
	}
	return seq
}

func (v *vandal) recordSeq(file string) int64 { return v.seqOf(`"file":"` + file + `"`) }
func (v *vandal) entrySeq(entry string) int64 {
	return v.seqOf(`"entry":"` + filepath.Base(entry) + `"`)
}

// sees tells whether verify names the place: in the ledger, or in a copy, with
// its first fault of that file; elsewhere with any.
func (n named) sees(r verify.Report) bool {
	for _, f := range r.Findings {
		if f.File != n.file {
			if strings.HasPrefix(n.file, "audit/shared/") {
				return false
			}
			continue
		}
		if (n.line == 0 || f.Line == n.line) && (n.seqs == nil || slices.Contains(n.seqs, f.Seq)) {
			return true
		}
		if strings.HasPrefix(n.file, "audit/shared/") {
			return false
		}
	}
	return false
}

// TestTampering does each kind of damage at random places. verify names the
// file, the line and the seq of each.
func TestTampering(t *testing.T) {
	seed, times := seedOf(t), amount(5, 20, 500)
	const homes = 2 // at once
	for half := range homes {
		t.Run(fmt.Sprintf("home %d", half), func(t *testing.T) {
			t.Parallel()
			v := newVandal(t, seed+uint64(half))
			for i, kind := range kinds {
				if i%homes == half {
					t.Run(kind.name, func(t *testing.T) { v.tamper(t, times, kind.do) })
				}
			}
			v.t = t
			if r := v.verify(); len(r.Findings) > 0 {
				t.Errorf("all damage was taken back, and verify finds %v", r.Findings)
			}
		})
	}
}

// tamper does damage of one kind so many times, each time to the clean home.
func (v *vandal) tamper(t *testing.T, times int, do func(*vandal) named) {
	v.t = t
	for n := range times {
		want := do(v)
		if r := v.verify(); !want.sees(r) {
			t.Errorf("time %d: verify does not name %+v: %v", n, want, r.Findings[:min(len(r.Findings), 5)])
		}
		if v.restore(); t.Failed() {
			return
		}
	}
}
