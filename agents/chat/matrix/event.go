package matrix

import (
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/chat"
)

// event is what happened in a room. The server vouches for all but its content.
type event struct {
	Type     string         `json:"type"`
	ID       string         `json:"event_id"`
	Sender   string         `json:"sender"`
	At       int64          `json:"origin_server_ts"` // milliseconds
	StateKey *string        `json:"state_key"`
	Content  jsontext.Value `json:"content"`
	Unsigned struct {
		Before jsontext.Value `json:"prev_content"`
	} `json:"unsigned"`
}

func parseEvent(raw jsontext.Value) (e event, ok bool) {
	ok = lenient(raw, &e) == nil && isID(e.ID, '$') && isID(e.Sender, '@')
	return e, ok
}

// entered tells whether the event is that we came into the room: what was said before
// is not for us. A new name or picture is an event of the same type.
func (e *event) entered(me string) bool {
	return e.Type == "m.room.member" && e.StateKey != nil && *e.StateKey == me &&
		membership(e.Content) == "join" && membership(e.Unsigned.Before) != "join"
}

func membership(content jsontext.Value) string {
	var m struct {
		Is string `json:"membership"`
	}
	if len(content) == 0 || lenient(content, &m) != nil {
		return ""
	}
	return m.Is
}

// content is a message's own, for which nobody vouches.
type content struct {
	Type  string         `json:"msgtype"`
	Body  string         `json:"body"`
	Name  string         `json:"filename"`
	URL   string         `json:"url"`
	Info  jsontext.Value `json:"info"`
	About relation       `json:"m.relates_to"`
}

type relation struct {
	Type     string `json:"rel_type,omitzero"`
	ID       string `json:"event_id,omitzero"`
	Fallback bool   `json:"is_falling_back,omitzero"` // the reply is only for clients without threads
	Reply    *reply `json:"m.in_reply_to,omitzero"`
}

type reply struct {
	ID string `json:"event_id"`
}

// parseMessage makes a message of an event that is one for us: no notice, which is
// what programs say, and no edit of what was said. Its thread stands in In; the rest
// of the conversation is the caller's to fill in.
func (c *channel) parseMessage(e *event, me string) (m chat.Message, ok bool) {
	var said content
	if e.Type != "m.room.message" || e.StateKey != nil || e.Sender == me || lenient(e.Content, &said) != nil || said.About.Type == "m.replace" {
		return m, false
	}
	m = chat.Message{ID: e.ID, From: e.Sender, At: time.UnixMilli(max(0, min(e.At, maxTime)))}
	if said.About.Type == "m.thread" {
		if !isID(said.About.ID, '$') {
			return m, false
		}
		m.In.Thread = said.About.ID
	}
	switch said.Type {
	case "m.text":
		m.Text = said.Body
		if said.About.Reply != nil && !said.About.Fallback {
			m.Text = unquoted(m.Text)
		}
		m.Text = unaddressed(m.Text, me)
	case "m.file", "m.image", "m.audio", "m.video":
		if said.URL == "" { // it is encrypted
			return m, false
		}
		file := c.file(&said)
		if m.Files = []chat.File{file}; file.Name != said.Body {
			m.Text = said.Body
		}
	default:
		return m, false
	}
	return m, true
}

const maxTime = 253402300799999 // the end of the year 9999, in milliseconds

// unquoted leaves out what older clients put before a reply: the lines that it
// answers, each after "> ", and an empty one.
func unquoted(text string) string {
	rest := text
	for strings.HasPrefix(rest, "> ") || rest == ">" || strings.HasPrefix(rest, ">\n") {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	if rest == text {
		return text
	}
	return strings.TrimPrefix(rest, "\n")
}

// unaddressed leaves out our own name before a command: many clients keep what begins
// with / for themselves, so people write "mbox: /status".
func unaddressed(text, me string) string {
	local, _, _ := strings.Cut(me[1:], ":")
	for _, name := range []string{me, "@" + local, local} {
		if rest, ok := strings.CutPrefix(text, name); ok {
			if rest = strings.TrimLeft(rest, ":, "); strings.HasPrefix(rest, "/") {
				return rest
			}
		}
	}
	return text
}

// readers are the events that somebody else has read up to, of a room's receipts.
func readers(raw jsontext.Value, me string) (ids []string) {
	var receipts struct {
		Type    string                               `json:"type"`
		Content map[string]map[string]jsontext.Value `json:"content"`
	}
	if lenient(raw, &receipts) != nil || receipts.Type != "m.receipt" {
		return nil
	}
	for id, kinds := range receipts.Content {
		var users map[string]jsontext.Value
		if lenient(kinds["m.read"], &users) != nil || !isID(id, '$') {
			continue
		}
		delete(users, me)
		if len(users) > 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
