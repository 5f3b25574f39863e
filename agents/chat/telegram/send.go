package telegram

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime/multipart"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"mbox/agents/chat"
)

// outgoing is what sendMessage is asked for; sendDocument has the same names.
type outgoing struct {
	Chat  int64  `json:"chat_id"`
	Topic int64  `json:"message_thread_id,omitzero"`
	Text  string `json:"text"`
	Reply *reply `json:"reply_parameters,omitzero"`
	Links links  `json:"link_preview_options"`
}

type reply struct {
	Message int64 `json:"message_id"`
	Anyway  bool  `json:"allow_sending_without_reply"` // it may be deleted
}

// links are not opened by the server: what an agent writes is nobody else's.
type links struct {
	Off bool `json:"is_disabled"`
}

const (
	maxCaption = 1024 // UTF-16 code units, of which no text has more than bytes
	uploadTime = 2 * time.Minute
)

// Send implements chat.Channel. It is one call of the server, so that what is refused
// was not sent by half; but a group that has a new number is sent to once more.
func (c *channel) Send(ctx context.Context, n chat.Notice) (string, error) {
	room := number(n.To.Peer)
	if room == 0 || n.To.Group != (room < 0) {
		return "", fmt.Errorf("%.40q is no chat of this server: %w", n.To.Peer, chat.ErrRefused)
	}
	out := outgoing{Chat: room, Topic: number(n.To.Thread), Text: n.Text, Links: links{Off: true}}
	if in, message, ok := strings.Cut(n.Reply, ":"); ok && in == n.To.Peer && number(message) > 0 {
		out.Reply = &reply{number(message), true}
	}
	id, err := c.send(ctx, &out, n.File)
	var no *refusal
	if errors.As(err, &no) && no.migrate < 0 && n.To.Group {
		c.remark("the group %d is %d now: write that into rooms", room, no.migrate)
		out.Chat, out.Topic, out.Reply = no.migrate, 0, nil // a group has no topics before
		id, err = c.send(ctx, &out, n.File)
	}
	return id, err
}

func (c *channel) send(ctx context.Context, out *outgoing, f *chat.File) (string, error) {
	var sent message
	var err error
	if f == nil {
		err = c.call(ctx, callTime, "sendMessage", out, &sent)
	} else {
		var kind string
		var body []byte
		if kind, body, err = form(ctx, out, f); err != nil {
			return "", fmt.Errorf("file: %w", err)
		}
		err = c.post(ctx, uploadTime, "sendDocument", kind, body, &sent)
	}
	if err != nil {
		return "", err
	}
	return messageID(out.Chat, sent.ID), nil
}

// form is the body of sendDocument. The text is the file's caption, cut to what that
// may hold: the file has it all.
func form(ctx context.Context, out *outgoing, f *chat.File) (kind string, body []byte, err error) {
	data, err := whole(ctx, f)
	if err != nil {
		return "", nil, err
	}
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	fields := map[string]string{"chat_id": strconv.FormatInt(out.Chat, 10), "caption": caption(out.Text)}
	if out.Topic != 0 {
		fields["message_thread_id"] = strconv.FormatInt(out.Topic, 10)
	}
	if out.Reply != nil {
		text, err := json.Marshal(out.Reply)
		if err != nil {
			return "", nil, err
		}
		fields["reply_parameters"] = string(text)
	}
	for name, value := range fields {
		if err := w.WriteField(name, value); err != nil {
			return "", nil, err
		}
	}
	part, err := w.CreateFormFile("document", cmp.Or(f.Name, "result.txt"))
	if err == nil {
		_, err = part.Write(data)
	}
	return w.FormDataContentType(), b.Bytes(), errors.Join(err, w.Close())
}

// caption cuts a text, and leaves its last line, which says that there is more.
func caption(text string) string {
	if len(text) <= maxCaption {
		return text
	}
	last := ""
	if at := strings.LastIndexByte(strings.TrimRight(text, "\n"), '\n'); at >= 0 && len(text)-at < maxCaption/4 {
		text, last = text[:at], text[at:]
	}
	const more = "…"
	return strings.ToValidUTF8(text[:min(len(text), maxCaption-len(last)-len(more))], "") + more + last
}
