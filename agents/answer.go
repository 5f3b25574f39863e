package agents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"mbox/mailbox"
	"mbox/mailbox/channel"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// answered is what a task ends with whose answer was posted by an attempt that was
// killed then: nothing is thought twice. Nil for every other task.
func (p *performance) answered() (*verdict, error) {
	if p.task.Message() == "" {
		return nil, nil
	}
	m, err := mailbox.MessageOf(p.Box, channel.ReplyID(p.task.ID))
	if errors.Is(err, mailbox.ErrNotFound) || errors.Is(err, mailbox.ErrIntegrity) { // which mbox verify names
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v := completed(thoughtful{Answer: m.Text})
	return &v, nil
}

// answer posts what an agent that thinks has to say to the message of which its inbox item
// tells. It is posted before the item is completed: killed in between, the next attempt
// finds it. An error says that the worker has to stop; what the channel does not take the
// task keeps.
func (a *attempt) answer(hard context.Context, output jsontext.Value) error {
	t := a.claim.Task
	text := spoken(t, output)
	if text == "" {
		return nil
	}
	var refused error
	err := a.insist(hard, func() error {
		_, _, _, err := mailbox.PostMessage(context.WithoutCancel(hard), a.Box, mailbox.Post{Channel: t.Channel(), Text: text, ReplyTo: t.Message(), By: a.claim})
		if errors.Is(err, mailbox.ErrNotFound) || errors.Is(err, mailbox.ErrConflict) || errors.Is(err, mailbox.ErrIntegrity) {
			refused, err = err, nil
		}
		return err
	})
	if err != nil && !settled(err) {
		return err
	}
	if err = errors.Join(refused, err); err != nil && !errors.Is(err, mailbox.ErrCommitted) {
		a.tell(zerolog.WarnLevel, err, "its answer is not posted")
	}
	return nil
}

// spoken is what of a result is posted as the answer to an inbox item; "" for nothing.
func spoken(t *mailbox.Task, output jsontext.Value) string {
	var said struct {
		Answer string `json:"answer"`
	}
	if t.Message() == "" || json.Unmarshal(output, &said) != nil || onlyWord(said.Answer, task.NoReply) {
		return ""
	}
	text := strings.TrimSpace(said.Answer)
	if len(text) <= channel.MaxText {
		return text
	}
	mark := fmt.Sprintf("\n(cut off: mbox show %s has all of it)", t.ID)
	return schemas.Cut(text, channel.MaxText-len(mark)-cutMark) + mark
}

// cutMark is how long the mark of schemas.Cut may be, in bytes.
const cutMark = 40

// onlyWord tells whether a text begins or ends with a word, and has hardly more than that.
func onlyWord(text, word string) bool {
	text = strings.TrimSpace(text)
	rest, ok := strings.CutPrefix(text, word)
	if !ok {
		rest, ok = strings.CutSuffix(text, word)
	}
	return ok && utf8.RuneCountInString(strings.TrimSpace(rest)) <= mostBeside
}
