package chat

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// Happening is what a notification tells: JSON for programs, and in words for
// people. It has no text of the task but its title and why it failed, and of a message
// its beginning.
type Happening struct {
	Event  string        `json:"event"` // one of Happenings
	Key    string        `json:"key"`   // the same whenever it is told again
	At     string        `json:"at"`
	Seq    int64         `json:"seq"` // of the ledger's line
	Task   mailbox.ID    `json:"task,omitzero"`
	Title  string        `json:"title,omitzero"`
	Agent  string        `json:"agent,omitzero"` // who did it, or is to do it
	From   string        `json:"from,omitzero"`
	State  mailbox.State `json:"state,omitzero"`
	Reason string        `json:"reason,omitzero"`
}

// Happenings are what can be notified of.
var Happenings = []string{"completed", "failed", "approval", "alarm", "message"}

// words are the happening for people.
func (h *Happening) words() (title, text string) {
	title = h.Event
	if h.Task != "" {
		title = fmt.Sprintf("%s: %s", h.Event, h.Task)
	}
	text = cmp.Or(h.Title, string(h.Task))
	if h.Reason != "" {
		text = cmp.Or(text+"\n", "") + h.Reason
	}
	if h.Event == "approval" {
		text += fmt.Sprintf("\nmbox approve %s", h.Task)
	}
	return title, text
}

// NotifierOptions of a target of notifications.
type NotifierOptions struct {
	Box      *mailbox.Box
	Name     string
	Kind     Kind
	Channel  Channel
	Settings Settings // of the channel; its secrets are kept out of remarks
	On       []string // of Happenings
	Agent    string   // only tasks for it, from it, or that it did; "" for all
	JSON     bool     // the text is for a program
	Log      func(format string, args ...any)

	Pause time.Duration // before the second try, then longer each time; 2 s
}

// Notifier tells a target what happens, each at least once and in the ledger's order,
// from the place that was kept on; the first time from the ledger's end. What the
// target cannot take now is tried until it can, and nothing is told before it. That
// this is so becomes an alarm once, until the target has taken something.
type Notifier struct {
	o     NotifierOptions
	out   *outlet
	place notifyPlace
}

// notifyPlace is what a notifier keeps, in .mbox/bridges/notify.<name>.out.
type notifyPlace struct {
	Format  int            `json:"format"` // 1
	At      audit.Position `json:"at"`
	Alarmed bool           `json:"alarmed"` // about the target
}

// NewNotifier makes a notifier.
func NewNotifier(o NotifierOptions) *Notifier {
	o.Pause = cmp.Or(o.Pause, 2*time.Second)
	return &Notifier{o: o, out: newOutlet(newCareful(o.Channel, secretsOf(&o.Settings)), o.Kind.Limits.Every)}
}

func (n *Notifier) file() string { return "notify." + n.o.Name }

// Run tells until ctx ends. mailbox.ErrBusy says that another process does.
func (n *Notifier) Run(ctx context.Context) error {
	lock, err := hold(n.o.Box.Home(), n.file(), n.o.Box.Options().Sync)
	if err != nil {
		return err
	}
	if err = n.restore(); err == nil {
		err = n.follow(ctx)
	}
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, lock.Unlock())
}

func (n *Notifier) follow(ctx context.Context) error {
	err := Follow(ctx, n.o.Box, n.place.At, n.heed, nil)
	if errors.Is(err, audit.ErrMoved) { // another ledger was begun
		return n.restart()
	}
	if err != nil {
		return err
	}
	return n.keep(context.WithoutCancel(ctx))
}

// heed tells what a line says, where that is wanted. Only then the place is behind it.
func (n *Notifier) heed(ctx context.Context, line audit.Line) error {
	h, err := n.happening(ctx, line)
	if h != nil && err == nil {
		err = n.tell(ctx, h)
	}
	if err != nil {
		return err
	}
	n.place.At = line.End
	if h == nil {
		return nil
	}
	return n.keep(ctx)
}

// triesBeforeAlarm is how often a target may fail before that is an alarm.
const triesBeforeAlarm = 5

// tell tries until the target has it, or refuses it.
func (n *Notifier) tell(ctx context.Context, h *Happening) error {
	if err := n.o.Box.Ledger().Flushed(ctx); err != nil {
		return err
	}
	for tries := 1; ; tries++ {
		_, err := n.out.send(ctx, n.notice(h, tries > 1))
		if err == nil {
			n.place.Alarmed = false
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n.o.Log("notify %s: line %d of the ledger: %v", n.o.Name, h.Seq, err)
		refused := errors.Is(err, ErrRefused)
		if refused || tries >= triesBeforeAlarm {
			if fault := n.alarm(ctx, err); fault != nil || refused {
				return fault
			}
		}
		next := backoff(n.o.Pause, maxPause, tries)
		var wait *WaitError
		if errors.As(err, &wait) {
			next = min(max(wait.For, n.o.Pause), maxWait)
		}
		if !Sleep(ctx, next) {
			return ctx.Err()
		}
	}
}

// alarmKind is the alarm about a target of notifications.
const alarmKind = "notify"

// alarm writes down that the target does not take what it is told, once until it does.
func (n *Notifier) alarm(ctx context.Context, why error) error {
	if n.place.Alarmed {
		return nil
	}
	n.place.Alarmed = true
	if err := n.keep(ctx); err != nil {
		return err
	}
	return n.o.Box.Note(ctx, audit.Entry{
		Agent: audit.MboxAgent, Event: audit.ErrorEvent, Action: fmt.Sprintf("mbox: notify %s fails: mbox.toml, [notify.%s]", n.o.Name, n.o.Name),
		Details: audit.Details(map[string]string{"alarm": alarmKind, "target": n.o.Name, "reason": reason(why)}),
	})
}

func (n *Notifier) notice(h *Happening, again bool) Notice {
	title, text := h.words()
	if n.o.JSON {
		data, _ := json.Marshal(h, json.Deterministic(true)) // it is made of strings and numbers
		text = string(data)
	}
	text = cutFor(text, n.o.Kind.Limits, repetition)[0]
	note := Notice{Key: h.Key, Title: title, Text: text, Again: again && n.o.Kind.Once == AtLeastOnce}
	if note.Again && !n.o.JSON {
		note.Text = repeated(text, n.o.Kind.Limits)
	}
	return note
}

// happening is what a line tells that is wanted; nil for anything else.
func (n *Notifier) happening(ctx context.Context, line audit.Line) (*Happening, error) {
	if line.Event() == audit.MessageEvent {
		return n.message(ctx, line)
	}
	if line.Detail("to") == nil && line.Detail("alarm") == nil {
		return nil, nil
	}
	e, err := line.Decode()
	if err != nil {
		return nil, err
	}
	h := &Happening{At: e.TS, Seq: e.Seq, Task: mailbox.ID(e.Task()), Agent: e.Agent}
	m, moved := task.MoveOf(&e)
	switch {
	case e.Event == audit.ErrorEvent && line.Text("alarm") == alarmKind && line.Text("target") == n.o.Name:
		return nil, nil // the target itself is told once it works again, which it does not need
	case e.Event == audit.ErrorEvent:
		h.Event, h.Reason = "alarm", cmp.Or(line.Text("reason"), e.Action)
	case !moved || m.Leaves() == m.Enters() || e.Event == audit.TaskCancelled:
		return nil, nil
	case m.Enters() == mailbox.Completed:
		h.Event = "completed"
	case m.Enters() == mailbox.Failed:
		h.Event = "failed"
	case m.Enters() == mailbox.Pending:
		h.Event = "approval"
	default:
		return nil, nil
	}
	if !slices.Contains(n.o.On, h.Event) {
		return nil, nil
	}
	least := int64(0)
	if moved {
		least = m.Revision
	}
	return n.about(ctx, h, least)
}

// about adds what the task's file tells, as of this revision or a later one, and
// leaves out what is not wanted.
func (n *Notifier) about(ctx context.Context, h *Happening, revision int64) (*Happening, error) {
	h.Key = n.key(h.Seq)
	t, state, err := n.task(ctx, h.Task, revision)
	if err != nil {
		return nil, err
	}
	h.State = state
	if t == nil { // what is known of it is in the line
		if n.o.Agent != "" || h.Event == "approval" {
			return nil, nil
		}
		return h, nil
	}
	h.Title, h.From = schemas.Sentence(line(Plain(t.Task.Title)), 200), t.Source.Agent
	if e := t.Result.Error; h.Event == "failed" && e != nil {
		h.Reason = line(Plain(e.Code)) + because(e.Message)
	}
	if h.Event == "approval" {
		ask := n.o.Box.Options().Approval
		if ask == nil || h.State != mailbox.Pending || ask(t) == "" {
			return nil, nil
		}
		h.Agent, h.Reason = t.Assignment.TargetAgent, ask(t)
	}
	whose := []string{t.Assignment.TargetAgent, t.Source.Agent, t.Claimant()}
	if n.o.Agent != "" && !slices.Contains(whose, n.o.Agent) {
		return nil, nil
	}
	return h, nil
}

// key names what a line tells this target.
func (n *Notifier) key(seq int64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\nnotify\n%s\n%d\n", n.o.Box.MailboxID(), n.o.Name, seq))
	return hex.EncodeToString(sum[:16])
}

// message is what a line tells of a message that names the people, where that is
// wanted. One that lies nowhere, or not as it was posted, is left to verify.
func (n *Notifier) message(ctx context.Context, at audit.Line) (*Happening, error) {
	if at.Detail("people") == nil || !slices.Contains(n.o.On, "message") || n.o.Agent != "" && n.o.Agent != at.Agent() {
		return nil, nil
	}
	id := strings.TrimSuffix(filepath.Base(at.Text("file")), ".json")
	until := time.Now().Add(2 * n.o.Box.Options().ScanInterval)
	for {
		m, err := mailbox.MessageOf(n.o.Box, id)
		switch {
		case err == nil:
			title := schemas.Sentence(line(Plain(fmt.Sprintf("#%s, %s: %s", m.Channel, m.From, m.Text))), 200)
			return &Happening{Event: "message", Key: n.key(at.Seq), At: string(at.TS()), Seq: at.Seq, Task: m.Task, Title: title, Agent: m.From, From: m.From}, nil
		case !errors.Is(err, mailbox.ErrIntegrity) && !errors.Is(err, mailbox.ErrNotFound):
			return nil, err
		case time.Now().After(until):
			return nil, nil
		case !Sleep(ctx, 20*time.Millisecond): // a line comes before its file
			return nil, ctx.Err()
		}
	}
}

// task is a task as of this revision or a later one; nil where there is none. A line
// comes before its file: what a process that died has left is brought there by the
// next scan.
func (n *Notifier) task(ctx context.Context, id mailbox.ID, revision int64) (*mailbox.Task, mailbox.State, error) {
	if id == "" {
		return nil, "", nil
	}
	until := time.Now().Add(2 * n.o.Box.Options().ScanInterval)
	for {
		t, state, err := n.o.Box.Task(ctx, id)
		var bad *schemas.Error
		gone := errors.Is(err, mailbox.ErrNotFound) || errors.As(err, &bad)
		switch {
		case err != nil && !gone:
			return nil, "", err
		case !gone && t.Mbox.Revision >= revision:
			return t, state, nil
		case revision == 0 || time.Now().After(until):
			return nil, "", nil
		case !Sleep(ctx, 20*time.Millisecond):
			return nil, "", ctx.Err()
		}
	}
}

func (n *Notifier) path() string { return PlaceFile(n.o.Box.Home(), n.file()) }

// restore takes up the place that was kept. Where the ledger does not hold it, it is
// begun anew at the end.
func (n *Notifier) restore() error {
	data, err := durable.Read(n.path(), maxCursor)
	if err == nil {
		err = schemas.Decode(data, &n.place)
	}
	if err == nil && n.place.Format == 1 && n.o.Box.Ledger().Check(n.place.At) == nil {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.o.Log("notify %s: the place that was kept cannot be read: %v", n.o.Name, err)
	}
	return n.restart()
}

// restart begins at the ledger's end.
func (n *Notifier) restart() error {
	end, err := n.o.Box.Ledger().Newest()
	if err != nil {
		return err
	}
	n.place = notifyPlace{Format: 1, At: end}
	return n.keep(context.Background())
}

func (n *Notifier) keep(ctx context.Context) error {
	data, err := schemas.Encode(n.place)
	if err == nil {
		err = n.o.Box.Ledger().Flushed(ctx)
	}
	if err == nil {
		err = durable.Replace(n.path(), data, n.o.Box.Options().Sync)
	}
	return err
}
