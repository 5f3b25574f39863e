package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// look is one disk after a power cut, mounted, in the next boot.
type look struct {
	*tester
	commands
	disk   string
	until  int // the mark at which the power failed
	random *rand.Rand

	files  map[string]taskFile // by id
	ledger facts
	faults []string

	recovered int // the place in the disk's log where the first command had ended
}

func (l *look) fault(format string, a ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, a...))
}

// must says a command that has to succeed.
func (l *look) must(args ...string) answer {
	a := l.say(args...)
	if a.code != 0 {
		l.fault("mbox %s: %v", strings.Join(args, " "), a)
	}
	return a
}

// look recovers the home and compares it with the journal.
func (l *look) look() {
	ok := l.recover()
	l.recovered = l.disks.mark(l.disk)
	if !ok {
		return
	}
	l.whole()
	l.files, l.ledger = readTasks(l.home), readLedger(l.home)
	l.compare()
	l.cycle()
	l.whole()
	l.lint()
}

// recover does what the first command after a reboot does. Where init had not
// answered, init is said again, and so are the settings, which are not mbox's.
func (l *look) recover() bool {
	if l.journal.acked("init") > l.until {
		if a := l.say("init"); a.code != 0 && a.code != 5 {
			l.fault("mbox init, again: %v", a)
			return false
		}
	}
	if err := writeSettings(l.home); err != nil {
		l.fault("%v", err)
		return false
	}
	firsts := [][]string{{"recover"}, {"ls"}, {"send", "first after the reboot", "--to", "nobody"}, {"worker", "--agent", "nobody", "--once", "--exec", "true"}}
	return l.must(firsts[l.random.IntN(len(firsts))]...).code == 0
}

// keep copies the home out of the disk, for whoever looks into a violation.
func (l *look) keep(name string) {
	_ = exec.Command("cp", "-a", l.home, filepath.Join(l.Dir, name)).Run()
}

func (l *look) whole() { l.must("verify") }

// lint asks the checker that shares no code with mbox.
func (l *look) lint() {
	cmd := exec.Command("python3", filepath.Join(l.Root, ".ci", "lint.py"), "--whole", l.home)
	if out, err := cmd.CombinedOutput(); err != nil {
		l.fault("lint.py: %v\n%s", err, out)
	}
}

// compare holds the journal against what is there.
func (l *look) compare() {
	told := l.journal.at(l.until)
	for id, v := range told {
		if strings.HasPrefix(id, "decision-") {
			l.record(id, v)
		} else {
			l.task(id, v)
		}
	}
	for id, f := range l.files {
		if f.folder == "in-progress" {
			l.fault("%s is still in progress after a reboot", id)
		}
		if n := l.ledger.count(id, "task_completed"); n > 1 {
			l.fault("%s was completed %d times", id, n)
		}
		if told[id] == nil && !strings.Contains(string(f.data), "first after the reboot") {
			l.fault("%s in %s: nobody had sent it yet", id, f.folder)
		}
	}
}

// task compares one task: what was acknowledged stands in the ledger, and the
// file is in the state of the last of it, or in one that something begun and not
// yet acknowledged may have brought it to.
func (l *look) task(id string, v *verdict) {
	f, there := l.files[id]
	events := map[string]int{}
	for _, a := range v.must {
		l.evidence(id, a)
		events[a.Event]++
	}
	delete(events, "")
	for event, n := range events {
		if have := l.ledger.count(id, event); have < n {
			l.fault("%s: %d times %s was acknowledged, the ledger has %d", id, n, event, have)
		}
	}
	states := []string{}
	if v.settled != nil {
		states = append(states, v.settled.State)
	}
	for _, a := range v.may {
		states = append(states, a.State)
	}
	switch {
	case !there && v.settled != nil:
		l.fault("%s was acknowledged (%s) and is nowhere", id, v.settled.Verb)
	case there && !slices.Contains(states, f.state):
		l.fault("%s is %s (in %s); acknowledged %s", id, f.state, f.folder, verbs(v))
	case there && v.settled != nil && f.state == v.settled.State && !strings.Contains(string(f.data), v.settled.Text):
		l.fault("%s lacks %q of the acknowledged %s: %s", id, v.settled.Text, v.settled.Verb, f.data)
	}
	if there && v.settled != nil && f.folder != "archive" && l.archived(v) {
		l.fault("%s is in %s, and an archive after it had ended was acknowledged", id, f.folder)
	}
}

// archived tells whether the task has been archived for certain.
func (l *look) archived(v *verdict) bool {
	return v.settled.State != open && len(v.may) == 0 && slices.ContainsFunc(l.journal.acts, func(a *act) bool {
		return a.Verb == "archive" && a.Begun >= v.settled.Acked && a.Acked <= l.until
	})
}

func verbs(v *verdict) string {
	var said []string
	for _, a := range v.must {
		said = append(said, a.Verb)
	}
	for _, a := range v.may {
		said = append(said, "("+a.Verb+")")
	}
	return strings.Join(said, " ")
}

// evidence looks for what one acknowledged act has left for good.
func (l *look) evidence(id string, a *act) {
	if a.Epoch > 0 && !l.ledger.epochs[id][a.Epoch] {
		l.fault("%s: the claim with epoch %d was acknowledged, the ledger has %v", id, a.Epoch, l.ledger.epochs[id])
	}
	if a.Late && !l.keptLate(a.Text) {
		l.fault("%s: the late result %q was acknowledged as kept, it is not in quarantine", id, a.Text)
	}
	if a.Artifact != "" && !l.artifact(a) {
		l.fault("%s: the artifact %s was acknowledged, and is not there with its bytes", id, a.Artifact)
	}
}

func (l *look) keptLate(text string) bool {
	return anyFile(filepath.Join(l.home, "tasks", "quarantine", "*"), text)
}

func (l *look) artifact(a *act) bool {
	return anyFile(filepath.Join(l.home, a.Artifact), a.Text)
}

// anyFile tells whether one of the files that fit the pattern has the text.
func anyFile(pattern, text string) bool {
	names, _ := filepath.Glob(pattern)
	return slices.ContainsFunc(names, func(name string) bool {
		data, err := os.ReadFile(name)
		return err == nil && strings.Contains(string(data), text)
	})
}

// record compares one decision.
func (l *look) record(id string, v *verdict) {
	data, err := os.ReadFile(filepath.Join(l.home, "decisions", id+".md"))
	for _, a := range v.must {
		if err != nil || !strings.Contains(string(data), a.Text) {
			l.fault("%s: %s was acknowledged, and %q does not stand in it: %v", id, a.Verb, a.Text, err)
		}
	}
}

// cycle shows that the home works: a new task goes through, an open one of
// before goes through under a higher epoch than any that was given out, and who
// says a completion again gets the same answer and changes nothing.
func (l *look) cycle() {
	id := l.must("send", "one more", "--to", "cycler").out
	if c, ok := l.claim("cycler"); ok && c.ID != strings.TrimSpace(id) {
		l.fault("send printed %q, and claim %q", id, c.ID)
	} else if ok {
		l.must("complete", c.ID, "--token", c.Mbox.Lease.Token, "--output", "cycled")
	}
	told := l.journal.at(l.until)
	l.again(told)
	actor := fmt.Sprintf("actor%d", l.random.IntN(3))
	a := l.say("claim", "--agent", actor)
	var c claimed
	if a.code == 5 {
		return // nothing of this actor's is open
	}
	if a.code != 0 || json.Unmarshal([]byte(a.out), &c) != nil {
		l.fault("mbox claim --agent %s: %v", actor, a)
		return
	}
	if v := told[c.ID]; v != nil {
		for _, old := range v.must {
			if old.Epoch >= c.Mbox.Epoch || old.Token != "" && old.Token == c.Mbox.Lease.Token {
				l.fault("%s is claimed with epoch %d and token %s, a claim with epoch %d was acknowledged before", c.ID, c.Mbox.Epoch, c.Mbox.Lease.Token, old.Epoch)
			}
		}
	}
	l.must("complete", c.ID, "--token", c.Mbox.Lease.Token, "--output", "cycled")
}

func (l *look) claim(agent string) (c claimed, ok bool) {
	a := l.must("claim", "--agent", agent)
	if a.code != 0 {
		return c, false
	}
	if err := json.Unmarshal([]byte(a.out), &c); err != nil {
		l.fault("claim printed %q: %v", a.out, err)
		return c, false
	}
	return c, true
}

// again says one acknowledged completion once more.
func (l *look) again(told map[string]*verdict) {
	for _, a := range l.journal.acts {
		if a.Verb != "complete" || a.Acked > l.until || a.Artifact != "" || l.files[a.ID].folder != "completed" {
			continue
		}
		before := readLedger(l.home).lines
		l.must("complete", a.ID, "--token", a.Token, "--output", a.Text)
		if after := readLedger(l.home).lines; after != before {
			l.fault("%s: an acknowledged completion said again wrote %d lines", a.ID, after-before)
		}
		return
	}
}
