package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/schemas"
)

var commandForm = schemas.Pattern(`^/[a-z]{1,32}$`)

// command reads a text that is one: its first word is / and letters. What begins so
// and goes on otherwise, as a path does, is none.
func command(text string) (word string, args []string, is bool) {
	words := strings.Fields(text)
	if len(words) == 0 || !commandForm().MatchString(words[0]) {
		return "", nil, false
	}
	return words[0], words[1:], true
}

const help = `What you write here becomes a task; its result comes back here. Besides:
/status – your tasks that have not ended
/why ID – why a task is where it is
/cancel ID – end a task of yours
/ack ID – its result has come
/help – this`

const helpOperator = `
/approve ID CODE – let a task run that waits for it; /why ID tells the code of what you see
As an operator you may name any task.`

// noTask answers for a task that is not there and for one that is none of the
// asker's business alike: an id that was guessed tells nothing.
const noTask = "There is no such task of yours here. /status lists those there are."

// obey does a command and answers.
func (i *inbox) obey(ctx context.Context, m *Message, word string, args []string) error {
	var text string
	var err error
	switch {
	case word == "/help" || word == "/start": // Telegram begins every conversation with the latter
		if text = help; i.guard.operator(m) {
			text += helpOperator
		}
	case word == "/status" && len(args) == 0:
		text, err = i.status(ctx, m)
	case word == "/why" && len(args) == 1:
		text, err = i.why(ctx, m, mailbox.ID(args[0]))
	case word == "/cancel" && len(args) == 1:
		text, err = i.cancel(ctx, m, mailbox.ID(args[0]))
	case word == "/ack" && len(args) == 1:
		text, err = i.acknowledge(ctx, m, mailbox.ID(args[0]))
	case word == "/approve" && (len(args) == 1 || len(args) == 2) && i.guard.operator(m):
		text, err = i.approve(ctx, m, mailbox.ID(args[0]), strings.Join(args[1:], ""))
	default:
		text = "That is no command, or not in this form. /help tells which there are."
	}
	if err != nil {
		return err
	}
	i.say(m, text)
	return nil
}

// rights are what a sender may do about a task.
type rights struct{ see, end bool }

// may tells the sender's rights. In a room everybody reads the answer: there a task
// is told about only if it comes from that room.
func (i *inbox) may(m *Message, t *mailbox.Task) rights {
	own := t.Source.Agent == i.agent && t.Source.User == m.From
	_, _, c, ok := ParseSession(t.Source.Session)
	here := ok && t.Source.Agent == i.agent && c.Group == m.In.Group && c.Peer == m.In.Peer
	operator := i.guard.operator(m)
	return rights{see: (own || operator) && (here || !m.In.Group), end: own && (here || !m.In.Group) || operator}
}

// find returns a task that the sender may see or end; nil for any other.
func (i *inbox) find(ctx context.Context, m *Message, id mailbox.ID, want func(rights) bool) (*mailbox.Task, mailbox.State, error) {
	t, state, err := i.Box.Task(ctx, id)
	var bad *schemas.Error
	switch {
	case errors.Is(err, mailbox.ErrNotFound), errors.As(err, &bad):
		return nil, "", nil
	case err != nil:
		return nil, "", err
	case !want(i.may(m, t)):
		return nil, "", nil
	}
	return t, state, nil
}

func sees(r rights) bool { return r.see }
func ends(r rights) bool { return r.end }

// mostListed is how many tasks /status names.
const mostListed = 10

func (i *inbox) status(ctx context.Context, m *Message) (string, error) {
	var lines []string
	n := 0
	for item, err := range i.Box.List(ctx, mailbox.Filter{Source: i.agent, States: []mailbox.State{mailbox.InProgress, mailbox.Pending}}) {
		if err != nil {
			return "", err
		}
		if item.Task == nil || item.Task.Source.User != m.From || !i.may(m, item.Task).see {
			continue
		}
		if n++; n <= mostListed {
			lines = append(lines, fmt.Sprintf("%s, %s: %s", item.Task.ID, item.State, schemas.Sentence(item.Task.Task.Title, 60)))
		}
	}
	switch {
	case n == 0:
		return "No task of yours waits or is at work.", nil
	case n > mostListed:
		lines = append(lines, fmt.Sprintf("and %d more", n-mostListed))
	}
	return strings.Join(lines, "\n"), nil
}

func (i *inbox) why(ctx context.Context, m *Message, id mailbox.ID) (string, error) {
	t, _, err := i.find(ctx, m, id, sees)
	if t == nil || err != nil {
		return noTask, err
	}
	w, err := i.Box.Why(ctx, t.ID)
	if errors.Is(err, mailbox.ErrNotFound) {
		return noTask, nil
	}
	if err != nil {
		return "", err
	}
	lines := []string{fmt.Sprintf("%s, %s: %s", w.ID, w.State, schemas.Sentence(w.Summary, 500))}
	for _, wait := range w.Waits {
		lines = append(lines, "It waits for "+schemas.Sentence(wait, 200))
	}
	if w.Approve != "" && i.guard.operator(m) && w.Task != nil && w.Task.Mbox.Action != nil {
		lines = i.shown(w, lines)
	}
	return strings.Join(lines, "\n"), nil
}

// mostShown is how many characters of an action's parameters are shown.
const mostShown = 2000

// shown tells an operator, behind what else is told, what an approval would let run,
// and its code. Where that does not fit, there is no code: who has not seen all of it
// does not approve it here.
func (i *inbox) shown(w *mailbox.Why, lines []string) []string {
	a := w.Task.Mbox.Action
	var folders []string
	for _, f := range w.Folders {
		folders = append(folders, fmt.Sprintf("It uses the folder %s: %s", schemas.Sentence(f.Path, 300), cmp.Or(f.SHA256, "not bound, a service may write it")))
	}
	compact := a.Params.Clone()
	_ = compact.Compact() // it lies in the task's indentation
	params := schemas.Sentence(string(compact), math.MaxInt)
	lines = append(lines, fmt.Sprintf("Done by %s, asked by %s", w.Task.Assignment.TargetAgent, asker(w.Task)))
	all := slices.Concat(lines, []string{fmt.Sprintf("It would do %s %s", a.Name, params)}, folders, []string{fmt.Sprintf("/approve %s %s", w.ID, code(w.Approve))})
	if utf8.RuneCountInString(params) <= mostShown && i.fits(strings.Join(all, "\n")) {
		return all
	}
	return append(lines, fmt.Sprintf("It is too long to be shown here. On the machine mbox show %s shows all of it, and mbox approve %s lets it run.", w.ID, w.ID),
		fmt.Sprintf("It would do %s %s", a.Name, schemas.Sentence(params, mostShown/4)))
}

// asker is who has sent a task, and for whom.
func asker(t *mailbox.Task) string {
	by := t.Source.Agent
	if t.Source.User != "" {
		by += " for " + schemas.Sentence(t.Source.User, 100)
	}
	if t.Mbox.ParentID != "" {
		by += ", on the way to " + string(t.Mbox.ParentID)
	}
	return by
}

func (i *inbox) cancel(ctx context.Context, m *Message, id mailbox.ID) (string, error) {
	t, _, err := i.find(ctx, m, id, ends)
	if t == nil || err != nil {
		return noTask, err
	}
	err = i.Box.Cancel(ctx, t.ID, i.agent, "Cancelled by chat")
	switch {
	case errors.Is(err, mailbox.ErrConflict):
		return fmt.Sprintf("%s has ended already.", t.ID), nil
	case errors.Is(err, mailbox.ErrNotFound):
		return noTask, nil
	case err != nil && !errors.Is(err, mailbox.ErrCommitted):
		return "", err
	}
	return fmt.Sprintf("%s is cancelled.", t.ID), nil
}

// acknowledge writes down that a result has come. Only who asked says so.
func (i *inbox) acknowledge(ctx context.Context, m *Message, id mailbox.ID) (string, error) {
	t, _, err := i.find(ctx, m, id, sees)
	if t == nil || err != nil {
		return noTask, err
	}
	err = Acknowledge(ctx, i.Box, t.ID, i.agent)
	switch {
	case errors.Is(err, mailbox.ErrConflict):
		return fmt.Sprintf("%s has no result yet.", t.ID), nil
	case err != nil:
		return "", err
	}
	return fmt.Sprintf("Thank you: the result of %s has come.", t.ID), nil
}

// approvalLasts is how long an approval by chat counts.
const approvalLasts = time.Hour

// codeSize is how many characters of a SHA-256 name what an operator has seen. Nobody
// finds other parameters that begin with the same 64 bits in time.
const codeSize = 16

func code(sum string) string {
	sum = strings.TrimPrefix(sum, "sha256:")
	return sum[:min(len(sum), codeSize)]
}

// approvedBy tells whether the task was approved by the message, whose sender may stand
// there in clear or as a hash.
func (i *inbox) approvedBy(id mailbox.ID, message string) (bool, error) {
	lines, err := linesOf(i.Box, id)
	return slices.ContainsFunc(lines, func(e audit.Entry) bool {
		var d struct {
			Approves mailbox.Approval `json:"approves"`
		}
		return e.Detail(&d) == nil && strings.HasPrefix(d.Approves.From, message+" ")
	}), err
}

// approve lets a task run as it is now, if that is what the code names; without a code
// it tells what that would be, and the code. Who says so is the sender that the channel vouches for; what he said counts once, whoever hands
// it over again.
func (i *inbox) approve(ctx context.Context, m *Message, id mailbox.ID, seen string) (string, error) {
	t, _, err := i.find(ctx, m, id, ends)
	if t == nil || err != nil {
		return noTask, err
	}
	w, err := i.Box.Why(ctx, t.ID)
	if err != nil && !errors.Is(err, mailbox.ErrNotFound) {
		return "", err
	}
	switch {
	case w == nil || w.Approve == "":
		return fmt.Sprintf("%s waits for no approval.", t.ID), nil
	case seen == "":
		return i.why(ctx, m, id)
	case !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(seen), seen != code(w.Approve):
		return fmt.Sprintf("%s is not what you have seen. /why %s shows what it would do now.", t.ID, t.ID), nil
	}
	key := i.key(m.ID)
	message := fmt.Sprintf("message %s of %s", key[len(key)-16:], i.agent)
	from := schemas.Sentence(message+" "+mailbox.Person(i.Box, m.From), 200)
	if spent, err := i.approvedBy(t.ID, message); spent || err != nil {
		return fmt.Sprintf("This message has approved %s before, and counts once.", t.ID), err
	}
	_, err = i.Box.Approve(ctx, t.ID, mailbox.Consent{By: "human", From: from, Why: "Approved by chat", For: approvalLasts, SHA256: w.Approve})
	var refused *mailbox.Refusal
	switch {
	case errors.As(err, &refused):
		return fmt.Sprintf("%s cannot be approved: %s.", t.ID, schemas.Sentence(err.Error(), 200)), nil
	case errors.Is(err, mailbox.ErrConflict), errors.Is(err, mailbox.ErrNotFound):
		return fmt.Sprintf("%s has changed meanwhile. /why %s shows what it would do now.", t.ID, t.ID), nil
	case err != nil && !errors.Is(err, mailbox.ErrCommitted):
		return "", err
	}
	return fmt.Sprintf("%s is approved for an hour.", t.ID), nil
}
