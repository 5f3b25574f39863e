package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// settings of the home of the workload. Attempts never run out, so a task that
// fails is open again.
const settings = `retry_base = "10ms"
poll_interval = "1s"
max_attempts = 100

[agents.echo]
exec = "echo by-$MBOX_TASK_ID"
concurrency = 2
`

// workload is what is done on the disk before the power fails.
type workload struct {
	*tester
	commands
	disk    string
	journal *journal
	said    atomic.Int64
}

// do says every verb: first init alone, then three actors and two who leave work
// for a router and a worker, all at once.
func (w *workload) do() error {
	if err := w.begin(); err != nil {
		return err
	}
	stop, err := w.daemons()
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	faults := make(chan error, 8)
	for i, step := range []func(*actor) error{(*actor).step, (*actor).step, (*actor).step, (*actor).leave, (*actor).leave} {
		a := &actor{workload: w, name: fmt.Sprintf("actor%d", i), random: rand.New(rand.NewPCG(w.Seed, uint64(i)+10)), echo: []string{"echo", "hand"}[i%2]}
		all.Go(func() { faults <- a.run(step) })
	}
	all.Wait()
	close(faults)
	for err := range faults {
		if err != nil {
			return errors.Join(err, stop())
		}
	}
	if err := stop(); err != nil {
		return err
	}
	return w.whole()
}

// begin makes the mailbox. The settings are the tester's file, so it flushes
// them itself.
func (w *workload) begin() error {
	if _, err := w.act(&act{Verb: "init"}, "init"); err != nil {
		return err
	}
	return writeSettings(w.home)
}

func writeSettings(home string) error {
	return writeFlushed(filepath.Join(home, "mbox.toml"), settings)
}

func writeFlushed(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	return f.Sync()
}

// daemons starts a router and a worker, and returns what ends them.
func (w *workload) daemons() (stop func() error, err error) {
	var running []*exec.Cmd
	for _, args := range [][]string{{"up"}, {"worker", "--agent", "hand", "--exec", "echo by-$MBOX_TASK_ID"}} {
		cmd := w.command(context.Background(), args...)
		log, err := os.Create(filepath.Join(w.Dir, args[0]+".log"))
		if err != nil {
			return nil, err
		}
		cmd.Stderr = log
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		log.Close()
		running = append(running, cmd)
	}
	return func() (err error) {
		for _, cmd := range running {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			if failed := cmd.Wait(); failed != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), failed))
			}
		}
		return err
	}, nil
}

// whole wants the home to be in order when no power has failed at all.
func (w *workload) whole() error {
	if a := w.say("verify"); a.code != 0 {
		return fmt.Errorf("mbox verify: %v", a)
	}
	return nil
}

// act runs a command that must succeed, and puts it into the journal.
func (w *workload) act(a *act, args ...string) (answer, error) {
	return w.actFor(a, []int{0}, args...)
}

// actFor wants one of the exit codes. Only the first acknowledges; after any
// other the act has not been done.
func (w *workload) actFor(a *act, codes []int, args ...string) (answer, error) {
	w.said.Add(1)
	a.Begun, a.Acked = w.disks.mark(w.disk), never
	w.journal.add(a)
	got := w.say(args...)
	if !slices.Contains(codes, got.code) {
		return got, fmt.Errorf("mbox %s: %v", strings.Join(args, " "), got)
	}
	if got.code == codes[0] {
		w.acknowledge(a, got)
	} else {
		w.journal.drop(a)
	}
	return got, nil
}

func (w *workload) acknowledge(a *act, got answer) {
	mark := w.disks.mark(w.disk)
	w.journal.mu.Lock()
	defer w.journal.mu.Unlock()
	a.Acked = mark
	switch a.Verb {
	case "decision":
		a.ID = strings.TrimSpace(got.out)
	case "claim":
		var task claimed
		if json.Unmarshal([]byte(got.out), &task) == nil {
			a.ID, a.Token, a.Epoch = task.ID, task.Mbox.Lease.Token, task.Mbox.Epoch
		}
	}
}

// claimed is what is read of the task that claim prints.
type claimed struct {
	ID   string
	Mbox struct {
		Epoch int
		Lease struct{ Token string }
	}
}

// actor works on its own tasks, one command after another, so that the journal
// knows the order.
type actor struct {
	*workload
	name   string
	random *rand.Rand
	serial int
	echo   string // to whom leave leaves its tasks

	open, failed []string // ids that are not held
	held, ended  []*act   // claims
	told         string   // token of the claim that last said progress
	records      []string
}

func (a *actor) run(step func(*actor) error) error {
	for range a.Rounds {
		if err := step(a); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
	}
	return nil
}

// unique is text that stands nowhere else.
func (a *actor) unique(what string) string {
	a.serial++
	return fmt.Sprintf("%s-%s-%d", what, a.name, a.serial)
}

// step says one verb that can be said now.
func (a *actor) step() error {
	switch n := a.random.IntN(20); {
	case n < 5 || len(a.open)+len(a.held) == 0:
		return a.send()
	case n == 5 && len(a.open) > 0:
		return a.cancel()
	case n == 6 && len(a.failed) > 0:
		return a.retry()
	case n == 7 && len(a.ended) > 0:
		return a.late()
	case n == 8:
		return a.decide()
	case n == 9 && a.random.IntN(3) == 0:
		_, err := a.act(&act{Verb: "archive"}, "archive", "--older-than", "0s")
		return err
	case len(a.held) == 0:
		return a.claim()
	case n < 12:
		return a.progress()
	case n < 16:
		return a.complete()
	default:
		return a.giveBack()
	}
}

func (a *actor) send() error {
	id := a.unique("task")
	a.open = append(a.open, id)
	_, err := a.act(&act{Verb: "send", ID: id, State: open, Event: "task_created", Text: "title of " + id},
		"send", "title of "+id, "--to", a.name, "--id", id)
	return err
}

func (a *actor) claim() error {
	c := &act{Verb: "claim", State: open, Event: "task_picked"}
	got, err := a.actFor(c, []int{0, 5}, "claim", "--agent", a.name)
	if err != nil || got.code != 0 {
		return err // what was released or retried waits for a moment
	}
	a.held = append(a.held, c)
	a.open = slices.DeleteFunc(a.open, func(id string) bool { return id == c.ID })
	return nil
}

// progress is written down at most once a second, so only the first of a claim
// has to have a line.
func (a *actor) progress() error {
	c := a.held[0]
	said := &act{Verb: "progress", ID: c.ID, State: open}
	if a.told != c.Token {
		said.Event = "task_progress"
	}
	a.told = c.Token
	_, err := a.act(said, "progress", c.ID, "--token", c.Token, "--percent", "40", "--message", a.unique("progress"))
	return err
}

// complete hands over an output, now and then a file beside it.
func (a *actor) complete() error {
	c, text := a.take(), a.unique("output")
	done := &act{Verb: "complete", ID: c.ID, State: completed, Event: "task_completed", Text: text, Token: c.Token}
	args := []string{"complete", c.ID, "--token", c.Token, "--output", text}
	if a.random.IntN(3) == 0 {
		file := filepath.Join(a.Dir, a.unique("file"))
		if err := os.WriteFile(file, []byte(text+strings.Repeat(".", a.random.IntN(20_000))), 0o600); err != nil {
			return err
		}
		args = append(args, "--artifact", file)
		done.Artifact = filepath.Join("tasks", "artifacts", fmt.Sprintf("%s.*", c.ID), filepath.Base(file))
	}
	_, err := a.act(done, args...)
	return err
}

// take ends the oldest claim.
func (a *actor) take() *act {
	c := a.held[0]
	a.held = a.held[1:]
	a.ended = append(a.ended, c)
	return c
}

func (a *actor) giveBack() error {
	c, text := a.take(), a.unique("reason")
	if a.random.IntN(3) == 0 {
		a.failed = append(a.failed, c.ID)
		_, err := a.act(&act{Verb: "fail", ID: c.ID, State: failed, Event: "task_failed", Text: text},
			"fail", c.ID, "--token", c.Token, "--reason", text, "--final")
		return err
	}
	a.open = append(a.open, c.ID)
	back := &act{Verb: "release", ID: c.ID, State: open, Event: "task_released"}
	if a.random.IntN(2) == 0 {
		back.Verb, back.Event = "fail", "task_retried"
	}
	_, err := a.act(back, back.Verb, c.ID, "--token", c.Token, "--reason", text)
	return err
}

func (a *actor) cancel() error {
	id := a.open[0]
	a.open = a.open[1:]
	a.failed = append(a.failed, id)
	_, err := a.act(&act{Verb: "cancel", ID: id, State: failed, Event: "task_cancelled"}, "cancel", id)
	return err
}

// retry is refused for a task that somebody has archived meanwhile.
func (a *actor) retry() error {
	id := a.failed[len(a.failed)-1]
	a.failed = a.failed[:len(a.failed)-1]
	got, err := a.actFor(&act{Verb: "retry", ID: id, State: open, Event: "task_retried"}, []int{0, 4, 5}, "retry", id)
	if err == nil && got.code == 0 {
		a.open = append(a.open, id)
	}
	return err
}

// late completes with the token of a claim that is over. The refusal, exit code
// 6, acknowledges that the bytes are kept.
func (a *actor) late() error {
	c := a.ended[a.random.IntN(len(a.ended))]
	text := a.unique("late")
	_, err := a.actFor(&act{Verb: "late", ID: c.ID, Event: "task_late_result", Text: text, Late: true}, []int{6},
		"complete", c.ID, "--token", c.Token, "--output", text)
	return err
}

// decide writes a record, or adds an outcome to an earlier one.
func (a *actor) decide() error {
	if len(a.records) > 0 && a.random.IntN(2) == 0 {
		id := a.records[len(a.records)-1]
		a.records = a.records[:len(a.records)-1]
		text := a.unique("outcome")
		_, err := a.act(&act{Verb: "outcome", ID: id, Text: text}, "decision", "outcome", id, text)
		return err
	}
	text := a.unique("context")
	d := &act{Verb: "decision", Text: text}
	_, err := a.act(d, "decision", "new", "--context", text, "--option", "o", "--decision", "d")
	a.records = append(a.records, d.ID)
	return err
}

// leave leaves a task for a daemon, by send or as a dropped file. That it lies
// in its folder acknowledges it, for nothing shows before it is recorded: a drop
// once it has a revision, a result once it is in completed.
func (a *actor) leave() error {
	id := a.unique("left")
	sent := &act{Verb: "leave", ID: id, State: open, Event: "task_created", Text: "title of " + id}
	done := &act{Verb: "done by " + a.echo, ID: id, State: completed, Event: "task_completed", Text: "by-" + id}
	if a.random.IntN(2) == 0 {
		if _, err := a.act(sent, "send", "title of "+id, "--to", a.echo, "--id", id); err != nil {
			return err
		}
	} else if err := a.drop(id, sent); err != nil {
		return err
	}
	done.Begun, done.Acked = sent.Begun, never
	a.journal.add(done)
	return a.seen(id, done, `"status": "completed"`)
}

// drop writes a file and moves it into pending. Whoever drops a file and wants
// it whole after a power cut has to flush it; mbox's word begins with the
// admission.
func (a *actor) drop(id string, sent *act) error {
	pending := filepath.Join(a.home, "tasks", "pending")
	text := fmt.Sprintf(`{"task":{"title":"title of %s"},"assignment":{"target_agent":%q}}`, id, a.echo)
	if err := writeFlushed(filepath.Join(pending, "."+id), text); err != nil {
		return err
	}
	sent.Verb, sent.Begun, sent.Acked = "drop", a.disks.mark(a.disk), never
	a.journal.add(sent)
	if err := os.Rename(filepath.Join(pending, "."+id), filepath.Join(pending, id+".json")); err != nil {
		return err
	}
	return a.seen(id, sent, `"revision"`)
}

// seen waits until the task's file has the text in it.
func (a *actor) seen(id string, what *act, text string) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if file, _ := findTask(a.home, id); strings.Contains(string(file.data), text) {
			a.acknowledge(what, answer{})
			return nil
		}
	}
	return fmt.Errorf("%s: no %s in %v", id, text, patience)
}
