package email

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/emersion/go-message"
	"golang.org/x/text/encoding/htmlindex"

	"mbox/agents/chat"
)

// content is what the parts of a mail hold.
type content struct {
	plain, html []string
	files       []chat.File
	whole       bool // nothing is missing
}

var errEnough = errors.New("more parts than are read")

// read takes a mail apart.
func (c *content) read(mail *message.Entity) {
	parts := 0
	err := mail.Walk(func(path []int, part *message.Entity, fault error) error {
		if parts++; parts > maxParts || len(path) > maxDepth {
			return errEnough
		}
		c.whole = c.whole && !message.IsUnknownEncoding(fault)
		if part.MultipartReader() == nil {
			c.leaf(part, parts)
		}
		return nil
	})
	c.whole = c.whole && err == nil
}

// leaf reads a part that holds no others: text to read, or a file.
func (c *content) leaf(part *message.Entity, number int) {
	kind, params, _ := part.Header.ContentType()
	how, names, _ := part.Header.ContentDisposition()
	name := first([]string{decoded(names["filename"]), decoded(params["name"])})
	kind, _, _ = strings.Cut(strings.ToLower(kind), ";") // where the rest is malformed
	kind = strings.TrimSpace(kind)
	body, err := io.ReadAll(part.Body)
	c.whole = c.whole && err == nil
	shown := !strings.EqualFold(how, "attachment") && name == ""
	switch {
	case shown && kind == "text/plain":
		c.plain = append(c.plain, c.unicode(body, params["charset"]))
	case shown && kind == "text/html":
		c.html = append(c.html, c.unicode(body, params["charset"]))
	case kind == "application/pgp-signature" || kind == "application/pkcs7-signature":
		// Who does not check it has no use for it.
	default:
		c.files = append(c.files, file(name, kind, number, body))
	}
}

// unicode is text in UTF-8. Text without a charset, or with a wrong one, is taken
// for what it mostly is.
func (c *content) unicode(body []byte, label string) string {
	if len(body) > maxText {
		body, c.whole = body[:maxText], false
	}
	label = strings.ToLower(label)
	if label == "" || label == "us-ascii" || label == "utf-8" {
		if utf8.Valid(body) {
			return string(body)
		}
		label = "windows-1252"
	}
	text, err := inUTF8(label, bytes.NewReader(body))
	if err == nil {
		if all, err := io.ReadAll(io.LimitReader(text, 4*maxText)); err == nil {
			body = all
		}
	}
	return strings.ToValidUTF8(string(body), "\ufffd")
}

// inUTF8 reads text of another charset.
func inUTF8(label string, text io.Reader) (io.Reader, error) {
	encoding, err := htmlindex.Get(label)
	if err != nil {
		return nil, err
	}
	return encoding.NewDecoder().Reader(text), nil
}

func file(name, kind string, number int, body []byte) chat.File {
	if name == "" {
		name = fmt.Sprintf("part-%d", number)
	}
	return chat.File{Name: name, Type: kind, Size: int64(len(body)), Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(body)), nil
	}}
}

// text is what the writer wrote: the plain text, or what remains of HTML without its
// dress. In an answer, what is quoted at the end is cut off.
func (c *content) text(answer bool) string {
	text := strings.Join(c.plain, "\n")
	if strings.TrimSpace(text) == "" {
		var pages []string
		for _, page := range c.html {
			pages = append(pages, undressed(page))
		}
		text = strings.Join(pages, "\n")
	}
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
	if short := strings.TrimSpace(unsigned(unquoted(text, answer))); short != "" {
		return short
	}
	return text
}
