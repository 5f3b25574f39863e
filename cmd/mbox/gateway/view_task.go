package gateway

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"mbox/cmd/mbox/gateway/pages"
	"mbox/cmd/mbox/sight"
	"mbox/mailbox"
	"mbox/schemas"
)

// sheet is the page of one task.
type sheet struct {
	Why       *mailbox.Why
	Title     string
	Output    string
	File      string // the task as JSON
	Artifacts []artifact
	Attached  []artifact // what came with it
	Steps     []pages.Step
	Tree      *branch
	Spent     string
	Verbs     []offered
}

type artifact struct {
	mailbox.Artifact
	Name, Link string
}

// branch is a task of a tree, with those that it handed on.
type branch struct {
	Node     *mailbox.Node
	Own      bool // the page's own
	Children []*branch
}

// offered is a verb that fits the task's state.
type offered struct{ Verb, Name, About, Class string }

// deed is a verb of the dashboard.
type deed struct {
	offered
	do   verb
	done string          // what has become of a task then
	said string          // to the person
	on   []mailbox.State // the states that it fits; none: only what was shown, one by one
}

var deeds = sync.OnceValue(func() map[string]deed {
	return map[string]deed{
		"cancel": {
			offered{"cancel", "Cancel", "It ends as failed, with all that it has handed on. Whoever works on it is stopped.", "bad"},
			(*call).cancel, "cancelled", "The task was cancelled.",
			[]mailbox.State{mailbox.Pending, mailbox.InProgress},
		},
		"retry": {
			offered{"retry", "Retry", "It goes back to pending, with all its attempts.", ""},
			(*call).retry, "put back", "The task is pending again.",
			[]mailbox.State{mailbox.Failed},
		},
		"release": {
			offered{"release", "Release", "It goes back to pending; no attempt is lost.", ""},
			(*call).release, "released", "The task was given back.",
			[]mailbox.State{mailbox.InProgress},
		},
		"approve": {offered{Verb: "approve", Name: "Approve"}, (*call).approve, "approved", "The task was approved.", nil},
	}
})

// said is what a page may say was done, by the word in its address.
func (v view) said() string {
	switch word := v.value("said"); word {
	case "send":
		return "The task was sent."
	case "pause":
		return "The agent was paused."
	case "resume":
		return "The agent was resumed."
	default:
		return deeds()[word].said
	}
}

func (v view) task() error {
	if err := v.tidy(); err != nil {
		return err
	}
	id := mailbox.ID(v.r.PathValue("id"))
	if !v.all() {
		if _, _, err := v.find(); err != nil {
			return err
		}
	}
	w, err := v.sight().Why(v.ctx, id)
	if err != nil {
		return aboutTask(id, err)
	}
	w.Task = sight.Shown(w.Task)
	if len(w.Waits) > 0 && strings.HasSuffix(w.Summary, w.Waits[0]) {
		w.Waits = w.Waits[1:] // the summary says it
	}
	s := sheet{Why: w, Title: string(w.ID)}
	if w.Task != nil {
		if err := v.about(&s, w.Task); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(deeds())) {
		refuses := name == "cancel" && w.Approve != "" // what is to be approved has a form for both
		if d := deeds()[name]; slices.Contains(d.on, w.State) && !refuses {
			s.Verbs = append(s.Verbs, d.offered)
		}
	}
	if w.Tree != nil && len(w.Tree.Nodes) > 1 {
		s.Tree, s.Spent = branchOf(w.Tree, w.Tree.Root, w.ID), spent(w.Tree.Spent)
	}
	return v.show("task", "", s.Title, s)
}

// about fills in what the task's file tells.
func (v view) about(s *sheet, t *mailbox.Task) error {
	data, err := schemas.Encode(t)
	if err != nil {
		return err
	}
	s.Title, s.File = t.Task.Title, pages.Raw(data)
	if out := t.Result.Output; len(out) > 0 && string(out) != "null" {
		s.Output = pages.JSON(out)
	}
	for i, a := range t.Result.Artifacts {
		one := artifact{Artifact: a, Name: a.Path}
		if folder, ok := t.Keeps(i); ok {
			one.Name = strings.TrimPrefix(a.Path, folder+"/")
			one.Link = (&url.URL{Path: "/tasks/" + string(t.ID) + "/artifacts/" + one.Name}).String()
		}
		s.Artifacts = append(s.Artifacts, one)
	}
	for _, a := range t.Mbox.Attachments {
		s.Attached = append(s.Attached, artifact{
			Artifact: mailbox.Artifact{Path: a.Name, Size: a.Size, SHA256: a.SHA256},
			Name:     a.Name, Link: (&url.URL{Path: "/tasks/" + string(t.ID) + "/attachments/" + a.Name}).String(),
		})
	}
	s.Steps = v.steps(t, s.Why.Tree)
	return nil
}

// steps are the way of a task and its children, as their own files tell it.
func (v view) steps(t *mailbox.Task, tree *mailbox.Tree) []pages.Step {
	steps := stepsOf(t)
	const mostChildren = 50
	var children []*mailbox.Node
	if tree != nil {
		children = tree.Children(t.ID)
	}
	for _, n := range children[:min(len(children), mostChildren)] {
		child, _, err := v.Box.Task(v.ctx, n.ID)
		if err != nil {
			continue // the tree tells of it
		}
		for _, one := range stepsOf(child) {
			one.Of, one.Who = string(n.ID), cmp.Or(one.Who, child.Assignment.TargetAgent)
			steps = append(steps, one)
		}
	}
	return pages.Lay(steps, v.door.o.Now())
}

// stepsOf are the times in which a task waited, and those in which somebody worked at it.
func stepsOf(t *mailbox.Task) (steps []pages.Step) {
	attempt := 0
	now := pages.Step{Name: "waited", From: t.Created.Time}
	end := func(at time.Time, how string) {
		now.To, now.End = at, how
		steps = append(steps, now)
	}
	for _, c := range t.Audit.StateChanges {
		switch {
		case c.To == mailbox.InProgress:
			attempt++
			end(c.At.Time, "taken by "+c.By)
			now = pages.Step{Name: fmt.Sprintf("attempt %d", attempt), Who: c.By, From: c.At.Time, Works: true}
		case c.From == mailbox.InProgress || c.To.Terminal():
			now.Bad = c.To == mailbox.Failed
			end(c.At.Time, strings.TrimSuffix(string(c.To)+": "+c.Reason, ": "))
			now = pages.Step{Name: "waited", From: c.At.Time}
		case c.From.Terminal():
			now = pages.Step{Name: "waited", From: c.At.Time, Who: c.By}
		}
	}
	if !t.Result.Status.Terminal() {
		steps = append(steps, now)
	}
	return steps
}

func branchOf(t *mailbox.Tree, id, own mailbox.ID) *branch {
	i := slices.IndexFunc(t.Nodes, func(n *mailbox.Node) bool { return n.ID == id })
	if i < 0 {
		return nil
	}
	b := &branch{Node: t.Nodes[i], Own: id == own}
	for _, child := range t.Children(id) {
		b.Children = append(b.Children, branchOf(t, child.ID, own))
	}
	return b
}

func spent(b mailbox.Budget) string {
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(b)) {
		out = append(out, fmt.Sprintf("%s %d", kind, b[kind]))
	}
	return strings.Join(out, ", ")
}

// decideOne does with a task what a form says. It counts for what the form showed: an
// approval for what would be done, all else for the claim that stood.
func (v view) decideOne() error {
	f, err := v.fields()
	if err != nil {
		return err
	}
	name, id := v.r.PathValue("verb"), mailbox.ID(v.r.PathValue("id"))
	deed, known := deeds()[name]
	if !known {
		return badRequest(schemas.Quote(name)+" is nothing that can be done with a task", "the task's page shows what can")
	}
	o := anyOrder{Reason: f["reason"], For: f["for"], SHA256: f["sha256"], Seen: f["seen"]}
	if err := o.check(); err != nil {
		return err
	}
	if name == "approve" && o.SHA256 == "" || name != "approve" && o.Seen == "" {
		return badRequest("the form does not say what it showed", "do this from the task's page, or the inbox")
	}
	if name == "approve" {
		t, _, err := v.Box.Task(v.ctx, id)
		if err == nil && t.Mbox.Action != nil && !pages.Whole(t.Mbox.Action.Params) {
			return &refusal{http.StatusConflict, string(id) + ": its parameters are longer than a page shows", "mbox approve on a terminal shows all of them"}
		}
	}
	done, err := v.decide(deed.do, id, o)
	if err != nil {
		return err
	}
	return v.to("/task/" + path.Base(string(done.ID)) + "?said=" + name)
}
