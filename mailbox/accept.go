package mailbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox/task"
	"mbox/schemas"
)

// Handover is what a claim completes its task with.
type Handover struct {
	Task   *Task
	Agent  string
	Output jsontext.Value // null if there is none
	Files  []Artifact     // what Keep was given
}

// OutputCheck is the check that expect_output asks for: the output is not empty.
const OutputCheck = "output"

// NotAcceptedError says that a check did not accept a result, and that the attempt
// has failed for it. The finding is untrusted text.
type NotAcceptedError struct{ Check, Finding string }

func (e *NotAcceptedError) Error() string {
	return "the result is not accepted, and the attempt has failed: " + e.Check + ": " + schemas.Sentence(e.Finding, 300)
}

// codeNotAccepted is the code of an attempt whose result was not accepted.
const codeNotAccepted = "not_accepted"

// Check has a result examined by the checks that the task and its agent name, under
// no lock, while the lease is renewed. Complete does that for a result that was not
// checked before; whoever wants to give up while a check runs calls it first. A
// result that is not accepted fails the attempt, which a *NotAcceptedError tells.
// Other errors say that a check did not come to its end.
func (c *Claim) Check(ctx context.Context, r Result) error {
	names := c.checks(c.Task)
	if len(names) == 0 {
		return nil
	}
	content := c.content(r)
	request, err := c.box.sender.request("complete", c.token, content)
	if err != nil || c.checked == request {
		return err
	}
	if err := c.Valid(ctx); errors.Is(err, ErrStale) {
		return nil // the verb tells of a claim that is over
	} else if err != nil {
		return err
	}
	defer c.renewing(ctx)()
	h := &Handover{Task: c.Task, Agent: c.agent, Output: content.Output, Files: content.Artifacts}
	for _, name := range names {
		finding, err := c.box.o.examine(ctx, name, h)
		if err != nil {
			return task.About(c.ID(), err)
		}
		if finding != "" {
			refused := &NotAcceptedError{name, finding}
			failure := Failure{TaskError: TaskError{Code: codeNotAccepted, Message: name + ": " + refused.Finding}}
			if err := c.Fail(context.WithoutCancel(ctx), failure); err != nil {
				return err
			}
			return task.About(c.ID(), refused)
		}
	}
	c.checked = request
	return nil
}

// content is the result as it is handed in.
func (c *Claim) content(r Result) Result {
	content := Result{Output: r.Output, Artifacts: c.leaving().Artifacts()}
	if !task.Given(content.Output) {
		content.Output = jsontext.Value(`""`)
	}
	return content
}

// checks are the names of those that the result of a task has to pass: what is cheap
// first.
func (c *Claim) checks(t *Task) (names []string) {
	own := c.box.o.Agents[c.agent]
	if t.Mbox.ExpectOutput || own.ExpectOutput {
		names = append(names, OutputCheck)
	}
	for _, name := range slices.Concat(own.Accept, t.Mbox.Accept) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// passed are the checks that the task in progress asks for, which this result has
// passed. ErrBusy if it has not: the claim seemed to be over when they were due, or
// what it was made from was another task than the one that lies there.
func (c *Claim) passed(t *Task, content Result) ([]string, error) {
	names := c.checks(t)
	if len(names) == 0 {
		return nil, nil
	}
	request, err := c.box.sender.request("complete", c.token, content)
	if err == nil && (c.checked != request || !slices.Equal(names, c.checks(c.Task))) {
		err = fmt.Errorf("%w: its result was not examined; say it again", ErrBusy)
	}
	return names, err
}

func (o *Options) examine(ctx context.Context, name string, h *Handover) (finding string, err error) {
	switch {
	case name != OutputCheck && o.Accept == nil:
		return "this process knows no checks", nil
	case name != OutputCheck:
		return o.Accept(ctx, name, h)
	case slices.Contains([]string{`""`, "{}", "[]"}, string(h.Output)), h.Output.Kind() == '"' && strings.TrimSpace(task.TextOf(h.Output)) == "":
		return "the result is empty", nil
	}
	return "", nil
}

// renewing renews the lease until the returned function is called. The lease of a
// claim that no process holds is renewed by what it reports.
func (c *Claim) renewing(ctx context.Context) (end func()) {
	pause := c.box.o.Lease / 4
	renew := c.Renew
	if c.lease == nil {
		said := Progress{Message: "its result is being examined"}
		if last := c.Task.Mbox.Progress; last != nil {
			said.Percent = last.Percent
		}
		renew = func() error { return c.Progress(ctx, said) }
		if l := c.Task.Mbox.Lease; l == nil || l.Deadline.Sub(c.box.now()) < 2*pause {
			_ = renew()
		}
	}
	return every(pause, func() { _ = renew() })
}

// every calls do again and again, after each pause, until the returned function is
// called, which waits for it.
func every(pause time.Duration, do func()) (end func()) {
	ticker, done := time.NewTicker(pause), make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-ticker.C:
				do()
			case <-done:
				return
			}
		}
	})
	return func() {
		ticker.Stop()
		close(done)
		running.Wait()
	}
}
