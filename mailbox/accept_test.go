package mailbox

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox/task"
)

// inspector accepts what says so.
type inspector struct{ asked []string }

func (i *inspector) accept(_ context.Context, name string, h *Handover) (string, error) {
	i.asked = append(i.asked, name)
	if name == "bad" {
		return "it is bad\nreally", nil
	}
	if string(h.Output) != `"fine"` || h.Agent != "coder" {
		return "the output is " + string(h.Output), nil
	}
	return "", nil
}

func checked(t *testing.T, i *inspector, own Capabilities, change func(*Task)) (*Box, *Claim) {
	t.Helper()
	b := newBox(t, Options{RetryBase: time.Nanosecond, Accept: i.accept, Agents: map[string]Capabilities{"coder": own}})
	r := request("x")
	r.ID, r.Assignment.TargetAgent = "x", "coder"
	change(r)
	_, err := b.Submit(t.Context(), r)
	must(t, err)
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	return b, c
}

// A result is completed when it has passed what its task and its agent name, each
// once, and the line says so.
func TestChecksPassed(t *testing.T) {
	i := &inspector{}
	b, c := checked(t, i, Capabilities{Accept: []string{"mine", "both"}}, func(r *Task) {
		r.Mbox.Accept, r.Mbox.ExpectOutput = []string{"both", "theirs"}, true
	})
	fine := Result{Output: jsontext.Value(`"fine"`)}
	must(t, c.Check(t.Context(), fine))
	must(t, c.Complete(t.Context(), fine))
	must(t, c.Complete(t.Context(), fine)) // again: nothing is examined
	if want := []string{"mine", "both", "theirs"}; !slices.Equal(i.asked, want) {
		t.Errorf("examined %v, want %v", i.asked, want)
	}
	w, err := b.Why(t.Context(), "x")
	must(t, err)
	if want := []string{OutputCheck, "mine", "both", "theirs"}; !slices.Equal(w.Checks, want) || !strings.HasSuffix(w.Summary, "and has passed output, mine, both, theirs") {
		t.Errorf("passed %v, want %v: %s", w.Checks, want, w.Summary)
	}
	wantClean(t, b)
}

// What is not accepted fails the attempt, by the first check that refuses it.
func TestChecksRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		output string
		accept []string
		want   string
	}{
		"a check":      {`"fine"`, []string{"good", "bad", "never"}, "bad: it is bad\nreally"},
		"no output":    {``, nil, "output: the result is empty"},
		"null":         {`null`, nil, "output: the result is empty"},
		"white":        {`" \n"`, nil, "output: the result is empty"},
		"empty object": {`{}`, nil, "output: the result is empty"},
		"empty list":   {`[]`, nil, "output: the result is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			i := &inspector{}
			b, claim := checked(t, i, Capabilities{ExpectOutput: true}, func(r *Task) { r.Mbox.Accept, r.Mbox.MaxAttempts = c.accept, 1 })
			err := claim.Complete(t.Context(), Result{Output: jsontext.Value(c.output)})
			var refused *NotAcceptedError
			if !errors.As(err, &refused) || slices.Contains(i.asked, "never") {
				t.Fatalf("%v, examined %v", err, i.asked)
			}
			got, state, err := b.Task(t.Context(), "x")
			must(t, err)
			if e := got.Result.Error; state != Failed || e.Code != "not_accepted" || e.Message != c.want {
				t.Errorf("%s: %+v, want %q", state, got.Result.Error, c.want)
			}
			wantClean(t, b)
		})
	}
}

// A result without checks is not verified, and neither is one that a stranger has
// put there.
func TestUnverified(t *testing.T) {
	i := &inspector{}
	b, c := checked(t, i, Capabilities{}, func(*Task) {})
	must(t, c.Complete(t.Context(), Result{Output: jsontext.Value(`"bad"`)}))
	w, err := b.Why(t.Context(), "x")
	must(t, err)
	if len(w.Checks) > 0 || len(i.asked) > 0 || !strings.HasSuffix(w.Summary, ", unverified") {
		t.Errorf("%v, %v: %s", i.asked, w.Checks, w.Summary)
	}
}

// A process without checks completes no task that names some.
func TestNoChecks(t *testing.T) {
	b := newBox(t, Options{})
	r := request("x")
	r.ID, r.Mbox.Accept = "x", []string{"tests"}
	_, err := b.Submit(t.Context(), r)
	must(t, err)
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	var refused *NotAcceptedError
	if err := c.Complete(t.Context(), Result{}); !errors.As(err, &refused) {
		t.Error(err)
	}
}

// A check that takes longer than the lease does not lose the claim, whether a process
// holds it or a token stands for it.
func TestCheckRenews(t *testing.T) {
	for name, process := range map[string]bool{"a process": true, "a token": false} {
		t.Run(name, func(t *testing.T) {
			waits, renewed := make(chan struct{}), make(chan struct{})
			b := newBox(t, Options{Lease: 2 * time.Second, Accept: func(ctx context.Context, _ string, _ *Handover) (string, error) {
				close(waits)
				<-renewed
				return "", nil
			}})
			r := request("x")
			r.ID, r.Mbox.Accept = "x", []string{"slow"}
			_, err := b.Submit(t.Context(), r)
			must(t, err)
			c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder", Process: process})
			must(t, err)
			before := c.Task.Mbox.Lease.Deadline
			over := make(chan error, 1)
			go func() { over <- c.Complete(t.Context(), Result{}) }()
			<-waits
			for end := time.Now().Add(20 * time.Second); ; {
				w, err := b.Why(t.Context(), "x")
				must(t, err)
				now, _, err := b.Task(t.Context(), "x")
				must(t, err)
				if strings.Contains(w.Lease, "last sign of life") || now.Mbox.Lease.Deadline.After(before.Time) {
					break
				} else if time.Now().After(end) {
					t.Error("the lease is not renewed")
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
			close(renewed)
			must(t, <-over)
			must(t, c.Close())
		})
	}
}

// A claim of whose lease little is left is renewed before anything is examined.
func TestCheckRenewsFirst(t *testing.T) {
	clock := time.Now()
	b := newBox(t, Options{Now: func() time.Time { return clock }})
	b.o.Accept = func(ctx context.Context, _ string, h *Handover) (string, error) {
		now, _, err := b.Task(ctx, "x")
		must(t, err)
		if !now.Mbox.Lease.Deadline.After(h.Task.Mbox.Lease.Deadline.Time) || *now.Mbox.Progress.Percent != 40 {
			t.Errorf("until %s, it was %s: %+v", now.Mbox.Lease.Deadline, h.Task.Mbox.Lease.Deadline, now.Mbox.Progress)
		}
		return "", nil
	}
	r := request("x")
	r.ID, r.Mbox.Accept = "x", []string{"tests"}
	_, err := b.Submit(t.Context(), r)
	must(t, err)
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	percent := 40
	must(t, c.Progress(t.Context(), Progress{Percent: &percent}))
	clock = clock.Add(b.o.Lease - time.Second)
	c, err = b.Held(t.Context(), "x", c.Token())
	must(t, err)
	must(t, c.Complete(t.Context(), Result{}))
}

// What was claimed is not what lies there, when the checks are read from a file that
// somebody has changed and puts back: nothing is completed that has not passed.
func TestChecksOfAnotherFile(t *testing.T) {
	for name, change := range map[string]func(mbox map[string]any){
		"no checks":   func(mbox map[string]any) { delete(mbox, "accept") },
		"other check": func(mbox map[string]any) { mbox["accept"] = []any{"good"} },
		"other claim": func(mbox map[string]any) { mbox["epoch"] = 9 },
	} {
		t.Run(name, func(t *testing.T) {
			i := &inspector{}
			b, first := checked(t, i, Capabilities{}, func(r *Task) { r.Mbox.Accept = []string{"bad"} })
			path := b.path("tasks/in-progress/x.json")
			data, err := os.ReadFile(path)
			must(t, err)
			edit(t, b, "x", InProgress, func(task map[string]any) { change(in(task, "mbox")) })
			c, err := b.Held(t.Context(), "x", first.Token())
			must(t, err)
			must(t, os.WriteFile(path, data, 0o600))
			err = c.Complete(t.Context(), Result{Output: jsontext.Value(`"fine"`)})
			if _, state, _ := b.Task(t.Context(), "x"); !errors.Is(err, ErrBusy) || state != InProgress {
				t.Errorf("%s: %v", state, err)
			}
			wantClean(t, b)
		})
	}
}

// The names are names, each once, and part of what is asked: nobody takes them out.
func TestAcceptNames(t *testing.T) {
	for path, accept := range map[string][]string{
		"mbox.accept[1]": {"a", "A"}, "mbox.accept[2]": {"a", "b", "a"}, "mbox.accept[0]": {"rm -rf /"}, "mbox.accept": slices.Repeat([]string{"a"}, task.MaxAccept+1),
	} {
		b := newBox(t, Options{})
		r := request("x")
		r.Mbox.Accept = accept
		if _, err := b.Submit(t.Context(), r); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%v: %v", accept, err)
		}
	}
	one, two, three := request("x"), request("x"), request("x")
	two.Mbox.Accept, three.Mbox.ExpectOutput = []string{"a"}, true
	if one.AskedHash() == two.AskedHash() || one.AskedHash() == three.AskedHash() {
		t.Error("checks are not part of what is asked")
	}
}
