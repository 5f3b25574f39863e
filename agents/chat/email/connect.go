package email

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"mbox/agents/chat"
)

// A line is a connection that reads no more than was allowed, and is closed when its
// context ends or a step takes too long.
type line struct {
	net.Conn
	raw      net.Conn     // below TLS: it is closed without a farewell, which could block
	left     atomic.Int64 // bytes that may still be read
	patience time.Duration
	release  func() bool
}

func (l *line) Read(p []byte) (int, error) {
	left := l.left.Load()
	if left <= 0 {
		return 0, errTooMuch
	}
	n, err := l.Conn.Read(p[:min(int64(len(p)), left)])
	l.left.Add(-int64(n))
	return n, err
}

func (l *line) Close() error {
	l.release()
	return l.raw.Close()
}

// dial connects, with TLS where it is there from the beginning.
func (c *channel) dial(ctx context.Context, s server) (*line, error) {
	conn, err := (&net.Dialer{Timeout: c.patience}).DialContext(ctx, "tcp", s.address)
	if err != nil {
		return nil, err
	}
	l := &line{Conn: conn, raw: conn, patience: c.patience, release: context.AfterFunc(ctx, func() { conn.Close() })}
	if s.tls {
		err = l.encrypt(ctx, c, s)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *line) encrypt(ctx context.Context, c *channel, s server) error {
	config, err := c.tls(s)
	if err != nil {
		return err
	}
	over := tls.Client(l.raw, config)
	l.Conn = over
	return l.do(ctx, maxReply, func() error { return over.HandshakeContext(ctx) })
}

func (c *channel) tls(s server) (*tls.Config, error) {
	config := &tls.Config{ServerName: s.host, MinVersion: tls.VersionTLS12}
	if c.ca == "" {
		return config, nil
	}
	pem, err := os.ReadFile(c.ca)
	if err != nil {
		return nil, fmt.Errorf("ca: %w: %w", chat.ErrSetup, err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("ca: %w: %s holds no certificate", chat.ErrSetup, c.ca)
	}
	return config, nil
}

// do does a step in which at most so many bytes may be read.
func (l *line) do(ctx context.Context, bytes int64, step func() error) error {
	l.left.Store(bytes)
	wait := time.AfterFunc(l.patience, func() { l.raw.Close() })
	err := step()
	switch late := !wait.Stop(); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case l.left.Load() <= 0:
		return fmt.Errorf("%w (%d bytes)", errTooMuch, bytes)
	case late:
		return fmt.Errorf("no answer within %v", l.patience)
	}
	return err
}

// fault says which server an error is about, in one line that holds no secret: what
// a server says may repeat what it was told.
func (c *channel) fault(s server, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	kind := err
	for _, known := range []error{chat.ErrSetup, chat.ErrRefused} {
		if errors.Is(err, known) {
			kind = known
		}
	}
	var missing *net.DNSError
	var wrong *tls.CertificateVerificationError
	if errors.As(err, &missing) && missing.IsNotFound || errors.As(err, &wrong) {
		kind = chat.ErrSetup
	}
	return &told{c.hide(s.address + ": " + err.Error()), kind}
}

// told is an error with another text.
type told struct {
	text string
	kind error
}

func (t *told) Error() string { return t.text }
func (t *told) Unwrap() error { return t.kind }

// hide makes a remark of one line, without the password.
func (c *channel) hide(text string) string {
	plain := base64.StdEncoding.EncodeToString([]byte("\x00" + c.login + "\x00" + c.password))
	return oneLine(strings.NewReplacer(c.password, "[password]", plain, "[password]").Replace(text), 400)
}

// oneLine is text as one line of so many letters.
func oneLine(text string, most int) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if letters := []rune(text); len(letters) > most {
		return string(letters[:most]) + "…"
	}
	return text
}
