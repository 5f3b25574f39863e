package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

func (s *Server) addAsking() {
	add(s, tool{name: "send_task", title: "Send a task", keyed: true, about: `Leave a task for an agent, or for any. It is on disk when this answers, and will be worked on at least once. Give a key of your own: the same key again is the same task, so that a call whose answer was lost can be repeated. wait_for_task waits for what comes of it.`}, s.send)
}

func (s *Server) addReading() {
	add(s, tool{name: "get_task", title: "Show a task", reads: true, about: `Show a task as its file has it, and the folder that it is in. Long texts are cut; notes say where they are whole.`}, s.get)
	add(s, tool{name: "wait_for_task", title: "Wait for a task to end", reads: true, about: `Wait until a task has ended, and tell what came of it. When the time is over before that, the answer has ended: false and how far it is; call again to go on waiting.`}, s.waitFor)
	add(s, tool{name: "list_tasks", title: "List tasks", reads: true, about: `List the tasks that you may see, those that changed last first. All filters are optional.`}, s.list)
	add(s, tool{name: "why_task", title: "Explain a task", reads: true, about: `Tell why a task is where it is: what it waits for, who can take it, how its claim stands, and the ledger lines that prove it.`}, s.why)
	s.addProof()
}

type sendInput struct {
	Title       string            `json:"title" jsonschema:"minLength=1,maxLength=500,description=what is to be done\\, in one line"`
	Description string            `json:"description,omitzero" jsonschema:"maxLength=262144,description=all that whoever does it has to know"`
	To          string            `json:"to,omitzero" jsonschema:"default=any,description=the agent that is to do it\\, or any"`
	Type        string            `json:"type,omitzero" jsonschema:"enum=research,enum=action,enum=analysis,enum=other,default=other"`
	Priority    string            `json:"priority,omitzero" jsonschema:"enum=low,enum=normal,enum=high,enum=urgent,default=normal"`
	Key         string            `json:"key,omitzero" jsonschema:"minLength=1,maxLength=256,description=names this request; the same key again is the same task"`
	Context     jsontext.Value    `json:"context,omitzero" jsonschema:"description=any JSON; conversation_summary\\, relevant_files and constraints have a meaning"`
	DependsOn   []mailbox.ID      `json:"depends_on,omitempty" jsonschema:"maxItems=100,description=tasks that must be completed first"`
	Paths       []string          `json:"paths,omitempty" jsonschema:"maxItems=50,description=files and folders that it works on\\, from the folder that the agents share: it is never done beside another task with one of them"`
	NotBefore   *mailbox.Time     `json:"not_before,omitzero" jsonschema:"description=RFC 3339; not to be taken before"`
	Deadline    *mailbox.Time     `json:"deadline,omitzero" jsonschema:"description=RFC 3339; fails if not taken by then"`
	MaxAttempts int64             `json:"max_attempts,omitzero" jsonschema:"minimum=1,maximum=100"`
	Labels      map[string]string `json:"labels,omitempty"`
	Action      *mailbox.Action   `json:"action,omitzero" jsonschema:"description=an action that needs no thinking; mbox help actions lists them"`
}

// send is Submit. Two sends with one key are one task; a key that was another
// request's is refused, so that none is lost in silence.
func (s *Server) send(ctx context.Context, _ *sdk.CallToolRequest, in sendInput) (outcome, error) {
	if err := s.tidy(ctx); err != nil {
		return outcome{}, err
	}
	for i, id := range in.DependsOn {
		if _, _, err := s.task(ctx, id); err != nil && s.o.Agent != "" {
			return outcome{}, fmt.Errorf("depends_on[%d]: %w", i, err)
		}
	}
	t, err := s.compose(in)
	if err != nil {
		return outcome{}, err
	}
	id, err := s.o.Box.Submit(ctx, t)
	if err != nil {
		return outcome{}, err
	}
	made, state, err := s.o.Box.Task(ctx, id)
	if err != nil { // it is sent all the same
		return outcome{ID: id, State: mailbox.Pending}, nil
	}
	if !t.Repeats(made) {
		return outcome{}, &advised{fmt.Errorf("key %s: %w: it named another request", schemas.Quote(in.Key), mailbox.ErrConflict), "call send_task again with a key that was not used before"}
	}
	return s.outcomeOf(made, state), nil
}

func (s *Server) compose(in sendInput) (*mailbox.Task, error) {
	t := &mailbox.Task{Source: mailbox.Source{Agent: s.actor()}}
	t.Task = mailbox.Request{Type: in.Type, Priority: in.Priority, Title: in.Title, Description: in.Description, Context: in.Context}
	t.Assignment.TargetAgent = in.To
	t.Mbox = mailbox.Meta{
		IdempotencyKey: in.Key, DependsOn: in.DependsOn, NotBefore: in.NotBefore, Deadline: in.Deadline,
		MaxAttempts: in.MaxAttempts, Action: in.Action, Paths: in.Paths,
	}
	if len(in.Labels) > 0 {
		data, err := schemas.Encode(in.Labels)
		if err != nil {
			return nil, err
		}
		t.Mbox.Labels = bytes.TrimSpace(data)
	}
	return t, nil
}

type taskInput struct {
	ID mailbox.ID `json:"id" jsonschema:"description=the task"`
}

type taskOutput struct {
	State mailbox.State `json:"state" jsonschema:"description=the folder that it is in"`
	Task  *mailbox.Task `json:"task"`
	Notes []string      `json:"notes,omitempty" jsonschema:"description=what was cut\\, and where it is whole"`
}

func (s *Server) get(ctx context.Context, _ *sdk.CallToolRequest, in taskInput) (taskOutput, error) {
	if err := s.tidy(ctx); err != nil {
		return taskOutput{}, err
	}
	t, state, err := s.task(ctx, in.ID)
	if err != nil {
		return taskOutput{}, err
	}
	c := s.cutting(t.ID)
	return taskOutput{state, c.task(t), c.notes}, nil
}

const defaultWait = 30 * time.Second

type waitInput struct {
	ID      mailbox.ID `json:"id" jsonschema:"description=the task"`
	Seconds *int       `json:"timeout_seconds,omitzero" jsonschema:"minimum=0,maximum=300,default=30,description=how long to wait at most"`
}

func (s *Server) waitFor(ctx context.Context, req *sdk.CallToolRequest, in waitInput) (outcome, error) {
	most := defaultWait
	if in.Seconds != nil {
		most = time.Duration(*in.Seconds) * time.Second
	}
	if followed(ctx) {
		most = 0 // the client polls
	}
	begun, token := time.Now(), req.Params.GetProgressToken()
	return s.wait(ctx, in.ID, most, func(t *mailbox.Task, state mailbox.State) {
		if token == nil {
			return
		}
		p := &sdk.ProgressNotificationParams{
			ProgressToken: token, Message: standing(t, state),
			Progress: time.Since(begun).Seconds(), Total: most.Seconds(),
		}
		_ = req.Session.NotifyProgress(ctx, p) // who has gone is told nothing
	})
}

// wait returns when the task has ended, or as it is after so long. It tells how the task
// stands whenever something happened to it, and at every beat.
func (s *Server) wait(ctx context.Context, id mailbox.ID, most time.Duration, tell func(*mailbox.Task, mailbox.State)) (outcome, error) {
	over, happened := time.Now().Add(most), true
	for pause := s.beat; ; pause = min(2*pause, s.beat) {
		at, err := s.o.Box.Ledger().Newest()
		if err != nil {
			return outcome{}, err
		}
		if err := s.tidy(ctx); err != nil {
			return outcome{}, err
		}
		t, state, err := s.task(ctx, id)
		if err != nil {
			return outcome{}, err
		}
		left := time.Until(over)
		if ended(state) || left <= 0 || s.stays.Err() != nil {
			return s.outcomeOf(t, state), nil
		}
		if happened || pause == s.beat {
			tell(t, state)
		}
		if happened, err = s.happened(ctx, at, id, min(left, pause)); err != nil {
			return outcome{}, err
		}
		if happened {
			pause = time.Millisecond // the file follows its line
		}
	}
}

// standing is how far a task is, for people.
func standing(t *mailbox.Task, state mailbox.State) string {
	by := t.Assignment.PickedUpBy
	switch p := t.Mbox.Progress; {
	case state == mailbox.Pending:
		return "waits to be taken by " + t.Assignment.TargetAgent
	case state != mailbox.InProgress:
		return string(state)
	case p != nil && p.Percent != nil:
		return schemas.Sentence(fmt.Sprintf("%d%% %s", *p.Percent, p.Message), maxError)
	case p != nil && p.Message != "":
		return schemas.Sentence(p.Message, maxError)
	case by != nil:
		return *by + " works on it"
	}
	return "in progress"
}

type listInput struct {
	State    []string `json:"state,omitempty" jsonschema:"enum=pending,enum=in-progress,enum=completed,enum=failed,enum=archive,description=the folders to look in; all but archive if empty"`
	To       string   `json:"to,omitzero" jsonschema:"minLength=1,description=only those meant for this agent"`
	By       string   `json:"by,omitzero" jsonschema:"minLength=1,description=only those that this agent has taken"`
	From     string   `json:"from,omitzero" jsonschema:"minLength=1,description=only those that this agent has sent"`
	Type     string   `json:"type,omitzero" jsonschema:"enum=research,enum=action,enum=analysis,enum=other"`
	Priority string   `json:"priority,omitzero" jsonschema:"enum=low,enum=normal,enum=high,enum=urgent"`
	Limit    *int     `json:"limit,omitzero" jsonschema:"minimum=1,maximum=200,default=50"`
}

type listOutput struct {
	Tasks []row `json:"tasks"`
	More  bool  `json:"more" jsonschema:"description=there are others\\, which changed earlier; a filter finds them"`
}

// row is a task in a list.
type row struct {
	ID       mailbox.ID    `json:"id"`
	State    mailbox.State `json:"state"`
	Title    string        `json:"title"`
	Type     string        `json:"type"`
	Priority string        `json:"priority"`
	To       string        `json:"to"`
	From     string        `json:"from"`
	By       string        `json:"by,omitzero" jsonschema:"description=who has taken it"`
	Created  mailbox.Time  `json:"created"`
	Updated  mailbox.Time  `json:"updated"`
	Fault    string        `json:"fault,omitzero" jsonschema:"description=why the file cannot be read as a task"`
}

func (s *Server) list(ctx context.Context, _ *sdk.CallToolRequest, in listInput) (listOutput, error) {
	if err := s.tidy(ctx); err != nil {
		return listOutput{}, err
	}
	leave, err := inTurn(ctx, s.search)
	if err != nil {
		return listOutput{}, err
	}
	defer leave()
	f := mailbox.Filter{Agent: in.By, Target: in.To, Source: in.From, Type: in.Type, Priority: in.Priority}
	for _, state := range in.State {
		f.States = append(f.States, mailbox.State(state))
	}
	out, v := listOutput{Tasks: []row{}}, s.sight()
	for item, err := range s.o.Box.List(ctx, f) {
		if err != nil {
			return out, err
		}
		if item.Task == nil {
			if s.o.Agent == "" {
				out.Tasks = append(out.Tasks, row{State: item.State, Title: item.Path, Fault: schemas.Sentence(item.Err.Error(), maxError)})
			}
			continue
		}
		yes, err := v.Sees(ctx, item.Task)
		if err != nil {
			return out, err
		}
		if yes {
			out.Tasks = append(out.Tasks, rowOf(item.Task, item.State))
		}
	}
	slices.SortStableFunc(out.Tasks, func(a, b row) int { return b.Updated.Compare(a.Updated.Time) })
	limit := 50
	if in.Limit != nil {
		limit = *in.Limit
	}
	if out.More = len(out.Tasks) > limit; out.More {
		out.Tasks = out.Tasks[:limit]
	}
	return out, nil
}

func rowOf(t *mailbox.Task, state mailbox.State) row {
	r := row{
		ID: t.ID, State: state, Title: t.Task.Title, Type: t.Task.Type, Priority: t.Task.Priority,
		To: t.Assignment.TargetAgent, From: t.Source.Agent, Created: t.Created, Updated: t.Updated,
	}
	if by := t.Assignment.PickedUpBy; by != nil {
		r.By = *by
	}
	return r
}

type whyOutput struct {
	Why   *mailbox.Why `json:"why"`
	Notes []string     `json:"notes,omitempty" jsonschema:"description=what was cut\\, and where it is whole"`
}

func (s *Server) why(ctx context.Context, _ *sdk.CallToolRequest, in taskInput) (whyOutput, error) {
	if err := s.tidy(ctx); err != nil {
		return whyOutput{}, err
	}
	if err := task.CheckID(in.ID); err != nil {
		return whyOutput{}, err
	}
	_, _, err := s.task(ctx, in.ID)
	if err != nil && (s.o.Agent != "" || !errors.Is(err, mailbox.ErrNotFound)) {
		return whyOutput{}, err
	}
	w, err := s.sight().Why(ctx, in.ID) // of a file that is gone, the ledger's last word
	if err != nil {
		return whyOutput{}, err
	}
	c := s.cutting(in.ID)
	if w.Task != nil { // also one that came between the two looks
		w.Task = c.task(w.Task)
	}
	if all := w.Lines; len(all) > maxSteps {
		c.notes = append(c.notes, fmt.Sprintf("lines: the last %d of %d are here; tail_ledger with task and before shows the others", maxSteps, len(all)))
		w.Lines = all[len(all)-maxSteps:]
	}
	return whyOutput{w, c.notes}, nil
}
