package email

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/emersion/go-message"
	"github.com/emersion/go-message/mail"
	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"mbox/agents/chat"
)

// Send sends a notice as a mail, and tells its Message-ID.
func (c *channel) Send(ctx context.Context, n chat.Notice) (string, error) {
	to, _, ok := address(n.To.Peer)
	if !ok || n.To.Group {
		return "", fmt.Errorf("%q: %w: no address to write to", oneLine(n.To.Peer, 100), chat.ErrRefused)
	}
	id, text, err := c.compose(ctx, to, n)
	if err != nil {
		return "", err
	}
	err = c.submit(ctx, func(client *smtp.Client) error {
		if err := client.Mail(c.own, &smtp.MailOptions{Size: int64(len(text))}); err != nil {
			return refused(err)
		}
		if err := client.Rcpt(to, nil); err != nil {
			return refused(err)
		}
		data, err := client.Data()
		if err != nil {
			return refused(err)
		}
		if _, err := data.Write(text); err != nil {
			return err
		}
		return refused(data.Close())
	})
	if err != nil {
		return "", c.fault(c.smtp, err)
	}
	return id, nil
}

// refused tells what the server will never take, and what is wrong with the account.
func refused(err error) error {
	var no *smtp.SMTPError
	switch {
	case !errors.As(err, &no) || no.Code < 500:
		return err
	case no.Code == 530 || no.Code == 534 || no.Code == 535 || no.Code == 538:
		return fmt.Errorf("%w: user or password: %w", chat.ErrSetup, err)
	}
	return fmt.Errorf("%w: %w", chat.ErrRefused, err)
}

// submit does something with a connection that is logged in. What the server says
// after it has taken a mail is of no interest.
func (c *channel) submit(ctx context.Context, f func(*smtp.Client) error) error {
	l, err := c.dial(ctx, c.smtp)
	if err != nil {
		return err
	}
	defer l.Close()
	client := (*smtp.Client)(nil)
	err = l.do(ctx, maxReply, func() (err error) {
		client, err = c.hello(l)
		return err
	})
	if err == nil {
		err = l.do(ctx, maxReply, func() error { return f(client) })
	}
	if err == nil {
		_ = l.do(ctx, maxReply, client.Quit)
	}
	return err
}

// hello makes the connection safe, and logs in. Only a server on this machine may
// want no password.
func (c *channel) hello(l *line) (*smtp.Client, error) {
	client := (*smtp.Client)(nil)
	if c.smtp.tls || c.smtp.plain {
		client = smtp.NewClient(l)
	} else {
		config, err := c.tls(c.smtp)
		if err == nil {
			client, err = smtp.NewClientStartTLS(l, config)
		}
		if err != nil {
			return nil, err
		}
	}
	client.CommandTimeout, client.SubmissionTimeout = c.patience, c.patience
	if err := client.Hello(c.domain); err != nil {
		return nil, err
	}
	if loopback(c.smtp.host) && !offers(client) {
		return client, nil
	}
	if !client.SupportsAuth(sasl.Plain) {
		return nil, fmt.Errorf("%w: the server offers no AUTH PLAIN", chat.ErrSetup)
	}
	err := client.Auth(sasl.NewPlainClient("", c.login, c.password))
	if no := new(smtp.SMTPError); errors.As(err, &no) && no.Code >= 500 {
		return nil, fmt.Errorf("%w: user or password: %w", chat.ErrSetup, err)
	}
	return client, err
}

func offers(client *smtp.Client) bool {
	auth, _ := client.Extension("AUTH")
	return auth
}

// compose writes the mail. Its Message-ID is made of the notice's key alone, so each
// try has the same. It says that a machine answers, so that no machine answers it.
func (c *channel) compose(ctx context.Context, to string, n chat.Notice) (id string, text []byte, err error) {
	if n.Key == "" || strings.Trim(n.Key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
		return "", nil, fmt.Errorf("%w: the notice's key is not made of letters and digits", chat.ErrRefused)
	}
	id = n.Key + "@" + c.domain
	var h mail.Header
	h.SetContentType("text/plain", map[string]string{"charset": "utf-8"})
	h.Set("Content-Transfer-Encoding", "quoted-printable")
	h.Set("MIME-Version", "1.0")
	h.Set("X-Auto-Response-Suppress", "All")
	h.Set("Auto-Submitted", "auto-replied")
	root, parent := msgID("<"+n.To.Thread+">"), first([]string{replyID(n.Reply), msgID("<" + n.To.Thread + ">")})
	if parent != "" {
		h.SetMsgIDList("References", compact(root, parent))
		h.SetMsgIDList("In-Reply-To", []string{parent})
	}
	h.SetMessageID(id)
	h.SetSubject(subject(n))
	h.Set("To", to)
	h.Set("From", c.own)
	h.SetDate(time.Now())
	var out bytes.Buffer
	if n.File == nil {
		err = write(&out, h.Header, strings.NewReader(n.Text))
	} else {
		err = withFile(ctx, &out, h.Header, n)
	}
	return id, out.Bytes(), err
}

func compact(ids ...string) (list []string) {
	for _, id := range ids {
		if id != "" && (len(list) == 0 || list[0] != id) {
			list = append(list, id)
		}
	}
	return list
}

// subject is that of what is answered.
func subject(n chat.Notice) string {
	title := oneLine(strings.ToValidUTF8(n.Title, "\ufffd"), 200)
	switch {
	case title == "":
		return "Answer"
	case n.Reply == "" || len(title) >= 3 && strings.EqualFold(title[:3], "re:"):
		return title
	}
	return "Re: " + title
}

func write(out io.Writer, h message.Header, body io.Reader) error {
	w, err := message.CreateWriter(out, h)
	if err == nil {
		_, err = io.Copy(w, body)
	}
	if err != nil {
		return err
	}
	return w.Close()
}

// withFile writes a mail with an attachment.
func withFile(ctx context.Context, out io.Writer, h message.Header, n chat.Notice) error {
	data, err := n.File.Open(ctx)
	if err != nil {
		return err
	}
	defer data.Close()
	limited := &io.LimitedReader{R: data, N: Kind.Limits.File + 1}
	var text, file message.Header
	text.SetContentType("text/plain", map[string]string{"charset": "utf-8"})
	text.Set("Content-Transfer-Encoding", "quoted-printable")
	file.SetContentType("application/octet-stream", nil)
	file.Set("Content-Transfer-Encoding", "base64")
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\"`, r) {
			return '_'
		}
		return r
	}, oneLine(strings.ToValidUTF8(n.File.Name, "_"), 100))
	file.SetContentDisposition("attachment", map[string]string{"filename": first([]string{name, "result"})})
	h.Del("Content-Transfer-Encoding")
	h.SetContentType("multipart/mixed", nil)
	w, err := message.CreateWriter(out, h)
	if err != nil {
		return err
	}
	for _, part := range []struct {
		header message.Header
		body   io.Reader
	}{{text, strings.NewReader(n.Text)}, {file, limited}} {
		to, err := w.CreatePart(part.header)
		if err == nil {
			_, err = io.Copy(to, part.body)
		}
		if err != nil {
			return err
		}
		if err := to.Close(); err != nil {
			return err
		}
	}
	if limited.N == 0 {
		return fmt.Errorf("%w: the file has more than %d bytes", chat.ErrRefused, Kind.Limits.File)
	}
	return w.Close()
}

// Check logs in to both servers, and changes nothing.
func (c *channel) Check(ctx context.Context) (string, error) {
	s, err := c.inbox(ctx, true)
	if err != nil {
		return "", err
	}
	defer s.close()
	news := "tells of new mail at once"
	if !s.idles {
		news = fmt.Sprintf("is asked for new mail every %v", c.poll)
	}
	if err := c.submit(ctx, func(*smtp.Client) error { return nil }); err != nil {
		return "", c.fault(c.smtp, err)
	}
	return fmt.Sprintf("%s: INBOX of %s has %d mails, and the server %s; %s takes ours", c.own, c.imap.host, s.box.NumMessages, news, c.smtp.host), nil
}
