package chat

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/schemas"
)

const (
	maxName  = 256  // bytes of a sender, a room or a thread
	maxID    = 1024 // of a message's ID
	maxTitle = 120  // characters of a task's title
)

// inbox makes tasks of messages, answers commands, and keeps the place.
type inbox struct {
	*run
	guard   *guard
	refused hourly
	secret  []byte              // for keys that nobody else can tell before
	done    recent              // keys of messages that nothing is to be done about any more
	asked   map[mailbox.ID]bool // the tasks that were taken; only of a kind that waits for all of them
	took    bool                // something since the last look
	failed  error               // of the mailbox
}

func (i *inbox) Take(ctx context.Context, m Message) error {
	err := i.take(ctx, &m)
	if err != nil && ctx.Err() == nil {
		i.failed = err
	}
	return err
}

func (i *inbox) Keep(ctx context.Context, text string) error {
	err := i.cursor.keep(ctx, i.Box, text)
	if err != nil && ctx.Err() == nil {
		i.failed = err
	}
	return err
}

func (i *inbox) Seen(ctx context.Context, id string) error { return i.delivery.Seen(ctx, id) }

func (i *inbox) take(ctx context.Context, m *Message) error {
	if why := i.guard.refuses(m); why != "" {
		return i.refuse(ctx, m, why)
	}
	i.took = true
	m.Text, m.Title = strings.TrimSpace(Plain(m.Text)), strings.TrimSpace(line(Plain(m.Title)))
	if !isPlain(m.ID, maxID) {
		i.say(m, "This message was not taken: the chat system gave it no name that can be kept. Nothing was done with it.")
		return nil
	}
	if again, err := i.again(ctx, m); again || err != nil {
		return err
	}
	if m.Text == "" && m.Title == "" && len(m.Files) == 0 {
		return nil
	}
	if wait, tell := i.guard.pace(m.From, i.now()); wait > 0 {
		if tell {
			i.say(m, fmt.Sprintf("This message was not taken: too many have come. Nothing was done with it; there is room for another in %s.", roughly(wait)))
		}
		return nil
	}
	if err := i.act(ctx, m); err != nil {
		return err
	}
	i.done.add(i.key(m.ID))
	return nil
}

// act does what the message asks for.
func (i *inbox) act(ctx context.Context, m *Message) error {
	if word, args, is := command(m.Text); is && len(m.Files) == 0 {
		return i.obey(ctx, m, word, args)
	}
	return i.submit(ctx, m)
}

// again tells whether the message was taken before. What a server hands over once
// more is no second message of its sender's: it is not counted, and not answered.
func (i *inbox) again(ctx context.Context, m *Message) (bool, error) {
	key := i.key(m.ID)
	if i.done.has(key) {
		return true, nil
	}
	id, err := mailbox.SentWith(ctx, i.Box, key)
	if id != "" {
		i.waitFor(id)
	}
	return id != "", err
}

// waitFor has the bridge wait for a task's result before it ends, where its kind does.
func (i *inbox) waitFor(id mailbox.ID) {
	if i.Kind.Stdio {
		i.asked[id] = true
	}
}

// refuse lets the owner know, and nobody else: whoever writes without leave learns
// nothing, not even that there is somebody.
func (i *inbox) refuse(ctx context.Context, m *Message, why string) error {
	if !i.refused.may(m.From, i.now()) {
		return nil
	}
	i.Log("a message of %s in %s was refused: %s", schemas.Quote(m.From), schemas.Quote(m.In.Peer), why)
	t := &mailbox.Task{Source: mailbox.Source{Session: Plain(Session(i.To, i.Name, m.In))}}
	return i.Box.Note(ctx, audit.Entry{
		Agent: i.agent, Event: audit.PolicyDenied, Session: i.Box.Session(t),
		Action:  i.agent + " refused a message",
		Details: audit.Details(map[string]string{"bridge": i.Name, "rule": "sender", "reason": why}),
	})
}

// submit makes a task of the message, or says why not. The same message again is the
// same task.
func (i *inbox) submit(ctx context.Context, m *Message) error {
	switch {
	case len(m.Files) > 0 && i.Rules.MaxAttachments == 0:
		i.say(m, "This message was not taken: it has a file with it, and files are not taken here. Nothing was done with it; please send it as text.")
		return nil
	case len(m.Text) > i.Rules.MaxMessage:
		i.say(m, fmt.Sprintf("This message was not taken: it has %d bytes, and at most %d are taken. Nothing was done with it.", len(m.Text), i.Rules.MaxMessage))
		return nil
	}
	files, left, err := i.fetch(ctx, m)
	if err != nil {
		return err
	}
	if len(left) > 0 && len(files) == 0 && m.Text == "" && m.Title == "" {
		i.say(m, "This message was not taken: "+strings.Join(left, "; ")+". Nothing was done with it.")
		return nil
	}
	t, err := i.task(m, files, left)
	var id mailbox.ID
	if err == nil {
		id, err = mailbox.SubmitWith(ctx, i.Box, t, files)
	}
	if len(left) > 0 && (err == nil || errors.Is(err, mailbox.ErrCommitted)) {
		i.say(m, "This message was taken without these files: "+strings.Join(left, "; ")+".")
	}
	var bad *schemas.Error
	switch {
	case err == nil, errors.Is(err, mailbox.ErrCommitted):
		i.waitFor(id)
		return nil
	case errors.As(err, &bad):
		i.say(m, "This message was not taken: "+schemas.Sentence(bad.Problem, 200)+". Nothing was done with it.")
		return nil
	}
	return err
}

// task is what the message asks for. All of it is a stranger's: none of it is obeyed
// before an agent takes it.
func (i *inbox) task(m *Message, files []mailbox.File, left []string) (*mailbox.Task, error) {
	labels, err := schemas.Encode(origin{Message: m.ID, Subject: schemas.Cut(m.Title, maxTitle)})
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(m.Text, "\n")
	if first == "" && len(files) > 0 {
		first = files[0].Name
	}
	t := &mailbox.Task{
		Source:     mailbox.Source{Agent: i.agent, Session: Session(i.To, i.Name, m.In), User: m.From},
		Task:       mailbox.Request{Title: schemas.Cut(cmp.Or(m.Title, line(first)), maxTitle), Description: m.Text},
		Assignment: mailbox.Assignment{TargetAgent: i.To},
	}
	if len(left) > 0 {
		t.Task.Description = strings.TrimSpace(t.Task.Description + "\n\n" + leftOut(left))
	}
	t.Mbox.IdempotencyKey, t.Mbox.Labels = i.key(m.ID), labels
	return t, nil
}

// key is the idempotency key of a message: of this bridge and account, and made with
// the mailbox's salt, so that no agent can send a task before that the message would
// then count as.
func (i *inbox) key(id string) string {
	sum := hmac.New(sha256.New, i.secret)
	for _, part := range []string{i.Name, i.cursor.Kind, i.cursor.Account, id} {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return i.agent + ":" + hex.EncodeToString(sum.Sum(nil))
}

// say answers a message in its conversation, at most once.
func (i *inbox) say(m *Message, text string) {
	pieces, _ := i.pieces(text)
	for part, piece := range pieces {
		sum := hmac.New(sha256.New, i.secret)
		fmt.Fprintf(sum, "answer %d %s %s", part, i.key(m.ID), text)
		n := Notice{Key: hex.EncodeToString(sum.Sum(nil)[:16]), To: m.In, Title: schemas.Cut(m.Title, maxTitle), Text: piece}
		if isPlain(m.ID, maxID) {
			n.Reply = m.ID
		}
		i.answers.say(n)
	}
}

// pieces are the messages that a text becomes here; all tells whether they hold it.
func (i *inbox) pieces(text string) (pieces []string, all bool) {
	l := i.Kind.Limits
	pieces = cut(text, l.Text, l.Lines)
	most := min(len(pieces), max(l.Parts, 1))
	return pieces[:most], most == len(pieces)
}

// fits tells whether a text can be said whole.
func (i *inbox) fits(text string) bool {
	_, all := i.pieces(text)
	return all
}

// line is a text on one line.
func line(text string) string { return strings.Join(strings.Fields(text), " ") }

// roughly tells a time to wait as people do.
func roughly(d time.Duration) string {
	if d > 90*time.Second {
		return fmt.Sprintf("%d minutes", int(d.Round(time.Minute).Minutes()))
	}
	return fmt.Sprintf("%d seconds", int(d.Round(time.Second).Seconds()))
}
