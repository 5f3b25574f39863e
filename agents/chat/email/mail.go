package email

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	netmail "net/mail"
	"strings"
	"unicode"

	"github.com/emersion/go-message"
	"github.com/emersion/go-message/mail"

	"mbox/agents/chat"
)

// What is taken apart of a mail. What goes beyond is handed over whole, as the file
// mail.eml.
const (
	maxHeader = 256 << 10
	maxText   = 1 << 20
	maxParts  = 100
	maxDepth  = 10
	maxID     = 250 // of a Message-ID
)

// reader makes messages of mails.
type reader struct {
	own, domain string // our address
	authserv    string // who may judge senders; "" for nobody
}

// message makes a message of a mail, or says why none.
func (r reader) message(l *letter) (m chat.Message, ignored string) {
	if len(l.bytes) == 0 {
		return m, "the server does not hand it over"
	}
	entity, err := message.ReadWithOptions(bytes.NewReader(l.bytes), &message.ReadOptions{MaxHeaderBytes: maxHeader})
	if entity == nil {
		return m, fmt.Sprintf("its header cannot be read: %v", err)
	}
	h := mail.Header{Header: entity.Header}
	from, name, domain, fault := r.sender(&h)
	if fault != "" {
		return m, fault
	}
	if robot := r.robot(&h, from); robot != "" {
		return m, "no person wrote it: " + robot
	}
	id := msgID(h.Get("Message-Id"))
	answers := msgIDs(&h, "In-Reply-To")
	m = chat.Message{
		ID: identity(id, from, l.bytes), From: from, Name: name, At: l.at,
		In:    chat.Conversation{Peer: from, Thread: first(append(append(msgIDs(&h, "References"), answers...), id))},
		Title: decoded(h.Get("Subject")), Proof: r.proofs(&h, domain),
	}
	c := content{whole: int64(len(l.bytes)) >= l.size && !message.IsUnknownEncoding(err)}
	c.read(entity)
	m.Text, m.Files = c.text(len(answers) > 0), c.files
	if !c.whole {
		m.Files = append(m.Files, l.file())
	}
	return m, ""
}

// sender is who wrote a mail: one address, written so that all who read it
// (people, servers that check signatures, we) take it for the same one.
func (r reader) sender(h *mail.Header) (from, name, domain, fault string) {
	all := h.Values("From")
	if len(all) != 1 {
		return "", "", "", fmt.Sprintf("it has %d senders", len(all))
	}
	raw := strings.TrimSpace(all[0])
	parser := netmail.AddressParser{WordDecoder: words()}
	list, err := parser.ParseList(raw)
	if err != nil || len(list) != 1 {
		return "", "", "", fmt.Sprintf("its sender is not one address: %q", oneLine(raw, 100))
	}
	written, name := list[0].Address, list[0].Name
	from, domain, ok := address(written)
	switch {
	case !ok || raw != written && !strings.HasSuffix(raw, "<"+written+">"):
		fault = "its sender is written in an unusual way"
	case strings.ContainsAny(name, "@<>\uff20\ufe6b") && !strings.EqualFold(name, written):
		fault = "its sender's name looks like another address"
	case strings.ContainsFunc(raw+name, func(c rune) bool { return unicode.Is(unicode.Bidi_Control, c) || c != '\t' && unicode.IsControl(c) }):
		fault = "its sender has letters that nobody sees"
	default:
		return from, name, domain, ""
	}
	return "", "", "", fmt.Sprintf("%s: %q", fault, oneLine(raw, 100))
}

// robot tells by which mark a mail was written by a machine, or by ourselves. Who
// answers such a mail may get an answer to it (RFC 3834).
func (r reader) robot(h *mail.Header, from string) string {
	local, _, _ := strings.Cut(strings.ToLower(from), "@")
	kind, _, _ := h.ContentType()
	switch {
	case strings.EqualFold(from, r.own):
		return "it comes from our own address"
	case local == "mailer-daemon" || local == "postmaster":
		return "it comes from " + local
	case strings.EqualFold(kind, "multipart/report"):
		return "Content-Type: multipart/report"
	}
	for field := h.Fields(); field.Next(); {
		key, value := strings.ToLower(field.Key()), strings.ToLower(strings.TrimSpace(field.Value()))
		if marked(key, value) {
			return oneLine(field.Key()+": "+value, 100)
		}
	}
	return ""
}

func marked(key, value string) bool {
	switch key {
	case "auto-submitted":
		word, _, _ := strings.Cut(value, ";")
		return strings.TrimSpace(word) != "no"
	case "precedence":
		return value == "bulk" || value == "junk" || value == "list" || value == "auto_reply"
	case "x-auto-response-suppress":
		return value != "" && value != "none"
	case "x-autoreply", "x-autorespond", "x-autoreply-from":
		return true
	case "return-path":
		return strings.ReplaceAll(value, " ", "") == "<>"
	}
	return strings.HasPrefix(key, "list-")
}

// identity is the ID of a message: the Message-ID, and what tells it from another
// mail with the same one, for anybody may write any.
func identity(id, from string, raw []byte) string {
	_, body, _ := bytes.Cut(raw, []byte("\r\n\r\n"))
	if body == nil {
		_, body, _ = bytes.Cut(raw, []byte("\n\n"))
	}
	if id == "" {
		body = raw
	}
	sum := sha256.Sum256(append([]byte(from+"\n"), body...))
	return id + "#" + hex.EncodeToString(sum[:12])
}

// replyID is the Message-ID in the ID of a message.
func replyID(identity string) string {
	at := max(strings.LastIndexByte(identity, '#'), 0)
	return msgID("<" + identity[:at] + ">")
}

// msgID reads a Message-ID, without its brackets; "" for none that may be written
// into a header.
func msgID(text string) string {
	id, ok := strings.CutPrefix(strings.TrimSpace(text), "<")
	id, closed := strings.CutSuffix(id, ">")
	odd := func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`<>()",;\`, c) }
	if !ok || !closed || len(id) > maxID || !strings.Contains(id, "@") || strings.ContainsFunc(id, odd) {
		return ""
	}
	return id
}

// msgIDs reads a list of Message-IDs, and leaves out what is none.
func msgIDs(h *mail.Header, key string) (ids []string) {
	for _, word := range strings.Fields(strings.ReplaceAll(h.Get(key), "><", "> <")) {
		if id := msgID(word); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

func first(list []string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

// words decodes the words of headers.
func words() *mime.WordDecoder { return &mime.WordDecoder{CharsetReader: inUTF8} }

func decoded(text string) string {
	if plain, err := words().DecodeHeader(text); err == nil {
		text = plain
	}
	return strings.ToValidUTF8(text, "\ufffd")
}

// file is the whole mail as a file.
func (l *letter) file() chat.File {
	return chat.File{Name: "mail.eml", Type: "message/rfc822", Size: l.size, Open: func(context.Context) (io.ReadCloser, error) {
		if int64(len(l.bytes)) < l.size {
			return nil, errLarge
		}
		return io.NopCloser(bytes.NewReader(l.bytes)), nil
	}}
}

var errLarge = errors.New("the mail is larger than is fetched")
