package chat

import (
	"slices"
	"strings"
	"time"
)

// Rules say who may use a bridge, and how much.
type Rules struct {
	Allow        []string // whose messages become tasks: exactly as From has them; [Anyone] in Settings.Rooms
	Operators    []string // who may decide about tasks of others, too
	RequireProof bool     // a message counts only where the channel knows more of its sender than a name
	MaxMessage   int      // bytes of a message
	PerHour      int      // messages of a sender
	Burst        int      // of these at once
	TotalPerHour int      // messages of all but operators

	MaxAttachment  int64 // bytes of a file that comes with a message
	MaxAttachments int   // files of a message; with 0 none is taken with one
}

// Anyone in Rules.Allow stands for everybody who speaks in one of Settings.Rooms.
const Anyone = "*"

// guard holds messages against the rules.
type guard struct {
	Rules
	rooms []string
	all   bucket
	each  map[string]*bucket
}

func newGuard(rules Rules, rooms []string) *guard {
	return &guard{Rules: rules, rooms: rooms, each: map[string]*bucket{}}
}

// refuses tells why nothing may come of a message; "" if something may. What it
// says is for who runs the bridge, and never for the sender.
func (g *guard) refuses(m *Message) string {
	switch {
	case !isPlain(m.From, maxName) || !isPlain(m.In.Peer, maxName) || m.In.Thread != "" && !isPlain(m.In.Thread, maxName):
		return "its sender, room or thread is no name"
	case !g.known(m):
		return "allow does not name its sender"
	case g.RequireProof && m.Proof == "":
		return "the channel cannot prove its sender"
	case !g.Answers(m.In):
		return "rooms does not name its room"
	}
	return ""
}

// known tells whether the sender is one of those that may write here.
func (g *guard) known(m *Message) bool {
	return slices.Contains(g.Allow, m.From) || g.operator(m) || m.In.Group && slices.Contains(g.Allow, Anyone)
}

func (g *guard) operator(m *Message) bool { return slices.Contains(g.Operators, m.From) }

// Answers tells whether anything may be said in a conversation: with somebody who
// may write, or in a room of the settings. Some systems do not tell upper from
// lower case in a room's name.
func (g *guard) Answers(c Conversation) bool {
	if c.Group {
		return slices.ContainsFunc(g.rooms, func(room string) bool { return strings.EqualFold(room, c.Peer) })
	}
	return c.Peer != Anyone && (slices.Contains(g.Allow, c.Peer) || slices.Contains(g.Operators, c.Peer))
}

// bucket holds what may come at once, and fills with time.
type bucket struct {
	used float64
	at   time.Time
	told bool // that it is empty
}

// take takes one, or tells how long until there is one.
func (b *bucket) take(now time.Time, perHour, burst int) (wait time.Duration) {
	refilled := now.Sub(b.at).Hours() * float64(perHour)
	b.used, b.at = max(0, b.used-max(0, refilled)), now
	if over := b.used + 1 - float64(burst); over > 0 {
		return max(time.Second, time.Duration(over/float64(perHour)*float64(time.Hour)))
	}
	b.used++
	b.told = false
	return 0
}

// mostSenders bounds what is kept of senders: in a room for everybody they may call
// themselves anything.
const mostSenders = 1000

// pace counts a message. A positive wait says that it is one too many, and tell that
// the sender has not been told so.
func (g *guard) pace(from string, now time.Time) (wait time.Duration, tell bool) {
	b := g.each[from]
	if b == nil {
		if len(g.each) >= mostSenders {
			g.forget(now)
		}
		if len(g.each) >= mostSenders {
			return time.Minute, false
		}
		b = &bucket{at: now}
		g.each[from] = b
	}
	if g.all.at.IsZero() {
		g.all.at = now
	}
	if wait = b.take(now, g.PerHour, g.Burst); wait == 0 && !slices.Contains(g.Operators, from) { // who ends a flood is heard in it
		if wait = g.all.take(now, g.TotalPerHour, max(g.Burst, g.TotalPerHour/10)); wait > 0 {
			b.used--
		}
	}
	tell = wait > 0 && !b.told
	b.told = wait > 0
	return wait, tell
}

// forget drops the senders whose buckets are full again.
func (g *guard) forget(now time.Time) {
	for from, b := range g.each {
		if now.Sub(b.at).Hours()*float64(g.PerHour) >= b.used {
			delete(g.each, from)
		}
	}
}

// hourly lets each name through once an hour.
type hourly map[string]time.Time

func (h hourly) may(name string, now time.Time) bool {
	if last, known := h[name]; known && now.Sub(last) < time.Hour {
		return false
	}
	if len(h) >= mostSenders {
		for other, last := range h {
			if now.Sub(last) >= time.Hour {
				delete(h, other)
			}
		}
	}
	if len(h) >= mostSenders {
		return false
	}
	h[name] = now
	return true
}

// recent holds the last names that were added, a thousand or two.
type recent struct{ young, old map[string]bool }

func (r *recent) has(name string) bool { return r.young[name] || r.old[name] }

func (r *recent) add(name string) {
	if len(r.young) >= 1000 {
		r.young, r.old = nil, r.young
	}
	if r.young == nil {
		r.young = map[string]bool{}
	}
	r.young[name] = true
}
