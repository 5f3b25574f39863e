package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/action"
	"mbox/agents/policy"
	"mbox/audit"
	"mbox/audit/delegation"
	"mbox/mailbox"
	"mbox/schemas"
)

// request is an action that somebody asks an agent to do.
type request struct {
	from   string // who asks
	to     string // the agent that is to do it
	name   string // of the action
	params jsontext.Value
	depth  int64
}

// ruling is a refusal: which check refused, and why.
type ruling struct {
	step delegation.Step
	why  error
}

func (r *ruling) Error() string { return r.why.Error() }
func (r *ruling) Unwrap() error { return r.why }

// quoting is an error that repeats what was asked for.
type quoting struct {
	error
	plain string // the same without it, for the ledger
}

func refuse(step delegation.Step, format string, a ...any) *ruling {
	return &ruling{step, fmt.Errorf(format, a...)}
}

// judge holds a request against the rules, in their fixed order: the role is
// known, it allows the action, the parameters are right, the depth is within the
// limit; then what the agent's own policy says. The same function judges at the
// creation of a task and again when it is claimed, because the configuration may
// have changed in between.
func (t *Team) judge(q request) (action.Action, *ruling) {
	m, known := t.Members[q.to]
	switch {
	case !known:
		return nil, refuse(delegation.StepRole, "there is no agent %s in mbox.toml", schemas.Quote(q.to))
	case m.Role != "" && t.Roles[m.Role].Name == "":
		return nil, refuse(delegation.StepRole, "the role %s of %s is not known", schemas.Quote(m.Role), q.to)
	}
	if allowed := t.allowed(m); !slices.Contains(allowed, q.name) {
		return nil, mayNot(q.to, q.name, allowed)
	}
	if m.Role == "" {
		return nil, nil // its own command knows what the action means
	}
	if q.name == "delegate" {
		if refused := t.addressee(q.params); refused != nil {
			return nil, refused
		}
	}
	act, err := action.Parse(q.name, q.params)
	if err == nil {
		err = action.Locate(act, func(path string) string { return t.fromWorkspace(q.to, path) })
	}
	if err == nil {
		limits := t.Limits
		limits.Autorun = t.Roles[m.Role].Autorun
		err = act.Validate(limits)
	}
	if err != nil {
		return nil, &ruling{delegation.StepParameters, inTask(err)}
	}
	p, err := policy.ForAgent(t.Policies, q.to)
	if err != nil {
		return nil, &ruling{delegation.StepPolicy, err}
	}
	if most := t.maxDepth(p); q.depth >= most {
		return nil, refuse(delegation.StepDepth, "delegation depth limit reached (%d/%d)", q.depth, most)
	}
	if err := act.Permit(p); err != nil {
		return nil, &ruling{delegation.StepPolicy, err}
	}
	return act, nil
}

// addressee holds whom a delegation is for, and what that one is to do, against the
// first two rules, before anything else of it is read.
func (t *Team) addressee(params jsontext.Value) *ruling {
	var ask struct{ Role, Task string }
	if json.Unmarshal(params, &ask) != nil || ask.Role == "" {
		return nil // the parameters are wrong, which is a later rule
	}
	to, m, known := t.Members.Find(ask.Role)
	switch allowed := t.allowed(m); {
	case !known:
		return &ruling{delegation.StepRole, &quoting{
			fmt.Errorf("there is no agent and no role %s in mbox.toml", schemas.Quote(ask.Role)), "there is no such agent and no such role in mbox.toml",
		}}
	case !m.Enabled:
		return refuse(delegation.StepRole, "%s is not enabled in mbox.toml", to)
	case ask.Task != "" && !slices.Contains(allowed, ask.Task):
		return mayNot(to, ask.Task, allowed)
	}
	return nil
}

// mayNot refuses an action by its name, which may be any text where it is not one of
// mbox's: a model writes it.
func mayNot(agent, name string, allowed []string) *ruling {
	why := fmt.Errorf("%s may not do %s: %s", agent, schemas.Quote(name), listed(allowed))
	if slices.Contains(action.Names(), name) {
		return &ruling{delegation.StepAction, why}
	}
	return &ruling{delegation.StepAction, &quoting{why, agent + " may not do that: " + listed(allowed)}}
}

// allowed are the actions that an agent may do: deny by default.
func (t *Team) allowed(m Member) []string {
	if m.Role == "" && m.Asks {
		return append(slices.Clone(m.Actions), Permission)
	}
	if m.Role == "" {
		return m.Actions
	}
	return t.Roles[m.Role].Actions
}

func listed(actions []string) string {
	if len(actions) == 0 {
		return "it may do no action"
	}
	return "it may do " + strings.Join(actions, ", ")
}

// inTask names the parameters as they stand in a task.
func inTask(err error) error {
	var bad *schemas.Error
	if !errors.As(err, &bad) || !strings.HasPrefix(bad.Path, "params") {
		return err
	}
	c := *bad
	c.Path = "mbox.action." + bad.Path
	return &c
}

// escalates tells whether a child's agent may do more than its parent's. exec is
// whether a command does its tasks, whatever its table says.
func (t *Team) escalates(parent, child string, exec bool) *ruling {
	return t.compare(parent, child, exec, (*policy.Policy).Beyond)
}

// bare is escalates for what is no child: a message, or a task of its own.
func (t *Team) bare(asker, agent string, exec bool) *ruling {
	return t.compare(asker, agent, exec, (*policy.Policy).Bare)
}

func (t *Team) compare(asker, agent string, exec bool, rule func(its, mine *policy.Policy) error) *ruling {
	mine, err := policy.ForAgent(t.Policies, asker)
	if err != nil {
		return &ruling{delegation.StepEscalation, err}
	}
	its, err := policy.ForAgent(t.Policies, agent)
	if err != nil {
		return &ruling{delegation.StepEscalation, err}
	}
	its.Exec = its.Exec || exec
	if err := rule(its, mine); err != nil {
		return &ruling{delegation.StepEscalation, err}
	}
	return nil
}

// mayAsk tells whether an agent of the team may ask another one for a task: nil for any
// other sender, and for what it asks of itself.
func (t *Team) mayAsk(from, to string) *ruling {
	_, ours := t.Members[from]
	if m, there := t.Members[to]; !ours || !there || !m.Enabled || from == to {
		return nil
	}
	return t.bare(from, to, false)
}

// Review judges a task that is to be created, for
// mailbox.Options.Review. A task for "any" is judged when an agent takes it. One
// for a name that is no agent of the team is judged by whoever claims under that
// name, but for mbox's own actions, which need a role. One for an agent that is not
// enabled is judged when it is enabled and takes it: until then nothing of it is
// parsed. Whether its sender may ask that agent is judged of every task.
func (t *Team) Review(task *mailbox.Task) ([]audit.Entry, error) {
	for i, name := range task.Mbox.Accept {
		if _, known := t.Checks[name]; !known {
			return nil, &schemas.Error{
				Path: fmt.Sprintf("mbox.accept[%d]", i), Code: schemas.CodeBadValue,
				Problem: fmt.Sprintf("there is no [accept.%s] in mbox.toml", name), Want: "the name of a check there",
			}
		}
	}
	act, to := task.Mbox.Action, task.Assignment.TargetAgent
	q := request{from: task.Source.Agent, to: to, name: "task", depth: task.Mbox.Depth}
	if act != nil {
		q.name, q.params = act.Name, act.Params
	}
	refused := t.mayAsk(q.from, to)
	if refused == nil {
		m, ours := t.Members[to]
		if act == nil || ours && !m.Enabled || !ours && (to == "any" || !slices.Contains(action.Names(), act.Name)) {
			return nil, nil
		}
		_, refused = t.judge(q)
	}
	d := t.delegation(q)
	if refused == nil {
		d.Decision, d.TriedEndpoints = delegation.Delivered, []string{"tasks/pending"}
		return []audit.Entry{d.Entry(audit.MboxAgent, "")}, nil
	}
	notes := t.refusals(d, refused, audit.MboxAgent)
	return notes, asRefused(refused)
}

// asRefused is the answer to whoever sent the task.
func asRefused(r *ruling) error {
	var bad *schemas.Error
	if errors.As(r.why, &bad) {
		return bad
	}
	return &RefusedError{Step: string(r.step), Reason: r.Error()}
}

// RefusedError says that an agent may not do what a task asks for.
type RefusedError struct {
	Step   string // the check that refused
	Reason string
}

func (e *RefusedError) Error() string { return "refused at " + e.Step + ": " + e.Reason }

// delegation is the ledger's form of a request.
func (t *Team) delegation(q request) delegation.Details {
	keys, summary, hashes := delegation.Redact(q.params, t.Salt)
	return delegation.Details{
		RequestID: delegation.NextRequestID(time.Now()), FromAgent: q.from, ToAgent: q.to, Task: q.name, DelegationDepth: q.depth,
		PayloadKeys: keys, PayloadSummary: summary, SensitiveHashes: hashes,
	}
}

// refusals are the lines of a refusal: the decision, and where it was the policy
// that said no, that too.
func (t *Team) refusals(d delegation.Details, r *ruling, by string) []audit.Entry {
	why := reasonOf(r)
	d.Decision, d.Step, d.Reason = delegation.Rejected, r.step, &why
	notes := []audit.Entry{d.Entry(by, "")}
	switch r.step {
	case delegation.StepRole, delegation.StepAction, delegation.StepParameters:
		return notes
	}
	return append(notes, denial(by, d.ToAgent, d.Task, r))
}

// reasonOf is why something was refused, without a value of its parameters.
func reasonOf(r *ruling) string {
	var bad *schemas.Error
	var denied *policy.Denied
	var quotes *quoting
	switch {
	case errors.As(r.why, &quotes):
		return quotes.plain
	case errors.As(r.why, &bad):
		return bad.Path + ": " + bad.Code
	case errors.As(r.why, &denied):
		return denied.Rule + ": " + denied.Why
	}
	return r.Error()
}

// denial is the line policy_denied.
func denial(by, agent, what string, r *ruling) audit.Entry {
	rule := string(r.step)
	var denied *policy.Denied
	if errors.As(r.why, &denied) {
		rule = denied.Rule
	}
	return audit.Entry{
		Agent: by, Event: audit.PolicyDenied,
		Action: fmt.Sprintf("the policy of %s denied %s: %s", agent, schemas.Sentence(what, 64), rule),
		Details: audit.Details(map[string]any{
			"agent": agent, "what": schemas.Sentence(what, 64), "rule": rule, "step": string(r.step), "reason": reasonOf(r),
		}),
	}
}

// Approval tells why a task needs an operator's approval, for
// mailbox.Options.Approval; "" if it needs none. Of an agent with a role that is one
// which carries an action and has still to do it: who waited for children only
// collects what they did.
func (t *Team) Approval(task *mailbox.Task) string {
	act, to := task.Mbox.Action, task.Assignment.TargetAgent
	m, ours := t.Members[to]
	question := m.Asks && act != nil && act.Name == Permission
	if act == nil || !ours || m.Role == "" && !question || len(task.Mbox.WaitsFor) > 0 {
		return ""
	}
	p, err := policy.ForAgent(t.Policies, to)
	switch {
	case err != nil:
		return "" // it is refused when it is claimed
	case question:
		return t.asksInQuestion(p, act.Params)
	}
	return t.asks(p, act.Name)
}

// Folders lists what else than the task an approval of it binds, for
// mailbox.Options.Folders: what a deployment uses, if containers are started.
func (t *Team) Folders(ctx context.Context, task *mailbox.Task) ([]mailbox.Folder, error) {
	asked, to := task.Mbox.Action, task.Assignment.TargetAgent
	if asked == nil || asked.Name != "deploy_compose" || t.Members[to].Role == "" || !t.Compose.Run {
		return nil, nil
	}
	act, err := action.Parse(asked.Name, asked.Params)
	if err != nil {
		return nil, inTask(err)
	}
	p, err := policy.ForAgent(t.Policies, to)
	if err != nil {
		return nil, err
	}
	used, err := act.(*action.DeployCompose).Folders(ctx, p)
	var all []mailbox.Folder
	for _, f := range used {
		all = append(all, mailbox.Folder(f))
	}
	return all, err
}

// asks tells why an action needs an approval; "" if it needs none. A dry run of
// deploy_compose needs none, unless always_ask names it; one that starts
// containers always needs one, which is not for the policy to say.
func (t *Team) asks(p *policy.Policy, name string) string {
	switch dry := name == "deploy_compose" && !t.Compose.Run; {
	case name == "deploy_compose" && t.Compose.Run:
		return "deploy_compose starts containers"
	case dry && !p.MustAsk(name), !p.NeedsApproval(name):
		return ""
	case name == Permission:
		return "its agent asks a person for it"
	}
	return fmt.Sprintf("the risk profile %s asks for it (always_ask, auto_approve)", schemas.Quote(p.RiskProfileName))
}
