package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"mbox/agents/action"
	"mbox/agents/policy"
	"mbox/audit"
	"mbox/audit/delegation"
	"mbox/audit/record"
	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// performance is an attempt that is carried out by actions: the one that the
// task carries, or those that the agent's brain replies with. Everything that is
// to be done is judged before the first of it is done.
type performance struct {
	*attempt
	ctx    context.Context // of the work; ends at the time limit, and when the claim is over
	hard   context.Context // of the verbs
	task   *mailbox.Task
	role   Role
	policy *policy.Policy
	brain  Brain
	inputs []string // what the task may read, from the workspace
	kids   []kid    // the children that have ended, of a task that waited for them

	debited time.Time // up to when the tree has been debited for the attempt's time
}

// kid is a child that has ended.
type kid struct {
	ID     mailbox.ID         `json:"id"`
	Agent  string             `json:"agent"`
	Action string             `json:"action,omitzero"`
	Title  string             `json:"title"`
	Status mailbox.State      `json:"status"`
	Output jsontext.Value     `json:"output,omitzero"`
	Error  *mailbox.TaskError `json:"error,omitzero"`
}

// act works on the task by actions until its claim has ended.
func (a *attempt) act(hard context.Context) {
	team, agent := a.Team, a.Team.Members[a.Agent]
	limit := a.limit()
	ctx, cancel := context.WithCancel(a.live)
	defer cancel()
	if limit > 0 {
		var late context.CancelFunc
		ctx, late = context.WithTimeout(ctx, limit)
		defer late()
	}
	p := &performance{attempt: a, ctx: ctx, hard: hard, task: a.claim.Task, role: team.role(a.Agent), policy: a.policy, brain: agent.Brain, debited: time.Now()}
	quiet := a.report.begin(false)
	defer a.clear("inputs")
	inputs, err := a.layInputs()
	v := failed("inputs", fmt.Sprint(err))
	if err == nil {
		for _, input := range inputs {
			p.inputs = append(p.inputs, input.Path)
		}
		v = p.perform()
	}
	quiet()
	if lapsed := a.lapsed(); lapsed != "" {
		a.tell(zerolog.WarnLevel, nil, "the claim is over, the work was stopped: "+lapsed)
		return
	}
	decided := v.complete || v.failure != nil && v.failure.Final
	switch {
	case v.said:
		return
	case a.live.Err() != nil && !decided:
		v = verdict{release: "worker stopping"}
	case ctx.Err() != nil && !decided:
		v = failed("timeout", fmt.Sprintf("no end after %v", limit))
	}
	p.debitTime()
	a.end(hard, v)
}

// limit is how long the attempt may take: what the agent's table says, else the
// role, or for an agentic task the runtime profile; 0 is for ever.
func (a *attempt) limit() time.Duration {
	if a.policy.Runtime.Agentic && a.claim.Task.Mbox.Action == nil {
		return time.Duration(cmp.Or(a.policy.Runtime.AgenticTimeoutSecs, agenticTimeout)) * time.Second
	}
	return cmp.Or(a.Timeout, a.Team.role(a.Agent).Timeout)
}

// agenticTimeout is agentic_timeout_secs where it is 0.
const agenticTimeout = 300

// debitTime debits the time since it was asked last.
func (p *performance) debitTime() {
	passed := time.Since(p.debited).Round(time.Second)
	p.debited = p.debited.Add(passed)
	p.claim.Spend(mailbox.Budget{mailbox.SpentSeconds: int64(passed / time.Second)})
}

// end says a verdict to the mailbox.
func (a *attempt) end(hard context.Context, v verdict) {
	ctx := context.WithoutCancel(hard)
	if v = a.silenced(v); v.complete {
		v = a.handIn(hard, mailbox.Result{Output: unsaid(a.claim.Task, v.output)})
	}
	switch {
	case v.release != "":
		a.say(hard, "given back", func() error { return a.claim.Release(ctx, v.release, v.delay) })
	case v.failure != nil:
		a.say(hard, "failed: "+v.failure.Code, func() error { return a.claim.Fail(ctx, *v.failure) })
	}
}

// handIn completes the task, if its result is taken, when what it has to say in a channel
// is said there.
func (a *attempt) handIn(hard context.Context, r mailbox.Result) verdict {
	if v, no := a.refused(hard, r); no {
		return v
	}
	if err := a.answer(hard, r.Output); err != nil {
		return verdict{release: "worker stopping"}
	}
	err := a.say(hard, "completed", func() error { return a.claim.Complete(context.WithoutCancel(hard), r) })
	var refused *schemas.Error
	if errors.As(err, &refused) {
		return failed("result", refused.Error())
	}
	return verdict{said: true}
}

func final(code, message string) verdict {
	v := failed(code, message)
	v.failure.Final = true
	return v
}

func completed(output any) verdict {
	data, err := schemas.Encode(output)
	if err != nil {
		return failed("result", err.Error())
	}
	return verdict{complete: true, output: data}
}

func (p *performance) perform() verdict {
	if v, refused := p.entitled(); refused {
		return v
	}
	if err := p.gather(); err != nil {
		return failed("children", err.Error())
	}
	act := p.task.Mbox.Action
	switch {
	case act == nil:
		v, err := p.answered()
		if err != nil {
			return verdict{release: err.Error(), delay: defaultDelay}
		}
		if v != nil {
			return *v
		}
		return p.think()
	case p.kids != nil:
		return p.joined()
	}
	plan, refused := p.plan([]step{{name: act.Name, params: act.Params}})
	if refused != nil {
		return p.denied(refused)
	}
	results, v := p.carryOut(plan)
	if v != nil {
		return *v
	}
	return completed(results[0])
}

// entitled checks again, now that the task is claimed, what its agent may do beside who
// asks for it, if that is an agent of the team: a child's may do no more than its
// parent's, and a bare program does not work for one that is bounded.
func (p *performance) entitled() (verdict, bool) {
	if p.Team == nil {
		return verdict{}, false
	}
	asker, err := mailbox.AgentCalled(p.Box, p.task.Source.Agent) // whose rights are those of its name of now
	if err != nil {
		return verdict{release: err.Error(), delay: defaultDelay}, true
	}
	if _, ours := p.Team.Members[asker]; !ours {
		return verdict{}, false // a person, or an agent that is not of this team
	}
	var refused *ruling
	switch exec := p.Exec != "" || p.Runtime != nil; {
	case p.task.Mbox.ParentID != "":
		refused = p.Team.escalates(asker, p.Agent, exec)
	case asker != p.Agent && !p.answers():
		refused = p.Team.bare(asker, p.Agent, exec)
	}
	if refused == nil {
		return verdict{}, false
	}
	return p.denied(&denials{request{from: asker, to: p.Agent, name: p.asked(), depth: p.task.Mbox.Depth}, refused}), true
}

// answers tells whether the task is a message that replies to one of this agent's own:
// what it has asked for it may be told by anybody.
func (p *performance) answers() bool {
	m, err := mailbox.MessageOf(p.Box, p.task.Message())
	if err != nil || m.ReplyTo == "" {
		return false
	}
	to, err := mailbox.MessageOf(p.Box, m.ReplyTo)
	if err != nil {
		return false
	}
	from, err := mailbox.AgentCalled(p.Box, to.From)
	return err == nil && from == p.Agent
}

// asked is the name of the task's action, or "task".
func (p *performance) asked() string {
	if p.task.Mbox.Action == nil {
		return "task"
	}
	return p.task.Mbox.Action.Name
}

// gather reads the children that the task waited for.
func (p *performance) gather() error {
	for _, id := range p.task.Mbox.WaitsFor {
		t, state, err := p.Box.Task(p.ctx, id)
		if errors.Is(err, mailbox.ErrNotFound) { // deleted by hand
			p.kids = append(p.kids, kid{ID: id, Status: mailbox.Failed, Error: &mailbox.TaskError{Code: "gone", Message: "its file is gone"}})
			continue
		}
		if err != nil {
			return err
		}
		k := kid{ID: id, Agent: t.Assignment.TargetAgent, Title: t.Task.Title, Status: t.Result.Status, Output: t.Result.Output, Error: t.Result.Error}
		if state == mailbox.Pending || state == mailbox.InProgress {
			k.Status = state
		}
		if t.Mbox.Action != nil {
			k.Action = t.Mbox.Action.Name
		}
		p.kids = append(p.kids, k)
	}
	return nil
}

// joined ends a task that carried the action delegate, as its children ended.
func (p *performance) joined() verdict {
	done, lost := 0, ""
	for _, k := range p.kids {
		switch {
		case k.Status == mailbox.Completed:
			done++
		case k.Status == mailbox.Failed && k.Error != nil:
			lost += fmt.Sprintf("; %s by %s: %s: %s", k.ID, k.Agent, k.Error.Code, k.Error.Message)
		}
	}
	if task.Succeeded(p.task.Mbox.Join, done, len(p.kids)) {
		return completed(map[string]any{"children": p.kids})
	}
	return final("child_failed", fmt.Sprintf("%d of %d completed%s", done, len(p.kids), lost))
}

// step is an action as it was asked for.
type step struct {
	name   string
	params jsontext.Value
}

// planned is a step that has been judged.
type planned struct {
	request
	act action.Action
}

// denials is a request that was refused.
type denials struct {
	request
	*ruling
}

// plan judges all steps. Nothing has been done when one is refused.
func (p *performance) plan(steps []step) ([]planned, *denials) {
	var plan []planned
	for _, s := range steps {
		q := request{from: p.task.Source.Agent, to: p.Agent, name: s.name, params: s.params, depth: p.task.Mbox.Depth}
		act, refused := p.Team.judge(q)
		if refused != nil {
			return nil, &denials{q, refused}
		}
		plan = append(plan, planned{q, act})
	}
	return plan, nil
}

// denied notes a refusal, and ends the task: asking again would change nothing.
func (p *performance) denied(d *denials) verdict {
	p.own.Warn().Str("action", d.name).Str("step", string(d.step)).Str("reason", reasonOf(d.ruling)).Msg("refused")
	p.note(p.Team.refusals(p.delegation(d.request), d.ruling, p.Agent))
	return final("refused", fmt.Sprintf("refused at %s: %v", d.step, d.why))
}

// note writes lines about the task. Like an answer, it is not given up while the
// mailbox is busy.
func (p *performance) note(lines []audit.Entry) {
	id := string(p.task.ID)
	for _, e := range lines {
		e.TaskID = &id
		err := p.insist(p.hard, func() error { return p.Box.Note(context.WithoutCancel(p.hard), e) })
		if err != nil && !errors.Is(err, mailbox.ErrCommitted) {
			p.log.Error().Err(err).Str("event", string(e.Event)).Msg("a line is missing in the ledger: the worker stops")
		}
	}
}

// carryOut does what was planned, one after another. Delegations end the claim, and
// so does what somebody has to approve first.
func (p *performance) carryOut(plan []planned) ([]action.Result, *verdict) {
	if slices.ContainsFunc(plan, func(s planned) bool { return p.Team.asks(p.policy, s.name) != "" }) {
		if p.task.Mbox.Action == nil {
			v := p.askFor(plan)
			return nil, &v
		}
		if v := p.unapproved(plan[0]); v != nil {
			return nil, v
		}
	}
	if len(plan) > 0 && plan[0].name == "delegate" {
		v := p.handOn(plan)
		return nil, &v
	}
	var results []action.Result
	for _, step := range plan {
		if err := p.ctx.Err(); err != nil {
			v := failed("stopped", err.Error())
			return nil, &v
		}
		r, v := p.do(step)
		if v != nil {
			return nil, v
		}
		results = append(results, r)
	}
	return results, nil
}

// unapproved refuses an action that the task carries, if the claim was had without
// the approval that the action needs.
func (p *performance) unapproved(s planned) *verdict {
	approval, err := p.claim.Approved()
	if err != nil {
		v := failed("approval", err.Error())
		return &v
	}
	if approval != nil {
		return nil
	}
	v := p.denied(&denials{s.request, &ruling{delegation.StepApproval, &policy.Denied{
		Rule: "needs_approval", What: "do " + s.name, Why: p.Team.asks(p.policy, s.name) + ", and nobody has approved the task",
		Hint: "mbox retry puts it back, and mbox approve lets it run",
	}}})
	return &v
}

// do does one action, within the hourly budget, and notes what came of it.
func (p *performance) do(s planned) (action.Result, *verdict) {
	reserved, err := p.reserve()
	if err != nil {
		return action.Result{}, p.unaffordable(s, err)
	}
	var approval *mailbox.Approval
	if s.name == "deploy_compose" { // no other action cares, and the ledger is asked
		if approval, err = p.claim.Approved(); err != nil {
			reserved.release()
			v := failed("approval", err.Error())
			return action.Result{}, &v
		}
	}
	begun := time.Now()
	r, err := s.act.Do(p.ctx, p.env(approval))
	reserved.commit()
	p.report.alive()
	p.measure(didAction(s.name, r, begun, err))
	p.own.Info().Str("action", s.name).Str("status", r.Status).Bool("done", err == nil).Dur("took", time.Since(begun)).Msg("acted")
	d := p.delegation(s.request)
	d.Decision, d.Root, d.Spent = delegation.Delivered, string(p.root()), &delegation.Spent{Actions: 1}
	d.ResultSummary = r.Status
	if err == nil && (r.Status == "deployed" || s.name == "deploy_compose" && r.Status == "failed") {
		p.recordDeployment(r.Status)
	}
	if s.name == "deploy_compose" && r.Status == "failed" {
		return action.Result{}, p.notDeployed(d, r)
	}
	if err == nil {
		p.note([]audit.Entry{d.Entry(p.Agent, "")})
		return r, nil
	}
	return action.Result{}, p.undone(d, err)
}

// recordDeployment writes a change record about containers that were started, or
// perhaps some of them. What is deployed stands in the task, whose approval named it.
func (p *performance) recordDeployment(status string) {
	err := p.insist(p.hard, func() error {
		_, err := p.Box.Change(context.WithoutCancel(p.hard), record.Change{
			Agent: p.Agent, Type: "system",
			Description:  fmt.Sprintf("deploy_compose of %s ran docker compose up: %s.", p.task.ID, status),
			Rationale:    fmt.Sprintf("%s asked for it, and it was approved.", p.task.Source.Agent),
			Before:       "What ran is not known to mbox.",
			After:        "The services of the task's compose file run, or where it failed perhaps some of them.",
			Rollback:     "docker compose -p PROJECT down, with the project that the task's result names.",
			Verification: "docker compose -p PROJECT ps",
		})
		return err
	})
	if err != nil && !errors.Is(err, mailbox.ErrCommitted) {
		p.log.Error().Err(err).Msg("the change record of a deployment is missing")
	}
}

// notDeployed ends a task whose deployment failed. It is final: another attempt
// would need another approval.
func (p *performance) notDeployed(d delegation.Details, r action.Result) *verdict {
	why := "docker compose failed"
	d.Decision, d.Reason = delegation.Failed, &why
	p.note([]audit.Entry{d.Entry(p.Agent, "")})
	v := final("action_failed", "deploy_compose: "+r.Error)
	return &v
}

// undone notes that an action was not done, and why.
func (p *performance) undone(d delegation.Details, err error) *verdict {
	var denied *policy.Denied
	if errors.As(err, &denied) {
		v := p.deniedAs(d, &ruling{delegation.StepPolicy, err})
		return &v
	}
	why := "it could not be done"
	d.Decision, d.Reason = delegation.Failed, &why
	p.note([]audit.Entry{d.Entry(p.Agent, "")})
	v := failed("action_failed", d.Task+": "+err.Error())
	return &v
}

// delegation is the ledger's form of a request that the task has led to. Its
// duration counts from the task's creation, waiting included.
func (p *performance) delegation(q request) delegation.Details {
	d := p.Team.delegation(q)
	d.DurationMS = max(p.Box.Options().Now().Sub(p.task.Created.Time).Milliseconds(), 0)
	return d
}

func (p *performance) deniedAs(d delegation.Details, r *ruling) verdict {
	p.note(p.Team.refusals(d, r, p.Agent))
	return final("refused", fmt.Sprintf("refused at %s: %v", r.step, r.why))
}

// unaffordable gives a task back that has to wait for its hour to pass.
func (p *performance) unaffordable(s planned, err error) *verdict {
	p.note(p.Team.refusals(p.delegation(s.request), &ruling{delegation.StepBudget, err}, p.Agent))
	v := verdict{release: "its hourly budget of actions is spent", delay: time.Minute}
	var denied *policy.Denied
	if errors.As(err, &denied) && !denied.Free.IsZero() {
		v.delay = max(time.Second, time.Until(denied.Free))
	}
	return &v
}

func (p *performance) root() mailbox.ID {
	return cmp.Or(p.task.Mbox.RootID, p.task.ID)
}

func (p *performance) env(approval *mailbox.Approval) *action.Env {
	env := &action.Env{
		Agent: p.Agent, Policy: p.policy, Limits: p.Team.Limits, HTTP: p.Team.HTTP, Compose: p.Team.Compose,
		Sync: p.Box.Options().Sync,
	}
	if approval != nil {
		env.Approved, env.Folders = true, approval.Folders
	}
	return env
}
