package bluebubbles

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/chat"
)

// row is a message as the server tells it. Webhooks have fewer fields: an update has
// no chats.
type row struct {
	GUID    string `json:"guid"`
	Temp    string `json:"tempGuid"`
	Text    string `json:"text"`
	Subject string `json:"subject"`
	Handle  struct {
		Address string `json:"address"`
	} `json:"handle"`
	FromMe   bool           `json:"isFromMe"`
	Created  int64          `json:"dateCreated"` // ms since 1970
	Read     int64          `json:"dateRead"`
	Error    int            `json:"error"`
	ItemType int            `json:"itemType"`
	Relation jsontext.Value `json:"associatedMessageType"`
	Files    []attachment   `json:"attachments"`
	Chats    []struct {
		GUID  string `json:"guid"`
		Style int    `json:"style"`
	} `json:"chats"`
}

type attachment struct {
	GUID string `json:"guid"`
	Name string `json:"transferName"`
	Type string `json:"mimeType"`
	Size int64  `json:"totalBytes"`
}

const (
	styleGroup = 43
	maxGUID    = 128             // bytes; the server's have 36
	maxFiles   = 20              // of a message
	maxDate    = 253402300800000 // in ms: the year 10000
)

// tapback tells whether a message is a reaction to another one. The server writes
// "0" for an ordinary message, a name ("love", "-like") for the reactions that it
// knows, and a number for others; older ones write numbers only.
func (r row) tapback() bool {
	text := strings.Trim(string(r.Relation), `"`)
	n, err := strconv.Atoi(text)
	if err != nil {
		return text != "" && text != "null"
	}
	return n >= 2000 && n <= 3999
}

// said tells whether a row is something that somebody said to us.
func (r row) said() bool {
	return !r.FromMe && r.Temp == "" && r.ItemType == 0 && !r.tapback() &&
		r.Created > 0 && r.Created < maxDate && r.GUID != "" && len(r.GUID) <= maxGUID && r.Handle.Address != "" && len(r.Chats) > 0 &&
		(r.words() != "" || len(r.files()) > 0)
}

// words is the text without the sign that stands for an attachment.
func (r row) words() string { return strings.TrimSpace(strings.ReplaceAll(r.Text, "\uFFFC", "")) }

// files are the attachments, without those that only draw the preview of a link.
func (r row) files() []attachment {
	return slices.DeleteFunc(slices.Clone(r.Files[:min(len(r.Files), maxFiles)]), func(a attachment) bool {
		return a.GUID == "" || len(a.GUID) > maxGUID || strings.HasSuffix(a.Name, ".pluginPayloadAttachment")
	})
}

// group tells whether a row was said in a group, and in which chat.
func (r row) group() (string, bool) {
	first := r.Chats[0]
	return first.GUID, first.Style == styleGroup || strings.Contains(first.GUID, ";+;")
}

// message makes a message of a row that was said to us. An answer inside a thread
// belongs to the conversation like any other.
func (c *channel) message(r row) chat.Message {
	m := chat.Message{
		ID: r.GUID, From: r.Handle.Address, Text: r.words(), Title: r.Subject, At: time.UnixMilli(r.Created),
		In: chat.Conversation{Peer: r.Handle.Address},
	}
	if room, group := r.group(); group {
		m.In = chat.Conversation{Peer: room, Group: true}
	}
	for _, a := range r.files() {
		size := a.Size
		if size <= 0 {
			size = -1
		}
		m.Files = append(m.Files, chat.File{
			Name: a.Name, Type: a.Type, Size: size,
			Open: func(ctx context.Context) (io.ReadCloser, error) { return c.file(ctx, a.GUID) },
		})
	}
	return m
}
