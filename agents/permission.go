package agents

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/policy"
	"mbox/audit/delegation"
	"mbox/mailbox"
	"mbox/schemas"
)

// Permission is the action of a task that is nothing but a question to a person: may
// the agent do this? A runtime that asks gets no answer at once: its job ends, and
// its task waits for a child that carries the question, held until it is approved, or
// cancelled. The next attempt has the answers of all children of its task. An
// approval is for one request to one tool, bit for bit: it answers no other, and none
// twice in one attempt. Whether a tool's request needs a person one rule tells, when it
// is asked and for the question itself, see [Team.Approval].
//
// A command can ask in the same way, by a task for its own agent: who approves that is
// never the agent itself.
const Permission = "permission"

// maxWish bounds a request: what is longer nobody can look through.
const maxWish = 64 << 10

// Wish is a request that a person has to allow.
type Wish struct {
	Tool    string         // who is to do it: Permission for what the program does by itself
	Title   string         // a line, untrusted
	Request jsontext.Value // all of it
}

// asked are the parameters of the action.
type asked struct {
	Tool    string         `json:"tool"`
	Title   string         `json:"title"`
	Request jsontext.Value `json:"request"`
	SHA256  string         `json:"sha256"` // of tool and request
}

// granted is the output of a question that was answered with yes.
const granted = `{"allowed":true}`

// sumOf is the SHA-256 of a tool's request: of its JSON with sorted keys, and numbers
// as they are written.
func sumOf(tool string, request jsontext.Value) (string, error) {
	d := json.NewDecoder(bytes.NewReader(request))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "", err
	}
	same, err := json.Marshal([]any{tool, v})
	sum := sha256.Sum256(same)
	return "sha256:" + hex.EncodeToString(sum[:]), err
}

// commandLine is the request of a terminal.
type commandLine struct {
	Command string `json:"command"`
}

// asksTool tells why a person has to allow what a runtime asks of a tool; "" if nobody
// has to. line is the command of a terminal: always_ask may name the tool, and the risk
// of a command may want an approval, which auto_approve does not give.
func (t *Team) asksTool(p *policy.Policy, tool, line string) string {
	if tool != Terminal {
		return t.asks(p, tool)
	}
	v, err := p.Command(line)
	switch {
	case p.MustAsk(Terminal):
		return t.asks(p, Terminal)
	case err != nil:
		return "its policy does not allow the command"
	case v.NeedsApproval:
		return fmt.Sprintf("it is a command of %s risk", v.Risk)
	}
	return ""
}

// asksInQuestion is asksTool of a question's parameters. One that names no tool of a
// runtime always needs a person.
func (t *Team) asksInQuestion(p *policy.Policy, params jsontext.Value) string {
	var q asked
	var line commandLine
	err := schemas.Decode(params, &q)
	if err == nil && q.Tool == Terminal {
		err = schemas.Decode(q.Request, &line)
	}
	if err != nil || !slices.Contains([]string{Permission, Terminal, "read_file", "write_file"}, q.Tool) {
		return "its agent asks a person for it, and names no tool that mbox knows"
	}
	return t.asksTool(p, q.Tool, line.Command)
}

// terms are what persons have said about a task's requests.
type terms struct {
	mu     sync.Mutex
	yes    map[string]int  // by the request's sum: how many approvals are not used yet
	no     map[string]bool // and those that were refused
	titles [2][]string     // refused, allowed
}

// AskError says that a person has to allow it first: the job is to end with its wish.
type AskError struct{ Wish Wish }

func (e *AskError) Error() string { return "a person has to allow it first" }

// errNo says that a person has refused it.
var errNo = errors.New("a person has refused it")

// May tells whether the program may do by itself what it wants a permission for. An
// *AskError is for what nobody has answered.
func (j *Job) May(title string, request jsontext.Value) error {
	if err := j.p.policy.Tool(Permission); err != nil {
		j.refused(Permission, delegation.StepPolicy, err)
		return err
	}
	if j.p.Team.asksTool(j.p.policy, Permission, "") == "" {
		return nil
	}
	return j.allowed(Wish{Permission, title, request})
}

// allowed tells what a person has said about a wish, for which one has to be asked.
func (j *Job) allowed(w Wish) error {
	if len(w.Request) > maxWish {
		return fmt.Errorf("a request of %d bytes cannot be approved: at most %d", len(w.Request), maxWish)
	}
	sum, err := sumOf(w.Tool, w.Request)
	if err != nil {
		return fmt.Errorf("a request that is no JSON: %w", err)
	}
	j.terms.mu.Lock()
	defer j.terms.mu.Unlock()
	switch {
	case j.terms.no[sum]:
		return errNo
	case j.terms.yes[sum] > 0:
		j.terms.yes[sum]--
		return nil
	}
	return &AskError{w}
}

// terms reads the answers that the task's children carry.
func (p *performance) terms() (*terms, error) {
	t := &terms{yes: map[string]int{}, no: map[string]bool{}}
	tree, err := p.Box.Tree(p.ctx, p.root())
	if err != nil {
		return nil, err
	}
	for _, n := range tree.Children(p.task.ID) {
		if n.Action != Permission {
			continue
		}
		child, state, err := p.Box.Task(p.ctx, n.ID)
		if errors.Is(err, mailbox.ErrNotFound) {
			continue // it was taken away: the request is a new one
		}
		if err != nil {
			return nil, err
		}
		for _, name := range []*string{&child.Source.Agent, &child.Assignment.TargetAgent} { // it may have asked by another name
			if *name, err = mailbox.AgentCalled(p.Box, *name); err != nil {
				return nil, err
			}
		}
		t.take(child, state, p.Agent)
	}
	return t, nil
}

// take takes one child's answer, if it is the agent's own question.
func (t *terms) take(child *mailbox.Task, state mailbox.State, agent string) {
	var q asked
	var said struct {
		Allowed bool `json:"allowed"`
	}
	_ = schemas.Decode(child.Result.Output, &said) // nothing but granted says yes
	if child.Source.Agent != agent || child.Assignment.TargetAgent != agent || child.Mbox.Action == nil ||
		schemas.Decode(child.Mbox.Action.Params, &q) != nil {
		return
	}
	sum, err := sumOf(q.Tool, q.Request)
	if err != nil || sum != q.SHA256 {
		return
	}
	title := schemas.Sentence(q.Tool+": "+q.Title, 100)
	switch {
	case state == mailbox.Completed && said.Allowed:
		t.yes[sum]++
		t.titles[1] = append(t.titles[1], title)
	case state == mailbox.Failed:
		t.no[sum] = true
		t.titles[0] = append(t.titles[0], title)
	}
}

// told is what the agent is told of the answers.
func (t *terms) told(mark string) string {
	var b strings.Builder
	for i, what := range []string{"refused", "allowed, each once, exactly as they were asked for"} {
		if len(t.titles[i]) > 0 {
			b.WriteString(data(mark, "an earlier attempt: requests that a person has "+what, "- "+strings.Join(t.titles[i], "\n- ")))
		}
	}
	return b.String()
}

// wishFor makes a question of a wish, for which the task waits.
func (p *performance) wishFor(w *Wish) verdict {
	sum, err := sumOf(w.Tool, w.Request)
	if err != nil {
		return failed("permission", err.Error())
	}
	title := schemas.Sentence(w.Title, 200)
	params, err := schemas.Encode(asked{Tool: w.Tool, Title: title, Request: w.Request, SHA256: sum})
	if err != nil {
		return failed("permission", err.Error())
	}
	q := request{from: p.Agent, to: p.Agent, name: Permission, params: params, depth: p.task.Mbox.Depth}
	d := mailbox.Delegation{Own: true, Budget: p.Team.Budget, Children: []mailbox.Child{{Task: &mailbox.Task{
		Task:       mailbox.Request{Type: "action", Title: "May " + p.Agent + ", " + w.Tool + ": " + title},
		Assignment: mailbox.Assignment{TargetAgent: p.Agent},
		Mbox:       mailbox.Meta{Action: &mailbox.Action{Name: Permission, Params: params}},
	}}}}
	return p.hand(d, []request{q}, nil)
}

// asked tells whether the task is a question of the agent's: no command and no
// runtime gets it.
func (a *attempt) asked() bool {
	act := a.claim.Task.Mbox.Action
	return act != nil && act.Name == Permission && a.Team != nil && a.Team.Members[a.Agent].Asks
}

// granted ends a question that was claimed, and so was approved.
func (p *performance) granted() verdict {
	own, err := policy.ForAgent(p.Team.Policies, p.Agent)
	if err != nil {
		return failed("policy", err.Error())
	}
	if asks := p.Team.asksInQuestion(own, p.task.Mbox.Action.Params); asks != "" {
		approval, err := p.claim.Approved()
		if err != nil {
			return failed("approval", err.Error())
		}
		if approval == nil {
			return p.denied(&denials{
				request{from: p.task.Source.Agent, to: p.Agent, name: Permission, depth: p.task.Mbox.Depth},
				refuse(delegation.StepApproval, "nobody has approved the task"),
			})
		}
	}
	return verdict{complete: true, output: jsontext.Value(granted)}
}
