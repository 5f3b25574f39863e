package imsg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"mbox/agents/chat"
)

// message is a message as imsg tells it.
type message struct {
	ID        int64        `json:"id"`     // the row
	Cursor    int64        `json:"cursor"` // 0 where imsg has none
	GUID      string       `json:"guid"`
	ChatGUID  string       `json:"chat_guid"`
	Group     bool         `json:"is_group"`
	Sender    string       `json:"sender"`
	Name      string       `json:"sender_name"`
	FromMe    bool         `json:"is_from_me"`
	Reaction  bool         `json:"is_reaction"`
	Text      string       `json:"text"`
	CreatedAt string       `json:"created_at"`
	Files     []attachment `json:"attachments"`
}

type attachment struct {
	Name    string `json:"transfer_name"`
	Type    string `json:"mime_type"`
	Size    int64  `json:"total_bytes"`
	Path    string `json:"original_path"`
	Missing bool   `json:"missing"`
}

const (
	maxFiles = 20        // of a message
	maxFile  = 100 << 20 // bytes that are read of one
)

// Receive implements chat.Channel.
func (c *channel) Receive(ctx context.Context, kept string, in chat.Inbox) error {
	params := map[string]any{"attachments": true}
	place := int64(0)
	if kept != "" {
		var err error
		if place, err = strconv.ParseInt(kept, 10, 64); err != nil || place <= 0 {
			return fmt.Errorf("the place that was kept is none: %.40q: %w", kept, chat.ErrSetup)
		}
		params["since_rowid"] = place
	}
	child, err := start(ctx, c.Command)
	if err != nil {
		return err
	}
	defer child.end(ctx)
	asking, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if err := child.call(asking, "watch.subscribe", params, nil); err != nil {
		return err
	}
	for {
		f, err := child.next(ctx)
		if err != nil {
			return err
		}
		m, err := c.heard(f)
		if err != nil {
			return err
		}
		if err := c.take(ctx, m, in); err != nil {
			return err
		}
		if at := m.place(); at > place { // it may tell the same one for a while
			place = at
			if err := in.Keep(ctx, strconv.FormatInt(place, 10)); err != nil {
				return err
			}
		}
	}
}

// errOver is what imsg says when it tells no more.
var errOver = errors.New("imsg: it tells no more of new messages")

// heard is the message of a notification: an empty one where there is none in it.
func (c *channel) heard(f frame) (m message, err error) {
	switch f.Method {
	case "watch.overflow", "error":
		return m, fmt.Errorf("%w: %s", errOver, chat.OneLine(string(f.Params[:min(len(f.Params), 200)])))
	case "message":
		var params struct {
			Message message `json:"message"`
		}
		if err := json.Unmarshal(f.Params, &params); err != nil {
			c.remark("a message cannot be read: %s", chat.OneLine(err.Error()))
			return m, nil
		}
		return params.Message, nil
	}
	return m, nil
}

// place is the number behind which all comes again.
func (m message) place() int64 {
	if m.Cursor > 0 {
		return m.Cursor
	}
	return m.ID
}

// take hands over what somebody said to us.
func (c *channel) take(ctx context.Context, m message, in chat.Inbox) error {
	text := strings.TrimSpace(strings.ReplaceAll(m.Text, "\uFFFC", ""))
	files := m.files()
	if m.FromMe || m.Reaction || m.Sender == "" || m.GUID == "" || text == "" && len(files) == 0 {
		return nil
	}
	said := chat.Message{
		ID: m.GUID, From: m.Sender, Name: m.Name, Text: text, Files: files, In: chat.Conversation{Peer: m.Sender},
	}
	if m.Group || strings.Contains(m.ChatGUID, ";+;") {
		if !slices.Contains(c.Rooms, m.ChatGUID) {
			return nil
		}
		said.In = chat.Conversation{Peer: m.ChatGUID, Group: true}
	}
	said.At, _ = time.Parse(time.RFC3339, m.CreatedAt) // else nobody knows
	return in.Take(ctx, said)
}

func (m message) files() (out []chat.File) {
	for _, a := range m.Files[:min(len(m.Files), maxFiles)] {
		if a.Missing || a.Path == "" || strings.HasSuffix(a.Name, ".pluginPayloadAttachment") {
			continue
		}
		size := a.Size
		if size <= 0 {
			size = -1
		}
		out = append(out, chat.File{
			Name: a.Name, Type: a.Type, Size: size,
			Open: func(context.Context) (io.ReadCloser, error) { return read(a.Path) },
		})
	}
	return out
}

// attachments is the folder in which Messages keeps what it gets, below the home of
// its user.
const attachments = "Library/Messages/Attachments"

// read opens an attachment: a file in the folder that Messages has for them, and
// nothing that only looks like one. What else is on this machine nobody gets by it.
func read(path string) (io.ReadCloser, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(home, attachments)
	below, err := filepath.Rel(dir, path)
	if err != nil || !filepath.IsLocal(below) {
		return nil, fmt.Errorf("imsg: an attachment that does not lie in ~/%s", attachments)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(below, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("imsg: %s is no file", filepath.Base(path))
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(f, maxFile), f}, nil
}
