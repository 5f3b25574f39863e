package email

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/emersion/go-imap/v2"

	"mbox/agents/chat"
)

// place is up to where INBOX was read.
type place struct {
	validity uint32
	uid      imap.UID  // the last that was read
	again    imap.UID  // those before it are read again, because validity was another
	since    time.Time // an hour before the bridge began: older ones were there before it
}

const placeForm = "uid %d of %d, again %d, since %d"

func (p place) String() string {
	return fmt.Sprintf(placeForm, p.uid, p.validity, p.again, p.since.Unix())
}

// placeAt is the place to begin at, in a mailbox as it is now.
func placeAt(kept string, box *imap.SelectData) (p place, anew bool, err error) {
	if kept == "" {
		return place{box.UIDValidity, box.UIDNext - 1, 0, time.Now().Add(-time.Hour)}, false, nil
	}
	var since int64
	_, err = fmt.Sscanf(kept, placeForm, &p.uid, &p.validity, &p.again, &since)
	if p.since = time.Unix(since, 0); err != nil || p.String() != kept {
		return place{}, false, fmt.Errorf("%w: the kept place is not one of e-mail: %q", chat.ErrSetup, kept)
	}
	if p.validity == box.UIDValidity {
		return p, false, nil
	}
	return place{box.UIDValidity, 0, box.UIDNext, p.since}, true, nil
}

// Receive hands over what arrives in INBOX.
func (c *channel) Receive(ctx context.Context, kept string, in chat.Inbox) error {
	s, err := c.inbox(ctx, false)
	if err != nil {
		return err
	}
	defer s.close()
	p, anew, err := placeAt(kept, s.box)
	if err != nil {
		return err
	}
	if anew {
		c.log("INBOX has new numbers (UIDVALIDITY): all mails since %s are read again; what was taken before is not taken twice", p.since.Format(time.RFC3339))
	}
	if p.String() != kept {
		if err := in.Keep(ctx, p.String()); err != nil {
			return err
		}
	}
	for {
		if err := c.takeAll(ctx, s, &p, in); err != nil {
			return err
		}
		if err := s.wait(ctx, c.idle, c.poll); err != nil {
			return c.ended(ctx, err)
		}
	}
}

// ended is how a connection ended.
func (c *channel) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return c.fault(c.imap, err)
}

// takeAll hands over what is behind a place.
func (c *channel) takeAll(ctx context.Context, s *session, p *place, in chat.Inbox) error {
	select {
	case <-s.news: // what was told before the search is found by it
	default:
	}
	mails, err := s.behind(ctx, p.uid)
	if err != nil {
		return c.ended(ctx, err)
	}
	for uid := range mails {
		if err := c.take(ctx, s, uid, p, in); err != nil {
			return err
		}
	}
	return nil
}

// take hands over a mail, keeps the place behind it, and marks it as read: in this
// order, because what others see as read is a task by then.
func (c *channel) take(ctx context.Context, s *session, uid imap.UID, p *place, in chat.Inbox) error {
	mail, err := s.look(ctx, uid)
	if err == nil && mail != nil && uid < p.again && mail.at.Before(p.since) {
		mail = nil // it was there before the bridge
	}
	if err == nil && mail != nil {
		err = s.read(ctx, mail)
	}
	if err != nil {
		return c.ended(ctx, fmt.Errorf("mail %d of INBOX: %w", uid, err))
	}
	p.uid = uid
	if mail == nil {
		return nil
	}
	m, ignored := c.message(mail)
	if ignored != "" {
		c.log("mail %d of INBOX is ignored: %s", uid, c.hide(ignored))
	} else if err := in.Take(ctx, m); err != nil {
		return err
	}
	if err := in.Keep(ctx, p.String()); err != nil || ignored != "" {
		return err
	}
	var no *imap.Error
	if err := s.seen(ctx, uid); errors.As(err, &no) {
		c.log("mail %d of INBOX: not marked as read: %s", uid, c.hide(err.Error()))
	} else if err != nil {
		return c.ended(ctx, err)
	}
	return nil
}
