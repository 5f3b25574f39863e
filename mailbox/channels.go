package mailbox

import (
	"context"
	"slices"

	"mbox/mailbox/channel"
)

// ChannelInfo is what there is to tell of a channel.
type ChannelInfo struct {
	Channel  string   `json:"channel"`
	Messages int      `json:"messages"`
	Topic    string   `json:"topic"`
	By       string   `json:"by"` // who made it
	Watchers []string `json:"watchers"`
}

// MessagePage is Messages, at most Limit; more tells that there are others, earlier ones
// or, with First, later ones.
func MessagePage(ctx context.Context, b *Box, of Reading) (said []*Posted, more bool, bad []error, err error) {
	most := of.Limit
	of.Limit++
	said, bad, err = Messages(ctx, b, of)
	if more = len(said) > most; more && of.First {
		said = said[:most]
	} else if more {
		said = said[1:]
	}
	return said, more, bad, err
}

// Channels are all there are, in the order in which they were made.
func Channels(ctx context.Context, b *Box) ([]*ChannelInfo, error) {
	said, _, err := Messages(ctx, b, Reading{})
	if err != nil {
		return nil, err
	}
	all := []*ChannelInfo{}
	byName := map[string]*ChannelInfo{}
	for _, m := range said {
		c := byName[m.Channel]
		if c == nil {
			c = &ChannelInfo{Channel: m.Channel, Watchers: []string{}}
			byName[m.Channel], all = c, append(all, c)
		}
		if m.Type == channel.Created {
			c.Topic, c.By = m.Text, m.From
			continue
		}
		c.Messages++
	}
	for name, a := range b.o.Agents {
		for _, watched := range a.Watches {
			if c := byName[watched]; c != nil && !slices.Contains(c.Watchers, name) {
				c.Watchers = append(c.Watchers, name)
				slices.Sort(c.Watchers)
			}
		}
	}
	return all, nil
}
