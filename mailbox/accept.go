package mailbox

import (
	"context"
	"slices"
	"strings"
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
	content := c.content(r)
	names := c.checks()
	request, err := c.box.sender.request("complete", c.token, content)
	if err != nil || len(names) == 0 || c.checked == request || c.Valid(ctx) != nil {
		return err // of a claim that is over the verb tells
	}
	defer c.renewing()()
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

// checks are the names of those that the result has to pass: what is cheap first.
func (c *Claim) checks() (names []string) {
	own := c.box.o.Agents[c.agent]
	if c.Task.Mbox.ExpectOutput || own.ExpectOutput {
		names = append(names, OutputCheck)
	}
	for _, name := range slices.Concat(own.Accept, c.Task.Mbox.Accept) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
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

// renewing renews the lease until the returned function is called.
func (c *Claim) renewing() (end func()) {
	done, over := make(chan struct{}), make(chan struct{})
	ticker := time.NewTicker(c.box.o.Lease / 4)
	go func() {
		defer close(over)
		for {
			select {
			case <-ticker.C:
				_ = c.Renew()
			case <-done:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(done)
		<-over
	}
}
