package main

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"time"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// The router keeps two views of the mailbox in memory/, in the shapes in which
// ColDBase's tools read them, and beside them the notes (cmd_note.go) and what was
// learned (learning.go). They are derived: nothing reads them back, and
// whoever deletes or edits one gets it anew with the next line of the ledger.

// AgentState is memory/agent_state.json: who is at work on what.
type AgentState struct {
	Agents   map[string]AgentView `json:"agents" jsonschema:"oneof_type=object;array,description=by name; older tools write a list"`
	Tasks    TaskLists            `json:"tasks" jsonschema:"description=what is worked at\\, and the last that ended\\, latest first"`
	Metadata StateMetadata        `json:"metadata"`
}

// AgentView is an agent of mbox.toml.
type AgentView struct {
	ID            string        `json:"id" jsonschema:"description=NAME-1"`
	Status        string        `json:"status" jsonschema:"enum=idle,enum=busy,enum=offline,enum=error,description=offline: not enabled; error: of older tools\\, mbox does not write it"`
	Role          string        `json:"role" jsonschema:"description=orchestrator\\, code_generation\\, deployment\\, validation or another role\\, empty without one"`
	LastActivity  *mailbox.Time `json:"last_activity" jsonschema:"nullable,description=its last line in the ledger"`
	LastHeartbeat *mailbox.Time `json:"last_heartbeat,omitzero" jsonschema:"nullable,description=what older tools write instead"`
	// Lifecycle is not there for an agent that may claim, which ColDBase's all may.
	Lifecycle *mailbox.Agent `json:"lifecycle,omitzero" jsonschema:"description=why it may not claim"`
}

// TaskLists are tasks by what has become of them.
type TaskLists struct {
	Current   []TaskSummary `json:"current"`
	Completed []TaskSummary `json:"completed"`
	Failed    []TaskSummary `json:"failed"`
}

// TaskSummary is a task in a list.
type TaskSummary struct {
	ID      mailbox.ID `json:"id"`
	Agent   string     `json:"agent" jsonschema:"description=who works at it or did\\, else for whom it was"`
	Summary string     `json:"summary" jsonschema:"description=its title"`
}

// StateMetadata says of when a view is.
type StateMetadata struct {
	Version     string       `json:"version" jsonschema:"enum=1.0"`
	CreatedAt   mailbox.Time `json:"created_at"`
	LastUpdated mailbox.Time `json:"last_updated"`
}

// TaskQueue is memory/task_queue.json: the waiting tasks, oldest first. mbox
// send takes such a file, too.
type TaskQueue struct {
	Queue []QueuedTask `json:"queue"`
	More  int          `json:"more,omitzero" jsonschema:"minimum=0,description=further tasks that wait"`
}

// QueuedTask is a waiting task.
type QueuedTask struct {
	ID        string       `json:"id"`
	CreatedAt mailbox.Time `json:"created_at"`
	Source    string       `json:"source"`
	Target    string       `json:"target"`
	Task      string       `json:"task" jsonschema:"description=its title"`
	Status    string       `json:"status" jsonschema:"enum=pending"`
	Priority  int          `json:"priority" jsonschema:"minimum=0,description=0: urgent\\, 1: high\\, 2: normal\\, 3 and more: low"`
}

// How much a view shows, and how far back in the ledger it looks for that.
const (
	mostQueued   = 500
	mostEnded    = 50
	mostRecent   = 150
	linesLooked  = 1000
	stateVersion = "1.0"
)

// views rewrites both files when the ledger has new lines.
type views struct {
	*service
	at    *audit.Position // the ledger's end when they were written; nil before
	due   time.Time       // when the first pause ends that they tell of; zero: none
	state AgentState      // as it was written last
	known learned         // of memory/learning.jsonl
}

// keepViews keeps both until the context ends, and writes them a last time then.
func (v *service) keepViews(ctx context.Context) {
	w := views{service: v, state: v.lastState()}
	tick := time.NewTicker(time.Duration(v.config.PollInterval))
	defer tick.Stop()
	for {
		if err := w.refresh(context.WithoutCancel(ctx)); err != nil {
			v.debugf("the views in memory: %v", err)
		}
		if ctx.Err() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// lastState is the view that is there, of which the times of creation and of
// agents' last lines are kept.
func (v *service) lastState() (s AgentState) {
	data, err := durable.Read(v.viewPath("agent_state.json"), 1<<20)
	if err != nil || schemas.Decode(data, &s) != nil {
		return AgentState{}
	}
	return s
}

func (v *service) viewPath(name string) string { return filepath.Join(v.box.Home(), "memory", name) }

func (w *views) refresh(ctx context.Context) error {
	if !w.due.IsZero() && !time.Now().Before(w.due) {
		w.at = nil // a pause ends without a line
	}
	recent, end, err := w.recent()
	if err != nil || w.at != nil && end == *w.at {
		return err
	}
	queue, err := w.queue(ctx)
	if err != nil {
		return err
	}
	state, err := w.agents(ctx, recent)
	if err != nil {
		return err
	}
	for name, view := range map[string]any{"task_queue.json": queue, "agent_state.json": state} {
		if err := w.put(name, view); err != nil {
			return err
		}
	}
	if err := w.notes(ctx, recent); err != nil {
		return err
	}
	if err := w.learn(ctx); err != nil {
		return err
	}
	w.at, w.state = &end, *state
	return nil
}

// notes keeps the view of the notes, where there is a new one.
func (w *views) notes(ctx context.Context, recent []audit.Entry) error {
	noted := func(e audit.Entry) bool {
		var d struct {
			Channel string `json:"channel"`
		}
		return e.Event == audit.MessageEvent && (w.at == nil || e.Seq > w.at.Seq) && e.Detail(&d) == nil && d.Channel == noteChannel
	}
	if w.at == nil && channelThere(w.box, noteChannel) || slices.ContainsFunc(recent, noted) {
		return writeNotes(ctx, w.session, w.box)
	}
	return nil
}

// put replaces a view, unless it says what it said.
func (w *views) put(name string, view any) error {
	data, err := schemas.Encode(view)
	if err != nil {
		return err
	}
	return w.putBytes(name, data)
}

// recent are the last lines of the ledger, the latest first, and its end.
func (w *views) recent() (lines []audit.Entry, end audit.Position, err error) {
	for line, err := range w.box.Ledger().Backward() {
		if err != nil {
			return nil, end, err
		}
		if lines == nil {
			if end = line.End; w.at != nil && end == *w.at {
				return nil, end, nil
			}
		}
		e, err := line.Decode()
		if err != nil {
			return nil, end, err
		}
		if lines = append(lines, e); len(lines) == linesLooked {
			break
		}
	}
	return lines, end, nil
}

// queue makes the view of what waits. Drops that nobody has admitted yet are not in it, and
// are not read: there may be a hundred thousand, each as hard to read as can be.
func (w *views) queue(ctx context.Context) (*TaskQueue, error) {
	type waits struct {
		id mailbox.ID
		at time.Time
	}
	var first []waits
	sort := func() {
		slices.SortFunc(first, func(a, b waits) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id)) })
		first = first[:min(len(first), mostQueued)]
	}
	index, err := mailbox.Overview(w.box, func(l *mailbox.Live) {
		if l.State != mailbox.Pending {
			return
		}
		if first = append(first, waits{l.ID, l.Created}); len(first) == 2*mostQueued {
			sort()
		}
	})
	if err != nil {
		return nil, err
	}
	sort()
	q := &TaskQueue{Queue: []QueuedTask{}, More: index.Count[mailbox.Pending] - len(first)}
	for _, it := range first {
		t, state, err := w.box.Task(ctx, it.id)
		if err != nil || state != mailbox.Pending || t.Mbox.TX == "" {
			continue // it has moved on, or somebody has put something else there
		}
		q.Queue = append(q.Queue, QueuedTask{
			ID: string(t.ID), CreatedAt: t.Created, Source: t.Source.Agent, Target: t.Assignment.TargetAgent,
			Task: t.Task.Title, Status: string(state), Priority: numberOf(t.Task.Priority),
		})
	}
	return q, nil
}

// numberOf is a priority as older queues write it: 0 is the most urgent.
func numberOf(priority string) int {
	return len(task.Priorities) - 1 - slices.Index(task.Priorities, priority)
}

// agents makes the view of the agents and of what they did lately.
func (w *views) agents(ctx context.Context, recent []audit.Entry) (*AgentState, error) {
	now := task.At(time.Now())
	s := &AgentState{
		Agents: map[string]AgentView{},
		Tasks:  TaskLists{Current: []TaskSummary{}, Completed: []TaskSummary{}, Failed: []TaskSummary{}},
		Metadata: StateMetadata{
			Version: stateVersion, CreatedAt: cmp.Or(w.state.Metadata.CreatedAt, now), LastUpdated: now,
		},
	}
	busy := map[string]bool{}
	for it, err := range w.box.List(ctx, mailbox.Filter{States: []mailbox.State{mailbox.InProgress}, Limit: mostQueued}) {
		if err != nil {
			return nil, err
		}
		if it.Task != nil {
			sum := summary(it.Task)
			busy[sum.Agent] = true
			s.Tasks.Current = append(s.Tasks.Current, sum)
		}
	}
	w.ended(ctx, s, recent)
	w.due = time.Time{}
	for _, name := range w.config.AgentNames() {
		v := w.agent(name, busy[name], recent)
		now, err := mailbox.AgentOf(w.box, name)
		if err != nil {
			return nil, err
		}
		if !now.Claims() {
			v.Lifecycle = &now
		}
		if end := now.Until; end != nil && (w.due.IsZero() || end.Before(w.due)) {
			w.due = end.Time
		}
		s.Agents[name] = v
	}
	return s, nil
}

// ended lists the tasks of the latest lines that have ended.
func (w *views) ended(ctx context.Context, s *AgentState, recent []audit.Entry) {
	seen := map[string]bool{}
	for _, e := range recent {
		id := e.Task()
		if id == "" || seen[id] || len(seen) == mostRecent {
			continue
		}
		seen[id] = true
		t, state, err := w.box.Task(ctx, mailbox.ID(id))
		list := map[mailbox.State]*[]TaskSummary{mailbox.Completed: &s.Tasks.Completed, mailbox.Failed: &s.Tasks.Failed}[state]
		if err == nil && list != nil && len(*list) < mostEnded {
			*list = append(*list, summary(t))
		}
	}
}

func summary(t *mailbox.Task) TaskSummary {
	return TaskSummary{ID: t.ID, Agent: cmp.Or(t.Claimant(), t.Assignment.TargetAgent), Summary: schemas.Sentence(t.Task.Title, 200)}
}

// oldRoles are the names that ColDBase gives the built-in roles.
var oldRoles = map[string]string{
	"coordinator": "orchestrator", "coder": "code_generation", "deployer": "deployment", "tester": "validation",
}

func (w *views) agent(name string, busy bool, recent []audit.Entry) AgentView {
	a := w.config.Agents[name]
	v := AgentView{ID: name + "-1", Status: "idle", Role: cmp.Or(oldRoles[a.Role], a.Role), LastActivity: w.state.Agents[name].LastActivity}
	switch {
	case !a.Enabled:
		v.Status = "offline"
	case busy:
		v.Status = "busy"
	}
	if i := slices.IndexFunc(recent, func(e audit.Entry) bool { return e.Agent == name }); i >= 0 {
		at := task.At(recent[i].Time())
		v.LastActivity = &at
	}
	return v
}
