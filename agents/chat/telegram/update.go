package telegram

import (
	"cmp"
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/chat"
)

// account is a person or a bot.
type account struct {
	ID       int64  `json:"id"`
	Bot      bool   `json:"is_bot"`
	First    string `json:"first_name"`
	Last     string `json:"last_name"`
	Username string `json:"username"`
	ReadsAll bool   `json:"can_read_all_group_messages"`
}

// update is what is read of an update. Anything but a new message is left out.
type update struct {
	ID      int64    `json:"update_id"`
	Message *message `json:"message"`
}

type message struct {
	ID    int64    `json:"message_id"`
	From  *account `json:"from"`
	As    *room    `json:"sender_chat"` // a group or a channel that speaks, and From is a stand-in
	Chat  room     `json:"chat"`
	Date  int64    `json:"date"`
	Topic int64    `json:"message_thread_id"`
	IsIn  bool     `json:"is_topic_message"` // else Topic is only the message that is replied to

	Text    string `json:"text"`
	Caption string `json:"caption"`

	Photo    []attachment `json:"photo"` // one picture in several sizes
	Document *attachment  `json:"document"`
	Audio    *attachment  `json:"audio"`
	Video    *attachment  `json:"video"`
	Voice    *attachment  `json:"voice"`

	MigrateTo int64 `json:"migrate_to_chat_id"`
}

type room struct {
	ID   int64  `json:"id"`
	Type string `json:"type"`
}

type attachment struct {
	ID   string `json:"file_id"`
	Name string `json:"file_name"`
	Type string `json:"mime_type"`
	Size *int64 `json:"file_size"`
}

// read reads an update. One that is not as the API has it still has an id, so that
// it does not come for ever; ok tells whether it has.
func read(raw jsontext.Value) (u update, ok bool, err error) {
	var id struct {
		ID *int64 `json:"update_id"`
	}
	lenient := jsontext.AllowInvalidUTF8(true)
	if err := json.Unmarshal(raw, &id, lenient); err != nil || id.ID == nil || *id.ID < 0 {
		return u, false, err
	}
	if err := json.Unmarshal(raw, &u, lenient); err != nil {
		return update{ID: *id.ID}, true, err
	}
	return u, true, nil
}

// heard is the message as the bridge gets it; ok is false where nobody has said
// anything: bots, a group or channel that speaks for itself, what a group tells of
// itself, a command for another bot.
func (c *channel) heard(m *message, me account) (said chat.Message, ok bool) {
	if m == nil || m.From == nil || m.From.Bot || m.From.ID <= 0 || m.From.ID == c.id || m.As != nil {
		return said, false
	}
	private := m.Chat.Type == "private"
	if !private && m.Chat.Type != "group" && m.Chat.Type != "supergroup" || private && m.Chat.ID != m.From.ID {
		return said, false
	}
	text, ours := addressed(cmp.Or(m.Text, m.Caption), me.Username)
	said = chat.Message{
		ID:   messageID(m.Chat.ID, m.ID),
		From: strconv.FormatInt(m.From.ID, 10),
		Name: cmp.Or(m.From.Username, strings.TrimSpace(m.From.First+" "+m.From.Last)),
		In:   chat.Conversation{Peer: strconv.FormatInt(m.Chat.ID, 10), Group: !private},
		Text: text, At: time.Unix(m.Date, 0), Files: c.files(m),
	}
	if m.IsIn && m.Topic > 0 {
		said.In.Thread = strconv.FormatInt(m.Topic, 10)
	}
	return said, ours && (text != "" || len(said.Files) > 0)
}

// addressed takes our name out of a text that begins with it, or with a command that
// has it: "@bot look", "/status@bot". ours is false for a command to another bot.
func addressed(text, name string) (rest string, ours bool) {
	first, rest, _ := strings.Cut(text, " ")
	command, to, isTo := strings.Cut(first, "@")
	switch {
	case !isTo || name == "":
		return text, true
	case command == "" && strings.EqualFold(strings.TrimRight(to, ",:"), name):
		return rest, true
	case !strings.HasPrefix(command, "/") || len(command) < 2:
		return text, true
	case strings.EqualFold(to, name):
		return strings.TrimSpace(command + " " + rest), true
	}
	return "", false
}

// messageID names a message: its number is one of the chat alone.
func messageID(room, n int64) string {
	return strconv.FormatInt(room, 10) + ":" + strconv.FormatInt(n, 10)
}

// files are the attachments. Nothing is fetched before it is opened.
func (c *channel) files(m *message) (all []chat.File) {
	add := func(a *attachment, name, kind string) {
		if a == nil || a.ID == "" {
			return
		}
		f := chat.File{
			Name: cmp.Or(a.Name, name), Type: cmp.Or(a.Type, kind), Size: -1,
			Open: func(ctx context.Context) (io.ReadCloser, error) { return c.file(ctx, a.ID) },
		}
		if a.Size != nil && *a.Size >= 0 {
			f.Size = *a.Size
		}
		all = append(all, f)
	}
	add(m.Document, "document", "")
	add(m.Audio, "audio", "")
	add(m.Video, "video", "")
	add(m.Voice, "voice.ogg", "")
	if n := len(m.Photo); n > 0 {
		add(&m.Photo[n-1], "photo.jpg", "image/jpeg") // the largest is the last
	}
	return all
}
