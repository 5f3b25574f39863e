package agents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mbox/agents/action"
	"mbox/mailbox"
	"mbox/schemas"
)

// maxRounds is how often an agentic task thinks where its profile names no
// number.
const maxRounds = 10

// thoughtful is the result of a task that was thought about.
type thoughtful struct {
	Answer   string          `json:"answer,omitzero"`
	Results  []action.Result `json:"results,omitempty"`
	Children []kid           `json:"children,omitempty"`
}

// think asks the brain what to do, and does it. One round is all, unless the
// runtime profile is agentic: then the brain sees what its actions did and may go
// on, until it asks for no more.
func (p *performance) think() verdict {
	if p.brain == nil {
		return verdict{release: p.Agent + " has no brain: give the task an action, or the agent a brain", delay: time.Minute}
	}
	talk, err := p.Team.Prompts.conversation(p)
	if err != nil {
		return final("prompt", err.Error())
	}
	out := thoughtful{Children: p.kids}
	for range p.rounds() {
		reply, err := p.ask(talk)
		if err != nil {
			return p.unanswered(err)
		}
		said, plan, v := p.read(reply)
		if v != nil {
			return *v
		}
		out.Answer = said.Answer
		if len(plan) == 0 {
			break
		}
		results, v := p.carryOut(plan)
		if v != nil {
			return *v
		}
		out.Results = append(out.Results, results...)
		talk = append(talk, Message{"assistant", reply.Text}, p.Team.Prompts.results(results))
	}
	return completed(out)
}

func (p *performance) rounds() int {
	switch {
	case !p.policy.Runtime.Agentic:
		return 1
	case p.policy.Runtime.MaxToolIterations > 0:
		return p.policy.Runtime.MaxToolIterations
	}
	return maxRounds
}

// ask asks the brain once, and once more where its reply broke off. What it cost
// is debited.
func (p *performance) ask(talk []Message) (reply Reply, err error) {
	schema, err := action.Schema(p.role.Actions)
	if err != nil {
		return Reply{}, err
	}
	for range 2 {
		begun := time.Now()
		reply, err = p.brain.Think(p.ctx, Thought{Messages: Harmless(talk), Schema: schema, MaxTokens: p.role.MaxTokens, Heard: p.report.alive})
		p.claim.Spend(mailbox.Budget{mailbox.SpentTokens: reply.Tokens})
		var fault *BrainError
		known := errors.As(err, &fault)
		p.measure(calledModel(reply, begun, err, fault))
		if err == nil {
			p.gauge.counts(talk, reply)
		}
		if !known || fault.Fault != ReplyCut {
			break
		}
	}
	return reply, err
}

// unanswered is what it means for the task that the brain gave no reply.
func (p *performance) unanswered(err error) verdict {
	var fault *BrainError
	if !errors.As(err, &fault) {
		return failed("brain", err.Error())
	}
	switch fault.Fault {
	case BrainBusy, BrainDown:
		return verdict{release: fault.Error(), delay: max(fault.Delay, 2*time.Second)}
	case NoModel:
		return verdict{release: fault.Error(), delay: max(fault.Delay, 30*time.Second)}
	case BrainRefused:
		return final(string(fault.Fault), fault.with())
	}
	return failed(string(fault.Fault), p.lastWords(fault.with()))
}

// with is what happened and what helps.
func (e *BrainError) with() string {
	if e.Hint == "" {
		return e.Text
	}
	return e.Text + "; " + e.Hint
}

// read makes a plan of a reply. A reply with one action that cannot be is refused
// whole.
func (p *performance) read(reply Reply) (said action.Reply, plan []planned, v *verdict) {
	p.speak(SaidReply, reply.Text)
	said, err := action.ParseReply(reply.Text)
	if err != nil {
		p.noteRefused(err)
		return said, nil, p.nonsense(reply, err)
	}
	handsOn := 0
	for _, act := range said.Actions {
		q := request{from: p.Agent, to: p.Agent, name: act.Name(), depth: p.task.Mbox.Depth}
		if q.params, err = schemas.Encode(act); err != nil {
			return said, nil, p.nonsense(reply, err)
		}
		if act.Name() == "delegate" {
			handsOn++
		}
		judged, refused := p.Team.judge(q)
		if refused != nil {
			return said, nil, p.forbidden(reply, q, refused)
		}
		plan = append(plan, planned{q, judged})
	}
	if handsOn > 0 && handsOn < len(plan) {
		return said, nil, p.nonsense(reply, errors.New("delegate stands beside other actions: the others come first, or in the next reply"))
	}
	return said, plan, nil
}

// nonsense ends an attempt whose reply cannot be used.
func (p *performance) nonsense(reply Reply, err error) *verdict {
	p.speak(SaidRefused, err.Error())
	fault := ReplyNotValid
	if errors.Is(err, action.ErrNotJSON) {
		fault = ReplyNotJSON
	}
	v := failed(string(fault), p.helpful(reply, err))
	return &v
}

// noteRefused notes the action for which a reply could not be read, by the first
// check that it fails.
func (p *performance) noteRefused(err error) {
	var bad *action.Refused
	if !errors.As(err, &bad) || bad.Action == "" {
		return
	}
	q := request{from: p.Agent, to: p.Agent, name: bad.Action, params: bad.Params, depth: p.task.Mbox.Depth}
	if _, refused := p.Team.judge(q); refused != nil {
		p.note(p.Team.refusals(p.delegation(q), refused, p.Agent))
	}
}

// forbidden ends an attempt whose reply asks for what the agent may not do.
func (p *performance) forbidden(reply Reply, q request, refused *ruling) *verdict {
	p.speak(SaidRefused, fmt.Sprintf("at %s: %v", refused.step, refused.why))
	p.note(p.Team.refusals(p.delegation(q), refused, p.Agent))
	v := failed(string(ReplyForbidden), p.helpful(reply, fmt.Errorf("refused at %s: %w", refused.step, refused.why)))
	return &v
}

// helpful tells an operator what was wrong with a model's reply, and what to do.
func (p *performance) helpful(reply Reply, err error) string {
	return p.lastWords(fmt.Sprintf("the reply of %s cannot be used: %v", schemas.Sentence(reply.Model, 60), err))
}

// lastWords adds what may help to what was wrong, if this was the last attempt.
func (p *performance) lastWords(text string) string {
	m := p.task.Mbox
	if m.Attempt < m.MaxAttempts {
		return text
	}
	return fmt.Sprintf("%s; it was attempt %d of %d. A larger model may do better (model in [roles.%s] of mbox.toml), or a task that carries its action (mbox.action), which needs no model",
		text, m.Attempt, m.MaxAttempts, p.role.Name)
}

// Ready tells whether an agent of the team can think now: nil, or why not.
func (t *Team) Ready(ctx context.Context, agent string) error {
	brain := t.Members[agent].Brain
	if brain == nil {
		return errors.New("it has no brain")
	}
	return brain.Ready(ctx)
}

// Unable tells why a registered agent cannot take a task that it would have to
// think about; "" if it can, or does its tasks by a command. It is for
// mailbox.Options.Unable.
func (t *Team) Unable(agent string) string {
	m, ours := t.Members[agent]
	if !ours || m.Role == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := t.Ready(ctx, agent)
	if err == nil {
		return ""
	}
	return strings.TrimSpace(schemas.Sentence(err.Error(), 200))
}
