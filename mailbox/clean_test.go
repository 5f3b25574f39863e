package mailbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/mailbox/verify"
)

// life is what a home goes through without anybody doing it harm: work, crashes,
// torn writes that the next one mends, midnights, and a clock that is set.
type life struct {
	t      *testing.T
	r      *rand.Rand
	clk    *clock
	dir    string
	b      *Box
	claims []*Claim
	ids    []ID
	n      int
	did    []string // for the message
	tears  int      // torn writes so far
	steps  int      // of the clock, backwards
}

// random operations of a life, and how often each comes.
var lifeOps = []struct {
	name   string
	weight int
	do     func(l *life) error
}{
	{"submit", 12, (*life).submit},
	{"drop", 6, (*life).drop},
	{"claim", 14, (*life).claim},
	{"progress", 5, (*life).progress},
	{"complete", 8, (*life).complete},
	{"fail", 5, (*life).fail},
	{"release", 3, (*life).release},
	{"cancel", 3, (*life).cancel},
	{"retry", 3, (*life).retry},
	{"archive", 2, (*life).archive},
	{"decide", 3, (*life).decide},
	{"by hand", 4, (*life).byHand},
	{"pause", 4, (*life).pause},
	{"scan", 5, (*life).scan},
	{"clock", 10, (*life).clock},
	{"tear the ledger", 4, (*life).tearLedger},
	{"tear a copy", 3, (*life).tearCopy},
	{"reopen", 3, (*life).reopen},
	{"restart", 1, (*life).restart},
}

func (l *life) newID(prefix string) ID {
	l.n++
	return ID(fmt.Sprintf("%s-%d", prefix, l.n))
}

func (l *life) submit() error {
	task := request("x")
	task.ID = l.newID("s")
	_, err := l.b.Submit(context.Background(), task)
	l.ids = append(l.ids, task.ID)
	return err
}

func (l *life) drop() error {
	id := l.newID("d")
	text := []string{titled(""), `[]`, `{"task":{"title":"x","priority":"soon"}}`}[l.r.IntN(3)]
	path := l.b.pending(id.File())
	if err := put(path, text); err != nil {
		return err
	}
	l.clk.stamp(path)
	l.clk.turn(time.Minute)
	return l.scan()
}

func (l *life) claim() error {
	c, err := l.b.Claim(context.Background(), ClaimRequest{Agent: []string{"coder", "writer"}[l.r.IntN(2)]})
	if errors.Is(err, ErrEmpty) {
		return nil
	}
	if err == nil {
		l.claims = append(l.claims, c)
	}
	return err
}

// held takes a claim out of those that are held.
func (l *life) held(do func(c *Claim) error) error {
	if len(l.claims) == 0 {
		return nil
	}
	i := l.r.IntN(len(l.claims))
	c := l.claims[i]
	l.claims = slices.Delete(l.claims, i, i+1)
	err := do(c)
	if errors.Is(err, ErrStale) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) || errors.Is(err, ErrIntegrity) {
		return nil // somebody else has it by now, or its file was moved by hand
	}
	return err
}

func (l *life) progress() error {
	return l.held(func(c *Claim) error {
		l.claims = append(l.claims, c)
		return c.Progress(context.Background(), Progress{Message: "m"})
	})
}

func (l *life) complete() error {
	return l.held(func(c *Claim) error { return c.Complete(context.Background(), Result{Output: jsontext.Value(`"o"`)}) })
}

func (l *life) fail() error {
	return l.held(func(c *Claim) error {
		return c.Fail(context.Background(), Failure{TaskError: TaskError{Code: "x"}, Final: l.r.IntN(2) == 0})
	})
}

func (l *life) release() error {
	return l.held(func(c *Claim) error {
		return c.Release(context.Background(), "not now", time.Duration(l.r.IntN(2))*time.Hour)
	})
}

func (l *life) some(do func(id ID) error) error {
	if len(l.ids) == 0 {
		return nil
	}
	err := do(l.ids[l.r.IntN(len(l.ids))])
	if errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrIntegrity) {
		return nil // it is not in such a state
	}
	return err
}

func (l *life) cancel() error {
	return l.some(func(id ID) error { return l.b.Cancel(context.Background(), id, "human", "why") })
}

func (l *life) retry() error {
	return l.some(func(id ID) error { return l.b.Retry(context.Background(), id, "human", "why") })
}

func (l *life) archive() error {
	_, err := l.b.Archive(context.Background(), time.Hour, "human")
	return err
}

func (l *life) decide() error {
	id, err := l.b.Decide(context.Background(), decision(""))
	if err == nil && l.r.IntN(2) == 0 {
		err = l.b.Outcome(context.Background(), id, "coder", "well")
	}
	return err
}

// pause has an agent claim nothing, for ever or a while, or claim again.
func (l *life) pause() error {
	p := Pause{Agent: []string{"coder", "writer"}[l.r.IntN(2)], By: "human"}
	if l.r.IntN(3) > 0 {
		_, err := ResumeAgent(context.Background(), l.b, p.Agent, p.By, "")
		return err
	}
	if l.r.IntN(2) == 0 {
		p.Until = l.clk.now().Add(time.Minute)
	}
	_, err := PauseAgent(context.Background(), l.b, p)
	return err
}

// byHand is a worker that only uses mv.
func (l *life) byHand() error {
	return l.some(func(id ID) error {
		from, to := Pending, InProgress
		if l.r.IntN(2) == 0 {
			from, to = InProgress, Completed
		}
		if os.Rename(l.b.path("tasks", string(from), id.File()), l.b.path("tasks", string(to), id.File())) != nil {
			return nil // it is not there
		}
		return l.scan()
	})
}

func (l *life) scan() error { return scanNow(l.b, task.Folders...) }

// clock sets the clock: on by moments or days, or back.
func (l *life) clock() error {
	step := []time.Duration{time.Millisecond, time.Minute, 7 * time.Hour, 24 * time.Hour, 40 * 24 * time.Hour, -time.Millisecond, -time.Hour, -26 * time.Hour}[l.r.IntN(8)]
	if step < 0 {
		l.steps++
	}
	l.clk.turn(step)
	return nil
}

// newest is the newest file of a folder of the ledger or its copies.
func (l *life) newest(folder string) string {
	names, _ := filepath.Glob(l.b.path("audit", folder, "*.jsonl"))
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return names[len(names)-1]
}

// tearLedger leaves behind what an append that was killed or failed leaves: the
// beginning of a line, a hole of NULs, a whole line without its newline. The
// next append mends it.
func (l *life) tearLedger() error {
	path := l.newest("shared")
	data, err := os.ReadFile(path)
	if path == "" || err != nil || len(data) == 0 {
		return nil
	}
	l.tears++
	last := data[strings.LastIndexByte(string(data[:len(data)-1]), '\n')+1:]
	switch torn := last[:l.r.IntN(len(last)-1)]; l.r.IntN(4) { // a whole line again would be no crash
	case 0:
		err = add(path, string(torn))
	case 1:
		err = add(path, string(torn)+"\n")
	case 2:
		err = add(path, strings.Repeat("\x00", 1+l.r.IntN(5000)))
	case 3:
		err = l.dieAtTheNewline()
	}
	if err != nil {
		return err
	}
	l.b.Close() // its process has died
	return errors.Join(l.open(), l.submit())
}

// dieAtTheNewline submits a task in a process that writes all of its line but
// the newline, and no head record.
func (l *life) dieAtTheNewline() error {
	dead := false
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		dead = dead || op == durable.OpWriteAt && path == home.Private(l.dir, "locks", "chain")
		if dead {
			return false, errInjected
		}
		return true, nil
	})
	err := l.submit()
	remove()
	if err == nil {
		return errors.New("a submit whose process died was acknowledged")
	}
	path := l.newest("shared")
	info, err := os.Stat(path)
	if err != nil || info.Size() == 0 {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(data[bytes.LastIndexByte(data[:len(data)-1], '\n')+1:], []byte(`"`+string(l.ids[len(l.ids)-1])+`"`)) {
		return err // it died before its line: at the head record of a new day
	}
	return os.Truncate(path, info.Size()-1)
}

func add(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// tearCopy leaves an agent's copy as a power cut may: short, long, torn. The
// next append of that agent, or recovery, mends it.
func (l *life) tearCopy() error {
	path := l.newest("mbox")
	data, err := os.ReadFile(path)
	if path == "" || err != nil || len(data) == 0 {
		return nil
	}
	l.tears++
	if l.r.IntN(2) == 0 {
		err = add(path, "{\"torn")
	} else {
		err = os.Truncate(path, int64(l.r.IntN(len(data))))
	}
	return errors.Join(err, l.restart())
}

func (l *life) open() (err error) {
	l.b, err = Open(context.Background(), l.dir, Options{Sync: durable.None, Now: l.clk.now, RetryBase: time.Nanosecond})
	for _, c := range l.claims {
		if err == nil {
			c.box = l.b
		}
	}
	return err
}

func (l *life) reopen() error { return errors.Join(l.b.Close(), l.open()) }

// restart is a start of the machine: everything is recovered, leases are over.
func (l *life) restart() error {
	l.b.Close()
	if err := os.Remove(home.Private(l.dir, "boot")); err != nil {
		return err
	}
	return l.open()
}

// live goes through so many random operations.
func (l *life) live(n int) {
	total := 0
	for _, op := range lifeOps {
		total += op.weight
	}
	for range n {
		pick := l.r.IntN(total)
		for _, op := range lifeOps {
			if pick -= op.weight; pick >= 0 {
				continue
			}
			l.did = append(l.did, op.name)
			if err := op.do(l); err != nil {
				l.t.Fatalf("%s: %v", strings.Join(l.did, ", "), err)
			}
			break
		}
	}
}

// TestCleanHomes verifies homes that nobody has harmed, after random lives with
// torn tails that were mended and clocks that went to and fro: no alarm, and
// the independent checker has none either.
func TestCleanHomes(t *testing.T) {
	homes, seed := amount(10, 60, 1000), seedOf(t)
	place, all := t.TempDir(), map[string]string{}
	tears, steps, repairs := 0, 0, 0
	for n := range homes {
		l := &life{t: t, r: rand.New(rand.NewPCG(seed, uint64(n))), clk: newClock(), dir: filepath.Join(place, fmt.Sprint(n))}
		l.clk.at.Store(time.Date(2026, 2, 26, 23, 40, 0, 0, time.UTC).UnixNano() + l.r.Int64N(int64(time.Hour)))
		must(t, Create(l.dir, Options{Sync: durable.None}))
		must(t, l.open())
		l.live(60)
		must(t, l.scan())
		for _, e := range lines(t, l.b, "") {
			if e.Event == audit.AuditRepaired {
				repairs++
			}
		}
		l.b.Close()
		r, err := verify.Home(t.Context(), l.dir, verify.Options{Deep: true})
		if err != nil || len(r.Findings) > 0 {
			t.Fatalf("home %d, %s: %v %v", n, strings.Join(l.did, ", "), err, r.Findings)
		}
		tears, steps = tears+l.tears, steps+l.steps
		all[l.dir] = fmt.Sprintf("home %d: %s", n, strings.Join(l.did, ", "))
	}
	lintAll(t, all, "--whole")
	t.Logf("%d homes, %d torn writes, %d repairs, %d steps back of the clock", homes, tears, repairs, steps)
	if tears < homes || steps < homes || repairs < homes/2 {
		t.Error("these lives were too quiet to prove anything")
	}
}
