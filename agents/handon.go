package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mbox/agents/action"
	"mbox/agents/policy"
	"mbox/audit"
	"mbox/audit/delegation"
	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// handOn delegates: each step becomes a task of its own, and this one waits for
// them. Everything is judged before the first of them is created.
func (p *performance) handOn(plan []planned) verdict {
	d := mailbox.Delegation{Budget: p.Team.Budget}
	labels := labelsOf(plan)
	var requests []request
	for _, step := range plan {
		ask := step.act.(*action.Delegate)
		q, refused := p.mayHandOn(ask)
		if refused != nil {
			return p.notHandedOn(&denials{q, refused})
		}
		requests = append(requests, q)
		child, err := childOf(ask, q.to, labels)
		if err != nil {
			return p.notHandedOn(&denials{q, &ruling{delegation.StepParameters, err}})
		}
		p.limitStart(child.Task)
		d.Children = append(d.Children, child)
		if ask.Join != "" {
			if d.Join != "" && d.Join != ask.Join {
				return p.notHandedOn(&denials{q, refuse(delegation.StepParameters, "one says join %s, another %s", d.Join, ask.Join)})
			}
			d.Join = ask.Join
		}
	}
	counted, v := p.count(plan)
	if v != nil {
		return *v
	}
	defer counted.release() // what was not committed by then
	return p.hand(d, requests, counted)
}

// hand gives the children to the mailbox, and notes each.
func (p *performance) hand(d mailbox.Delegation, requests []request, counted reservations) verdict {
	p.debitTime()
	var ids []mailbox.ID
	err := p.say(p.hard, "handed on", func() (err error) {
		ids, err = p.claim.Delegate(context.WithoutCancel(p.hard), d)
		if ids == nil && errors.Is(err, mailbox.ErrCommitted) {
			err = errors.New(err.Error()) // a child is, and the others are to come: said again, it goes on
		}
		return err
	})
	var refused *mailbox.Refusal
	if errors.As(err, &refused) {
		return p.notHandedOn(&denials{requests[0], &ruling{stepOf(refused), refused}})
	}
	if err != nil {
		return failedOn(err)
	}
	counted.commit()
	for i, q := range requests {
		line := p.Team.delegation(q)
		line.Decision, line.TriedEndpoints = delegation.Delivered, []string{"tasks/pending/" + string(ids[i]) + ".json"}
		line.Root = string(p.root())
		p.note([]audit.Entry{line.Entry(p.Agent, "")})
	}
	return verdict{said: true}
}

// askFor makes a task of its own of each action of a reply of which some need an
// approval: this agent does them too, one after the other, each once it may. So what
// is approved is an action with its parameters, and not what a model will think of.
func (p *performance) askFor(plan []planned) verdict {
	d := mailbox.Delegation{Own: true, Budget: p.Team.Budget}
	labels := labelsOf(plan)
	var requests []request
	for i, step := range plan {
		child := mailbox.Child{Task: &mailbox.Task{
			Task:       mailbox.Request{Type: "action", Title: step.name + " by " + p.Agent},
			Assignment: mailbox.Assignment{TargetAgent: p.Agent},
			Mbox:       mailbox.Meta{Action: &mailbox.Action{Name: step.name, Params: step.params}},
		}}
		if ask, ok := step.act.(*action.Delegate); ok {
			d.Join = cmp.Or(d.Join, ask.Join)
			if err := alone(ask, labels, &child); err != nil {
				return p.notHandedOn(&denials{step.request, &ruling{delegation.StepParameters, err}})
			}
		} else if i > 0 {
			child.After = []int{i - 1}
		}
		d.Children = append(d.Children, child)
		requests = append(requests, step.request)
	}
	return p.hand(d, requests, nil)
}

// alone makes a delegation one that needs no other of its reply: what it comes
// after in the reply, its task comes after.
func alone(ask *action.Delegate, labels map[string]int, child *mailbox.Child) (err error) {
	own := *ask
	own.Label, own.After = "", nil
	for _, after := range ask.After {
		if i, ok := labels[after]; ok {
			child.After = append(child.After, i)
		} else {
			own.After = append(own.After, after)
		}
	}
	child.Task.Mbox.Action.Params, err = schemas.Encode(&own)
	return err
}

// count reserves an action of the hour for each delegation, or for none where there
// are not enough left.
func (p *performance) count(plan []planned) (counted reservations, v *verdict) {
	for _, step := range plan {
		r, err := p.reserve()
		if err != nil {
			counted.release()
			return nil, p.unaffordable(step, err)
		}
		counted = append(counted, r...)
	}
	return counted, nil
}

type reservations []*policy.Reservation

func (rs reservations) commit() {
	for _, r := range rs {
		r.Commit()
	}
}

func (rs reservations) release() {
	for _, r := range rs {
		r.Release()
	}
}

// notHandedOn notes a refusal. A brain may do better the next time, as with any
// other action that it may not do; a task that carries the delegation cannot.
func (p *performance) notHandedOn(d *denials) verdict {
	v := p.denied(d)
	if p.task.Mbox.Action == nil {
		return failed(string(ReplyForbidden), p.lastWords("the reply cannot be used: "+v.failure.Message))
	}
	return v
}

// labelsOf are the places of the delegations that have a name.
func labelsOf(plan []planned) map[string]int {
	labels := map[string]int{}
	for i, step := range plan {
		if ask, ok := step.act.(*action.Delegate); ok && ask.Label != "" {
			labels[ask.Label] = i
		}
	}
	return labels
}

// failedOn is what an error of Delegate means that is no refusal: content that
// the mailbox does not take, or a claim that is over.
func failedOn(err error) verdict {
	var bad *schemas.Error
	if errors.As(err, &bad) {
		return final("refused", "a child is no task: "+bad.Error())
	}
	return verdict{said: true} // say has told why
}

func stepOf(r *mailbox.Refusal) delegation.Step {
	for _, step := range delegation.Steps {
		if string(step) == r.Step {
			return step
		}
	}
	return delegation.StepParameters
}

// mayHandOn judges one delegation: whom it is for, whether this agent may hand
// work to that one, whether that one may do it, and with no more rights.
func (p *performance) mayHandOn(ask *action.Delegate) (request, *ruling) {
	to, _, _ := p.Team.Members.Find(ask.Role) // the delegation's own judgement has found it enabled
	q := request{from: p.Agent, to: to, name: ask.Task, params: ask.Payload, depth: p.task.Mbox.Depth + 1}
	if q.name == "" {
		q.name = "task"
	}
	if err := p.policy.MayDelegate(to); err != nil {
		return q, &ruling{delegation.StepPolicy, err}
	}
	if ask.Task != "" {
		if _, refused := p.Team.judge(q); refused != nil {
			return q, refused
		}
	}
	if most := p.Team.maxDepth(p.policy); q.depth >= most { // whatever the other's own limit is
		return q, refuse(delegation.StepDepth, "delegation depth limit reached (%d/%d)", q.depth, most)
	}
	return q, p.Team.escalates(p.Agent, to, false)
}

// limitStart gives a child the time by which somebody has to have taken it.
func (p *performance) limitStart(t *mailbox.Task) {
	if secs := p.policy.Runtime.DelegationTimeout; secs > 0 {
		at := task.At(time.Now().Add(time.Duration(secs) * time.Second))
		t.Mbox.Deadline = &at
	}
}

// childOf is the task that a delegation makes.
func childOf(ask *action.Delegate, to string, labels map[string]int) (mailbox.Child, error) {
	t := &mailbox.Task{
		Task:       mailbox.Request{Type: "other", Title: ask.Title, Description: ask.Description},
		Assignment: mailbox.Assignment{TargetAgent: to},
	}
	if ask.Task != "" {
		t.Task.Type = "action"
		t.Mbox.Action = &mailbox.Action{Name: ask.Task, Params: ask.Payload}
		if t.Task.Title == "" {
			t.Task.Title = ask.Task + " by " + to
		}
	}
	child := mailbox.Child{Task: t}
	for _, after := range ask.After {
		if i, ok := labels[after]; ok {
			child.After = append(child.After, i)
			continue
		}
		id := mailbox.ID(after)
		if err := task.CheckID(id); err != nil {
			return child, fmt.Errorf("after names %s, which is neither a name of this reply nor a task", schemas.Quote(after))
		}
		if !slices.Contains(t.Mbox.DependsOn, id) {
			t.Mbox.DependsOn = append(t.Mbox.DependsOn, id)
		}
	}
	return child, nil
}
