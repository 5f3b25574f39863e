package telegram

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/chat"
)

// poll is what getUpdates is asked for.
type poll struct {
	Offset  int64    `json:"offset"`
	Limit   int      `json:"limit"`
	Timeout int      `json:"timeout"` // seconds
	Allowed []string `json:"allowed_updates"`
}

const maxConflicts = 6 // in a row: their pauses are longer than a poll of our own that the server may still hold

// Receive implements chat.Channel.
func (c *channel) Receive(ctx context.Context, kept string, in chat.Inbox) error {
	me, err := c.me(ctx)
	if err != nil {
		return err
	}
	place, err := c.start(ctx, kept, in)
	if err != nil {
		return err
	}
	for {
		raw, err := c.updates(ctx, poll{Offset: place + 1, Limit: 50, Timeout: int(pollTime / time.Second)})
		if err != nil {
			return err
		}
		before := place
		if place, err = c.take(ctx, raw, place, me, in); err != nil {
			return err
		}
		if place == before && !chat.Sleep(ctx, time.Second) { // a server that does not wait is not asked without end
			return ctx.Err()
		}
	}
}

// start is the place from which on to read. Without one that was kept it is behind
// the last update that waits; which is kept, so that what comes from now on is heard
// also after a kill.
func (c *channel) start(ctx context.Context, kept string, in chat.Inbox) (place int64, err error) {
	if kept != "" {
		place, err := strconv.ParseInt(kept, 10, 64)
		if err != nil || place < 0 {
			c.remark("the place that was kept is not one: all that the server still has is taken")
			return 0, nil
		}
		return place, nil
	}
	raw, err := c.updates(ctx, poll{Offset: -1, Limit: 1})
	if err != nil {
		return 0, err
	}
	for _, one := range raw {
		if u, ok, _ := read(one); ok { // whatever it is, it was before our time
			place = max(place, u.ID)
		}
	}
	return place, in.Keep(ctx, strconv.FormatInt(place, 10))
}

// updates polls. Where another poll is in its way it tries again: it may be our own
// of before a kill, which the server does not know to be gone.
func (c *channel) updates(ctx context.Context, p poll) (raw []jsontext.Value, err error) {
	p.Allowed = []string{"message"}
	most := time.Duration(p.Timeout)*time.Second + callTime
	wait := c.first
	for tries := 1; ; tries++ {
		err = c.call(ctx, most, "getUpdates", p, &raw)
		var no *refusal
		if !errors.As(err, &no) || no.code != http.StatusConflict {
			return raw, err
		}
		if hooked := c.hooked(ctx); hooked != nil {
			return nil, hooked
		}
		if tries == maxConflicts {
			return nil, fmt.Errorf("%w: another program polls with the same token: end it, or give this bridge a bot of its own (@BotFather, /newbot): %w", err, chat.ErrSetup)
		}
		if !chat.Sleep(ctx, wait) {
			return nil, ctx.Err()
		}
		wait *= 2
	}
}

// hooked tells whether a conflict is because of a webhook.
func (c *channel) hooked(ctx context.Context) error {
	var hook struct {
		URL string `json:"url"`
	}
	if c.call(ctx, callTime, "getWebhookInfo", nil, &hook) == nil && hook.URL != "" {
		return errWebhook
	}
	return nil
}

// take hands updates over in their order, and returns the new place. It is kept
// behind each message, and behind the last update.
func (c *channel) take(ctx context.Context, raw []jsontext.Value, place int64, me account, in chat.Inbox) (int64, error) {
	var all []update
	for _, one := range raw {
		u, ok, err := read(one)
		if err != nil || !ok {
			c.remark("an update of the server is not as the Bot API has it, and is left out")
		}
		if ok {
			all = append(all, u)
		}
	}
	slices.SortStableFunc(all, func(a, b update) int { return cmp.Compare(a.ID, b.ID) })
	kept := place
	for _, u := range all {
		place = u.ID
		if m := u.Message; m != nil && m.MigrateTo != 0 {
			c.remark("the group %d is %d now: write that into rooms", m.Chat.ID, m.MigrateTo)
		}
		said, ok := c.heard(u.Message, me)
		if !ok {
			continue
		}
		if err := in.Take(ctx, said); err != nil {
			return place, err
		}
		if err := in.Keep(ctx, strconv.FormatInt(place, 10)); err != nil {
			return place, err
		}
		kept = place
	}
	if place != kept {
		return place, in.Keep(ctx, strconv.FormatInt(place, 10))
	}
	return place, nil
}
