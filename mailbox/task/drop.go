package task

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
	"mbox/schemas"
)

var (
	actionForm = schemas.Pattern(`^[a-z][a-z0-9_]{0,63}$`)
	checkForm  = schemas.Pattern(`^[a-z][a-z0-9_-]{0,63}$`)
	codeForm   = schemas.Pattern(`^[a-z0-9][a-z0-9_.-]{0,63}$`)
)

// Reserved agent names. human and unknown may be a source, any may be a
// target; none of them can be the name of an agent.
var Reserved = []string{"shared", "mbox", "any", "unknown", "human"}

// CheckAgent returns an error if name cannot be an agent's.
func CheckAgent(name string) error {
	if !audit.AgentForm().MatchString(name) {
		return &schemas.Error{Path: "agent", Code: "bad_value", Problem: fmt.Sprintf("%q is no agent name", schemas.Sentence(name, 80)), Want: "lower-case letters, digits, _ and -, at most 64, perhaps behind bridge:"}
	}
	if slices.Contains(Reserved, name) {
		return &schemas.Error{Path: "agent", Code: "bad_value", Problem: fmt.Sprintf("the name %q is reserved", name), Want: "another name"}
	}
	return nil
}

// CheckActor returns an error if name cannot stand in the ledger as who did
// something: an agent, or a human.
func CheckActor(name string) error {
	if name == "human" {
		return nil
	}
	return CheckAgent(name)
}

// CheckID returns an error if id cannot be a task's.
func CheckID(id ID) error {
	if !audit.TaskForm().MatchString(string(id)) {
		return &schemas.Error{Path: "id", Code: "bad_value", Problem: fmt.Sprintf("%q is no task id", schemas.Sentence(string(id), 80)), Want: "a letter or digit, then at most 127 letters, digits, '.', '_' and '-'"}
	}
	return nil
}

// CheckCode returns an error if a failure cannot have this code: it stands in the ledger,
// where no text of the work does.
func CheckCode(code string) error {
	if !codeForm().MatchString(code) {
		return Fault("code", schemas.Quote(code)+" is no code of a failure", "a name such as exec_failed: a lower-case letter or digit, then at most 63 of these, '.', '_' and '-'")
	}
	return nil
}

// ParseDrop reads a task that somebody dropped as name (a file name, or ""). A
// drop may be small: only task.title is needed. It may not claim a state, and
// of mbox's own fields it may set only those that are a dropper's; an idempotency
// key of "" is refused. The error is
// a *schemas.Error that names the JSON path. The task's defaults are not filled
// in yet, but an id in the file name is taken over.
func ParseDrop(name string, data []byte) (*Task, error) {
	t := new(Task)
	if err := schemas.Decode(data, t); err != nil {
		return nil, InFile(err, name)
	}
	stem, json := strings.CutSuffix(name, ".json")
	switch {
	case t.ID == "" && json && audit.TaskForm().MatchString(stem):
		t.ID = ID(stem)
	case t.ID != "" && name != "" && t.ID.File() != name: // the copy of another task, perhaps
		return nil, &schemas.Error{File: name, Path: "id", Code: "id_mismatch", Problem: fmt.Sprintf("id %q is not the file's name", schemas.Sentence(string(t.ID), 80)), Want: "the file name without .json, or no id at all"}
	}
	if err := cmp.Or(t.Forged(), t.keyGiven(data)); err != nil {
		return nil, InFile(err, name)
	}
	return t, nil
}

// keyGiven refuses an idempotency key of "": a variable that is not set, say, and whoever
// sends again because he trusts it would have two tasks.
func (t *Task) keyGiven(data []byte) error {
	const member = "idempotency_key"
	if t.Mbox.IdempotencyKey != "" || !bytes.Contains(data, []byte(member)) {
		return nil
	}
	var said struct {
		Mbox struct {
			Key *string `json:"idempotency_key"`
		} `json:"mbox"`
	}
	if err := json.Unmarshal(data, &said); err != nil || said.Mbox.Key == nil {
		return err
	}
	return Fault("mbox."+member, "it is empty", "a key, or none at all")
}

// Forged refuses what only mbox may say.
func (t *Task) Forged() error {
	type denial struct{ problem, want string }
	state := denial{"a dropped task may not claim it", "the state of a task is the folder it lies in; leave it out"}
	family := denial{"it comes only through a delegation", "leave it out"}
	files := denial{"files come only with mbox send", "leave it out; mbox send --attach FILE brings it along"}
	m := &t.Mbox
	for _, c := range []struct {
		set  bool
		path string
		denial
	}{
		{t.Result.Status != "" && t.Result.Status != Pending, "result.status", state},
		{Given(t.Result.Output), "result.output", state},
		{len(t.Result.Artifacts) > 0, "result.artifacts", state},
		{t.Result.Error != nil, "result.error", state},
		{t.Assignment.PickedUpBy != nil, "assignment.picked_up_by", state},
		{t.Assignment.PickedUpAt != nil, "assignment.picked_up_at", state},
		{len(t.Audit.StateChanges) > 0, "audit.state_changes", state},
		{m.TX != "", "mbox.tx", state},
		{m.Revision != 0, "mbox.revision", state},
		{m.Attempt != 0, "mbox.attempt", state},
		{m.Epoch != 0, "mbox.epoch", state},
		{m.Lease != nil, "mbox.lease", state},
		{m.Progress != nil, "mbox.progress", state},
		{m.Trigger != "", "mbox.trigger", state},
		{m.ParentID != "", "mbox.parent_id", family},
		{m.RootID != "", "mbox.root_id", family},
		{m.Depth != 0, "mbox.depth", family},
		{m.Join != "", "mbox.join", family},
		{len(m.WaitsFor) > 0, "mbox.waits_for", family},
		{len(m.Budget) > 0, "mbox.budget", family},
		{len(m.Attachments) > 0, "mbox.attachments", files},
	} {
		if c.set {
			return &schemas.Error{Path: c.path, Code: "not_yours", Problem: c.problem, Want: c.want}
		}
	}
	return nil
}

// Given tells whether a JSON value is there and not null.
func Given(v jsontext.Value) bool { return len(v) > 0 && string(v) != "null" }

// Text is a JSON value as people read it: a string without its quotes, nothing for
// null, and anything else indented.
func Text(v jsontext.Value) string {
	var text string
	if !Given(v) || json.Unmarshal(v, &text, jsontext.AllowInvalidUTF8(true)) == nil {
		return text
	}
	if indented := v.Clone(); indented.Indent(jsontext.WithIndent("  ")) == nil {
		return string(indented)
	}
	return string(v)
}

// Complete fills in a new task's defaults. created is the time of the drop.
func (t *Task) Complete(created, now time.Time, source string, maxAttempts int) {
	t.Version = cmp.Or(t.Version, 1) // Validate judges one that was given
	if !inYears(created) || created.After(now) {
		created = now
	}
	if t.Created.IsZero() || t.Created.After(now) {
		t.Created = At(created)
	}
	t.Updated = At(now)
	t.Source.Agent = cmp.Or(t.Source.Agent, source)
	t.Task.Type = cmp.Or(t.Task.Type, "other")
	t.Task.Priority = cmp.Or(t.Task.Priority, "normal")
	t.Assignment.TargetAgent = cmp.Or(t.Assignment.TargetAgent, "any")
	t.Mbox.MaxAttempts = cmp.Or(t.Mbox.MaxAttempts, int64(maxAttempts))
	t.Result = Result{Status: Pending, Artifacts: []Artifact{}}
	t.Audit.StateChanges = []StateChange{}
}

// Validate checks what a type cannot say of a task that is to be made. The error
// is a *schemas.Error with the JSON path of the first field that is wrong.
func (t *Task) Validate() error {
	return cmp.Or(t.checkVersion(), t.checkSize(), t.checkFields())
}

// Sound is Validate for a task that is one already: its claim and its result
// may have filled the room that a new task has to leave.
func (t *Task) Sound() error { return cmp.Or(t.checkVersion(), t.checkFields()) }

func (t *Task) checkVersion() error {
	if t.Version != 0 && t.Version != 1 {
		return Fault("version", fmt.Sprintf("version %d is unknown", t.Version), "1")
	}
	if t.ID != "" {
		return CheckID(t.ID)
	}
	return nil
}

func (t *Task) checkFields() error {
	return cmp.Or(t.checkRequest(), t.checkContext(), t.checkNames(), t.checkMeta())
}

// checkSize refuses a task that leaves no room for what is written into it
// later: claimant, lease, history, result. One that is far too large once it is
// indented is refused before that is done.
func (t *Task) checkSize() error {
	size := 0
	for _, raw := range t.raw() {
		size += Indents(raw)
	}
	if size <= MaxNew {
		data, err := schemas.Encode(t)
		if err != nil {
			return err
		}
		size = len(data)
	}
	if size > MaxNew {
		return &schemas.Error{Path: "$", Code: schemas.CodeTooLarge, Problem: fmt.Sprintf("the task file would have %d bytes", size), Want: fmt.Sprintf("at most %d; put large material into files and name them in task.context.relevant_files", MaxNew)}
	}
	return nil
}

// raw are the parts of a task that are free JSON.
func (t *Task) raw() []jsontext.Value {
	raw := []jsontext.Value{t.Task.Context, t.Result.Output, t.Mbox.Labels}
	if t.Mbox.Action != nil {
		raw = append(raw, t.Mbox.Action.Params)
	}
	return raw
}

// Indents is how many bytes indenting well-formed JSON adds at least.
func Indents(v jsontext.Value) (n int) {
	depth := 0
	for i := 0; i < len(v); i++ {
		switch v[i] {
		case '"':
			for i++; i < len(v) && v[i] != '"'; i++ {
				if v[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			for i+1 < len(v) && strings.IndexByte(" \t\r\n", v[i+1]) >= 0 {
				i++
			}
			if i+1 < len(v) && (v[i+1] == '}' || v[i+1] == ']') {
				i++ // what is empty stays on its line
				continue
			}
			depth++
			n += 1 + 2*depth
		case ',':
			n += 1 + 2*depth
		case '}', ']':
			depth--
			n += 1 + 2*depth
		}
	}
	return n
}

// Fault is an error about the value at a JSON path.
func Fault(path, problem, want string) error {
	return &schemas.Error{Path: path, Code: "bad_value", Problem: problem, Want: want}
}

func oneOf(path, value string, values []string) error {
	if value == "" || slices.Contains(values, value) {
		return nil
	}
	want := "one of " + strings.Join(values, ", ")
	if near := schemas.Suggest(value, values); near != "" {
		want += fmt.Sprintf("; did you mean %q?", near)
	}
	return Fault(path, fmt.Sprintf("%q is not allowed", schemas.Sentence(value, 60)), want)
}

func tooLong(path, text string, runes int) error {
	if n := utf8.RuneCountInString(text); n > runes {
		return &schemas.Error{Path: path, Code: "too_long", Problem: fmt.Sprintf("%d characters", n), Want: fmt.Sprintf("at most %d", runes)}
	}
	return nil
}

func (t *Task) checkRequest() error {
	if strings.TrimSpace(t.Task.Title) == "" {
		return &schemas.Error{Path: "task.title", Code: "missing_field", Problem: "there is no title", Want: "a brief title"}
	}
	if len(t.Task.Description) > MaxDescription {
		return &schemas.Error{Path: "task.description", Code: "too_long", Problem: fmt.Sprintf("%d bytes", len(t.Task.Description)), Want: fmt.Sprintf("at most %d", MaxDescription)}
	}
	return cmp.Or(
		tooLong("task.title", t.Task.Title, MaxTitle),
		oneOf("task.type", t.Task.Type, Types),
		oneOf("task.priority", t.Task.Priority, Priorities),
	)
}

// checkContext looks at the three fields of the free context that have a meaning.
func (t *Task) checkContext() error {
	if !Given(t.Task.Context) {
		return nil
	}
	if t.Task.Context.Kind() != '{' {
		return &schemas.Error{Path: "task.context", Code: "wrong_type", Problem: "it is no object", Want: "an object"}
	}
	var c struct {
		Summary     jsontext.Value `json:"conversation_summary"`
		Files       jsontext.Value `json:"relevant_files"`
		Constraints jsontext.Value `json:"constraints"`
	}
	// Decode has looked for duplicate keys, and so will Encode.
	if err := json.Unmarshal(t.Task.Context, &c, jsontext.AllowDuplicateNames(true)); err != nil {
		return &schemas.Error{Path: "task.context", Code: "wrong_type", Problem: schemas.Sentence(err.Error(), 80)}
	}
	var text string
	var list []string
	if Given(c.Summary) && json.Unmarshal(c.Summary, &text) != nil {
		return &schemas.Error{Path: "task.context.conversation_summary", Code: "wrong_type", Problem: "it is no string", Want: "a string"}
	}
	if Given(c.Files) && json.Unmarshal(c.Files, &list) != nil {
		return &schemas.Error{Path: "task.context.relevant_files", Code: "wrong_type", Problem: "it is no list of strings", Want: "a list of strings"}
	}
	if Given(c.Constraints) && json.Unmarshal(c.Constraints, &list) != nil {
		return &schemas.Error{Path: "task.context.constraints", Code: "wrong_type", Problem: "it is no list of strings", Want: "a list of strings"}
	}
	return nil
}

func (t *Task) checkNames() error {
	who := func(path, name string, also ...string) error {
		if name == "" || slices.Contains(also, name) {
			return nil
		}
		if bad, is := errors.AsType[*schemas.Error](CheckAgent(name)); is {
			bad.Path = path
			return bad
		}
		return nil
	}
	return cmp.Or(
		who("source.agent", t.Source.Agent, "human", "unknown"),
		who("assignment.target_agent", t.Assignment.TargetAgent, "any"),
		tooLong("source.session", t.Source.Session, 512),
		tooLong("source.user", t.Source.User, 512),
	)
}

func (t *Task) checkMeta() error {
	m := &t.Mbox
	if m.MaxAttempts < 0 || m.MaxAttempts > 100 {
		return Fault("mbox.max_attempts", fmt.Sprintf("%d is not allowed", m.MaxAttempts), "1 to 100")
	}
	if len(m.DependsOn) > MaxDependsOn {
		return &schemas.Error{Path: "mbox.depends_on", Code: "too_long", Problem: fmt.Sprintf("%d ids", len(m.DependsOn)), Want: fmt.Sprintf("at most %d", MaxDependsOn)}
	}
	for i, d := range m.DependsOn {
		path := fmt.Sprintf("mbox.depends_on[%d]", i)
		if !audit.TaskForm().MatchString(string(d)) {
			return Fault(path, fmt.Sprintf("%q is no task id", schemas.Sentence(string(d), 60)), "the id of another task")
		}
		if t.ID != "" && d.Fold() == t.ID.Fold() {
			return Fault(path, "a task cannot depend on itself", "the id of another task")
		}
		if slices.ContainsFunc(m.DependsOn[:i], func(o ID) bool { return o.Fold() == d.Fold() }) {
			return Fault(path, fmt.Sprintf("%s stands there twice", d), "each id once")
		}
	}
	if len(m.Accept) > MaxAccept {
		return &schemas.Error{Path: "mbox.accept", Code: "too_long", Problem: fmt.Sprintf("%d names", len(m.Accept)), Want: fmt.Sprintf("at most %d", MaxAccept)}
	}
	for i, name := range m.Accept {
		path := fmt.Sprintf("mbox.accept[%d]", i)
		if !checkForm().MatchString(name) {
			return Fault(path, fmt.Sprintf("%q is no name of a check", schemas.Sentence(name, 60)), "NAME of [accept.NAME] in mbox.toml")
		}
		if slices.Contains(m.Accept[:i], name) {
			return Fault(path, name+" stands there twice", "each name once")
		}
	}
	if err := checkPaths(m.Paths); err != nil {
		return err
	}
	if m.Action != nil && !actionForm().MatchString(m.Action.Name) {
		return Fault("mbox.action.name", fmt.Sprintf("%q is no action name", schemas.Sentence(m.Action.Name, 60)), "lower-case letters, digits and _")
	}
	if Given(m.Labels) && m.Labels.Kind() != '{' {
		return &schemas.Error{Path: "mbox.labels", Code: "wrong_type", Problem: "it is no object", Want: "an object"}
	}
	return cmp.Or(tooLong("mbox.idempotency_key", m.IdempotencyKey, 256), m.checkAttachments())
}

// NotATask tells whether a drop's fault means that it is no task at all, so
// that it goes to quarantine; a task with a bad field is rejected instead.
func NotATask(err error) bool {
	bad, is := errors.AsType[*schemas.Error](err)
	if !is {
		return true
	}
	switch bad.Code {
	case "not_json", "truncated", "empty", "bom", "duplicate_key", "invalid_utf8", "trailing_data", "too_deep", "id_mismatch":
		return true
	}
	return bad.Path == "$" && bad.Code != schemas.CodeTooLarge || bad.Path == "id"
}
