package email

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
	"github.com/emersion/go-sasl"

	"mbox/agents/chat"
)

// session is a connection to the IMAP server, with INBOX open.
type session struct {
	*line
	client *imapclient.Client
	box    *imap.SelectData
	idles  bool          // it tells of new mail by itself
	news   chan struct{} // it has
}

// inbox connects, logs in and opens INBOX.
func (c *channel) inbox(ctx context.Context, readOnly bool) (*session, error) {
	l, err := c.dial(ctx, c.imap)
	if err != nil {
		return nil, c.fault(c.imap, err)
	}
	s := &session{line: l, news: make(chan struct{}, 1)}
	err = l.do(ctx, maxReply, func() (err error) {
		if err = s.greet(c); err != nil {
			return err
		}
		if err = s.login(c); err != nil {
			return err
		}
		s.box, err = s.client.Select("INBOX", &imap.SelectOptions{ReadOnly: readOnly}).Wait()
		return err
	})
	if err == nil && (s.box.UIDValidity == 0 || s.box.UIDNext == 0) {
		err = fmt.Errorf("%w: the server tells no UIDVALIDITY and UIDNEXT", chat.ErrSetup)
	}
	if err != nil {
		s.close()
		return nil, c.fault(c.imap, err)
	}
	s.idles = s.client.Caps().Has(imap.CapIdle)
	return s, nil
}

func (s *session) greet(c *channel) (err error) {
	options := &imapclient.Options{UnilateralDataHandler: &imapclient.UnilateralDataHandler{
		Mailbox: func(data *imapclient.UnilateralDataMailbox) {
			if data.NumMessages != nil {
				select {
				case s.news <- struct{}{}:
				default:
				}
			}
		},
	}}
	if c.imap.tls || c.imap.plain {
		s.client = imapclient.New(s.line, options)
		return s.client.WaitGreeting()
	}
	if options.TLSConfig, err = c.tls(c.imap); err != nil {
		return err
	}
	s.client, err = imapclient.NewStartTLS(s.line, options)
	return err
}

// login tells the password. A refusal that names no passing reason stays one: whoever
// goes on with a wrong password is locked out.
func (s *session) login(c *channel) error {
	caps, err := s.client.Caps(), error(nil)
	if caps.Has(imap.AuthCap(sasl.Plain)) {
		err = s.client.Authenticate(sasl.NewPlainClient("", c.login, c.password))
	} else {
		err = s.client.Login(c.login, c.password).Wait()
	}
	var no *imap.Error
	if errors.As(err, &no) && !slices.Contains([]imap.ResponseCode{
		imap.ResponseCodeUnavailable, imap.ResponseCodeInUse, imap.ResponseCodeLimit, imap.ResponseCodeServerBug, imap.ResponseCodeAlert,
	}, no.Code) {
		return fmt.Errorf("%w: user or password: %w", chat.ErrSetup, err)
	}
	return err
}

// close ends the connection, and returns when nothing of it is left.
func (s *session) close() {
	s.line.Close()
	if s.client != nil {
		s.client.Close()
	}
}

// behind lists the mails after a UID, in order.
func (s *session) behind(ctx context.Context, last imap.UID) (iter.Seq[imap.UID], error) {
	var found imap.UIDSet
	err := s.do(ctx, maxUIDs, func() error {
		data, err := s.client.UIDSearch(&imap.SearchCriteria{UID: []imap.UIDSet{{{Start: last + 1}}}}, nil).Wait()
		found, _ = data.All.(imap.UIDSet)
		return err
	})
	return func(yield func(imap.UID) bool) {
		for _, r := range found { // which is sorted
			// Of a mailbox without newer mails, servers list the last one.
			for uid := max(r.Start, last+1); uid != 0 && uid <= r.Stop; uid++ {
				if !yield(uid) {
					return
				}
			}
		}
	}, err
}

// letter is what a server has of a mail.
type letter struct {
	uid   imap.UID
	size  int64
	at    time.Time // when the server got it
	bytes []byte
}

// look tells of a mail what stands beside it; nil where it is gone. A server may
// have found a mail that it has not announced yet, and shows it after that.
func (s *session) look(ctx context.Context, uid imap.UID) (*letter, error) {
	found, err := s.glance(ctx, uid)
	if err != nil || found != nil {
		return found, err
	}
	if err := s.do(ctx, maxReply, func() error { return s.client.Noop().Wait() }); err != nil {
		return nil, err
	}
	return s.glance(ctx, uid)
}

func (s *session) glance(ctx context.Context, uid imap.UID) (*letter, error) {
	var found *letter
	err := s.fetch(ctx, uid, maxReply, &imap.FetchOptions{UID: true, RFC822Size: true, InternalDate: true}, func(item imapclient.FetchItemData) error {
		if found == nil {
			found = &letter{uid: uid}
		}
		switch item := item.(type) {
		case imapclient.FetchItemDataRFC822Size:
			found.size = item.Size
		case imapclient.FetchItemDataInternalDate:
			found.at = item.Time
		}
		return nil
	})
	return found, err
}

// read fetches the mail, or the start of one that is too large. It is gone where
// there is nothing then.
func (s *session) read(ctx context.Context, l *letter) error {
	most := int64(maxMail)
	if l.size > most {
		most = maxStart
	}
	part := &imap.FetchItemBodySection{Peek: true, Partial: &imap.SectionPartial{Size: most}}
	return s.fetch(ctx, l.uid, most+maxReply, &imap.FetchOptions{UID: true, BodySection: []*imap.FetchItemBodySection{part}}, func(item imapclient.FetchItemData) (err error) {
		if body, ok := item.(imapclient.FetchItemDataBodySection); ok && body.Literal != nil && l.bytes == nil {
			l.bytes, err = io.ReadAll(io.LimitReader(body.Literal, most))
			if err == nil && int64(len(l.bytes)) < min(most, body.Literal.Size()) {
				err = io.ErrUnexpectedEOF // the end of the connection looks like that of the mail
			}
		}
		return err
	})
}

// fetch hands over what a server says of a mail. After an error nothing more may be
// asked of the command: it would read beside the client's own reader.
func (s *session) fetch(ctx context.Context, uid imap.UID, bytes int64, what *imap.FetchOptions, each func(imapclient.FetchItemData) error) error {
	return s.do(ctx, bytes, func() error {
		command := s.client.Fetch(imap.UIDSetNum(uid), what)
		for m := command.Next(); m != nil; m = command.Next() {
			for item := m.Next(); item != nil; item = m.Next() {
				if err := each(item); err != nil {
					return err
				}
			}
		}
		return command.Close()
	})
}

// seen marks a mail as read.
func (s *session) seen(ctx context.Context, uid imap.UID) error {
	return s.do(ctx, maxReply, func() error {
		return s.client.Store(imap.UIDSetNum(uid), &imap.StoreFlags{Op: imap.StoreFlagsAdd, Silent: true, Flags: []imap.Flag{imap.FlagSeen}}, nil).Close()
	})
}

// wait returns when there may be new mail.
func (s *session) wait(ctx context.Context, idle, poll time.Duration) error {
	if !s.idles {
		if err := s.rest(ctx, poll); err != nil {
			return err
		}
		return s.do(ctx, maxReply, func() error { return s.client.Noop().Wait() })
	}
	var command *imapclient.IdleCommand
	err := s.do(ctx, maxReply, func() (err error) {
		command, err = s.client.Idle()
		return err
	})
	if err != nil {
		return err
	}
	rested := s.rest(ctx, idle)
	err = s.do(ctx, maxReply, func() error {
		return errors.Join(command.Close(), command.Wait())
	})
	return errors.Join(rested, err)
}

// rest waits for news, but not longer than so long.
func (s *session) rest(ctx context.Context, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-s.news:
	case <-timer.C:
	case <-s.client.Closed():
		return io.ErrUnexpectedEOF
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
