package slack

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/chat"
)

// event is what is read of an event: of a message, and of one that names us.
type event struct {
	Type    string           `json:"type"`
	Subtype string           `json:"subtype"`
	User    string           `json:"user"`
	Bot     string           `json:"bot_id"`
	Text    string           `json:"text"`
	At      string           `json:"ts"`
	Thread  string           `json:"thread_ts"`
	Channel string           `json:"channel"`
	Kind    string           `json:"channel_type"`
	Files   []jsontext.Value `json:"files"`
}

// take hands over an event that is something that a person has said.
func (c *channel) take(ctx context.Context, payload jsontext.Value, me identity, in chat.Inbox) error {
	var p struct {
		Type  string         `json:"type"`
		Event jsontext.Value `json:"event"`
	}
	var e event
	if lenient(payload, &p) != nil || p.Type != "event_callback" || lenient(p.Event, &e) != nil {
		return nil
	}
	m, ok := e.said(me)
	if !ok || m.In.Group && !slices.Contains(c.Rooms, m.In.Peer) {
		return nil
	}
	return in.Take(ctx, m)
}

// subtypes are those of messages that a person writes. The others tell what became of
// one, or of the channel.
var subtypes = []string{"", "file_share", "thread_broadcast"}

// said makes a message of the event; ok is false for one that no person has written.
func (e *event) said(me identity) (m chat.Message, ok bool) {
	switch {
	case e.Type != "message" && e.Type != "app_mention", !slices.Contains(subtypes, e.Subtype), e.Bot != "", e.User == me.User, e.User == "USLACKBOT":
		return m, false
	case !isID(e.User) || !isID(e.Channel) || !isTime(e.At) || e.Thread != "" && !isTime(e.Thread):
		return m, false
	}
	seconds, _, _ := strings.Cut(e.At, ".")
	at, _ := strconv.ParseInt(seconds, 10, 64) // isTime has seen it
	m = chat.Message{ID: e.Channel + ":" + e.At, From: e.User, At: time.Unix(at, 0), Text: words(unaddressed(e.Text, me.User))}
	m.In = chat.Conversation{Peer: e.Channel, Group: true}
	if e.Kind == "im" || e.Kind == "" && e.Channel[0] == 'D' {
		m.In = chat.Conversation{Peer: e.User}
	}
	if e.Thread != e.At {
		m.In.Thread = e.Thread
	}
	for range e.Files { // they are not fetched: the bridge says that it takes none
		m.Files = append(m.Files, chat.File{Name: "file", Size: -1})
	}
	return m, strings.TrimSpace(m.Text) != "" || len(m.Files) > 0
}

// unaddressed leaves out our own name before a text.
func unaddressed(text, me string) string {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), "<@"+me)
	name, rest, closed := strings.Cut(rest, ">")
	if !ok || !closed || name != "" && name[0] != '|' {
		return text
	}
	return strings.TrimLeft(rest, ":, \u00a0")
}

func literal(text string) string {
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(text)
}

// words is a text as people see it: Slack writes names, channels and links between
// < and >, and these signs themselves as entities.
func words(text string) string {
	var out strings.Builder
	for {
		before, rest, open := strings.Cut(text, "<")
		inside, after, closed := strings.Cut(rest, ">")
		if !open || !closed {
			out.WriteString(literal(text))
			return out.String()
		}
		out.WriteString(literal(before) + literal(shown(inside)))
		text = after
	}
}

// shown is what people see of a name, a channel or a link.
func shown(inside string) string {
	target, label, _ := strings.Cut(inside, "|")
	sign := ""
	switch {
	case strings.HasPrefix(target, "@"), strings.HasPrefix(target, "#"):
		sign, target = target[:1], target[1:]
	case strings.HasPrefix(target, "!"):
		sign, target = "@", target[1:]
	case label != "" && label != strings.TrimPrefix(strings.TrimPrefix(target, "https://"), "http://"):
		return label + " (" + target + ")"
	default:
		return target
	}
	if label == "" {
		label = target
	}
	return sign + strings.TrimPrefix(label, sign)
}
