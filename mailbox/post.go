package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mbox/audit"
	"mbox/mailbox/channel"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// A message reaches agents by tasks, their inbox items. The order is: the message is
// written with its line, like a record; the line names the keys of the items; then
// these are made, one by one. Whoever is killed in between leaves items that the queue
// knows to be owed, and the next scan or recovery of anybody makes them. A message is
// posted when its line stands.

// Post is what somebody wants to say in a channel.
type Post struct {
	Channel string
	From    string // an agent, or human; of a post that By makes its claimant
	Text    string
	Type    string // channel.DefaultType if empty
	ID      string // a post with the same id is the same message; made if empty
	ReplyTo string // the id of a message of the channel
	Create  bool   // it makes the channel; Text tells what that is for
	// By is the claim that the poster works for. Its message's items belong to the tree
	// of that task, one level deeper. The answer to the message of which an inbox item
	// tells is posted once, however often the item is worked at.
	By *Claim
}

// Posted is a message with its place in the ledger.
type Posted struct {
	Seq int64 `json:"seq"`
	channel.Message
}

// PostMessage posts a message: when it returns, that is on the disk, and the agents
// that it is for get it. Said again, with the same id or as the same answer, it writes
// nothing, and made is false. unknown are the names in the text that no agent has.
//
// ErrConflict: the id has another message, or the channel to be made is there;
// ErrNotFound: there is no such channel, or no such message to reply to; ErrStale: the
// poster's claim is over. After ErrCommitted the message is posted.
func PostMessage(ctx context.Context, b *Box, p Post) (said *Posted, made bool, unknown []string, err error) {
	m, err := b.recorder.compose(p)
	if err != nil {
		return nil, false, nil, err
	}
	if err := b.recorder.belongs(p, m); err != nil {
		return nil, false, nil, err
	}
	if !p.Create { // of a new channel nobody is told
		unknown = m.Address(members(b))
	}
	if m.Ended = len(m.Receivers) > 0 && m.Depth >= int64(b.o.MaxDepth); m.Ended {
		m.Receivers = nil
	}
	if err := m.Check(); err != nil {
		return nil, false, nil, err
	}
	said, made, err = b.recorder.post(ctx, m, p.By != nil && m.ID == channel.ReplyID(p.By.ID()))
	if err == nil && len(said.Receivers) > 0 {
		err = committed(b.sender.deliver(ctx, said))
	}
	return said, made, unknown, err
}

// committed is an error of what follows on a line that stands.
func committed(err error) error {
	if err == nil || errors.Is(err, ErrCommitted) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrCommitted, err)
}

// compose makes the message of a post.
func (b *recorder) compose(p Post) (*channel.Message, error) {
	if p.ID != "" {
		if err := channel.CheckID(p.ID); err != nil {
			return nil, err
		}
	}
	m := &channel.Message{
		ID: p.ID, Version: 1, Channel: p.Channel, Posted: task.At(b.now()), From: p.From, Type: cmp.Or(p.Type, channel.DefaultType), Text: p.Text, ReplyTo: p.ReplyTo,
	}
	switch {
	case p.Create:
		m.ID, m.Type = channel.CreatedID(p.Channel), channel.Created
	case m.Type == channel.Created:
		return nil, task.Fault("type", "a message of type created makes a channel", "another type; mbox create-channel NAME makes one")
	case m.ID == "":
		m.ID = "msg-" + b.now().UTC().Format("20060102") + "-" + home.RandomHex(8)
	}
	if p.By == nil {
		return m, nil
	}
	if err := p.By.holds(); err != nil {
		return nil, err
	}
	t := p.By.Task
	m.From, m.Task, m.Root, m.Depth, m.Budget = p.By.agent, t.ID, t.Root(), t.Mbox.Depth+1, t.Mbox.Budget
	if p.ID == "" && p.ReplyTo != "" && strings.EqualFold(p.ReplyTo, t.Message()) {
		m.ID = channel.ReplyID(t.ID)
	}
	return m, nil
}

// holds returns ErrStale unless the claim's token is that of the task's claim.
func (c *Claim) holds() error {
	r, err := c.box.lookup(c.ID())
	if err == nil && (r == nil || r.State != InProgress || r.Claim != task.DigestOf(c.box.saltedHash("token", c.token))) {
		err = task.About(c.ID(), ErrStale)
	}
	return err
}

// belongs refuses a message for a channel that is not there, and a reply to what was
// not said in it.
func (b *recorder) belongs(p Post, m *channel.Message) error {
	if err := channel.CheckName(p.Channel); err != nil || p.Create {
		return err
	}
	first, err := findMessage(b.books, channel.CreatedID(p.Channel))
	if err != nil {
		return err
	}
	if first == nil {
		return fmt.Errorf("channel %s: %w", p.Channel, ErrNotFound)
	}
	if p.ReplyTo == "" {
		return nil
	}
	to, err := findMessage(b.books, p.ReplyTo)
	if err == nil && (to == nil || to.Channel != p.Channel) {
		err = fmt.Errorf("message %s in channel %s: %w", schemas.Sentence(p.ReplyTo, 128), p.Channel, ErrNotFound)
	}
	if err == nil {
		m.ReplyTo = to.ID
	}
	return err
}

// members are the registered agents, and what they were called, by name.
func members(b *Box) []channel.Member {
	var all []channel.Member
	for _, name := range slices.Sorted(maps.Keys(b.o.Agents)) {
		a := b.o.Agents[name]
		all = append(all, channel.Member{Name: name, Off: a.Disabled, Unasked: a.Unasked, Watches: a.Watches})
	}
	for old := range b.queue.Agents() {
		now := b.queue.Called(old)
		if _, registered := b.o.Agents[now]; registered && now != old {
			all = append(all, channel.Member{Name: old, Is: now, Off: true})
		}
	}
	return all
}

// post writes a message, unless its id has one: that stands if it says the same, or if
// any answer will do.
func (b *recorder) post(ctx context.Context, m *channel.Message, any bool) (*Posted, bool, error) {
	s, err := b.lockShard(ctx, m.ID)
	if err != nil {
		return nil, false, err
	}
	defer s.unlock()
	there, err := findMessage(b.books, m.ID)
	if err != nil {
		return nil, false, err
	}
	if there != nil {
		if !any && !there.Same(m) {
			return nil, false, fmt.Errorf("message %s: %w: the id is taken by another one", m.ID, ErrConflict)
		}
		return there, false, b.ledger.Flushed(ctx)
	}
	if _, err := os.Lstat(b.path(m.File())); err == nil {
		return nil, false, fmt.Errorf("%s: %w: there is a file that is no message", m.File(), ErrConflict)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}
	f, err := b.filing(m)
	if err != nil {
		return nil, false, err
	}
	err = b.writeRecord(ctx, s, f)
	if err != nil && !errors.Is(err, ErrCommitted) {
		return nil, false, err
	}
	p := &Posted{Message: *m}
	if e, found := b.ledger.LineWith("key", f.Key); found == nil && e != nil {
		p.Seq = e.Seq
	}
	return p, true, err
}

// filing is how a message is written.
func (b *recorder) filing(m *channel.Message) (*filing, error) {
	data, err := schemas.Encode(m)
	if err != nil {
		return nil, err
	}
	f := &filing{
		event: audit.MessageEvent, by: m.From, task: string(m.Task), data: data, action: m.From + " posted " + m.ID + " to " + m.Channel,
		recordDetails: recordDetails{File: m.File(), Channel: m.Channel, Key: messageHash(b.books, m.ID), People: m.People},
	}
	for _, r := range m.Receivers {
		f.Inbox = append(f.Inbox, itemHash(b.books, itemKey(m.ID, r.Agent)))
	}
	return f, nil
}

// messageHash is what the ledger knows the id of a message by.
func messageHash(b *books, id string) string { return b.saltedHash("message", strings.ToLower(id)) }

func itemHash(b *books, key string) string { return b.saltedHash("item", key) }

// itemKey is the idempotency key of the inbox item by which an agent gets a message.
func itemKey(message, agent string) string { return "inbox:" + message + "/" + agent }

// findMessage is the message with this id, whatever its case; nil if there is none.
func findMessage(b *books, id string) (*Posted, error) {
	e, err := lineOfKey(b, messageHash(b, id))
	if err != nil || e == nil {
		return nil, err
	}
	return readMessage(b, e)
}

// readMessage is the message of a line. One whose bytes are not those of the line is
// ErrIntegrity.
func readMessage(b *books, e *audit.Entry) (*Posted, error) {
	var d recordDetails
	if err := e.Detail(&d); err != nil {
		return nil, err
	}
	// Between its line and its place it lies where it was staged.
	var data []byte
	err := fs.ErrNotExist
	for _, path := range []string{b.path(d.File), home.StagedPath(b.home, filepath.Base(d.File), d.TX), b.path(d.File)} {
		if data, err = durable.Read(path, MaxTask); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w: the message is gone", d.File, ErrIntegrity)
	}
	if err != nil {
		return nil, err
	}
	if audit.Hash(data) != d.SHA256 {
		return nil, fmt.Errorf("%s: %w: its bytes are not those of its ledger line", d.File, ErrIntegrity)
	}
	m, err := channel.Parse(data)
	if err != nil {
		return nil, task.InFile(err, d.File)
	}
	return &Posted{e.Seq, *m}, nil
}

// deliver makes the inbox items of a message that nobody has made yet.
func (b *sender) deliver(ctx context.Context, m *Posted) error {
	for _, r := range m.Receivers {
		if _, err := b.submitNew(ctx, nil, b.item(m, r), nil, nil); err != nil {
			return fmt.Errorf("the inbox item of %s for %s: %w", m.ID, r.Agent, err)
		}
	}
	return nil
}

// maxSubject is how much of a message stands in the title of its items, in runes.
const maxSubject = 120

// item is the task by which an agent gets a message.
func (b *sender) item(m *Posted, r channel.Receiver) *Task {
	t := &Task{
		Source: Source{Agent: m.From, Session: task.ChannelSession + m.Channel},
		Task: Request{
			Type: "other", Title: fmt.Sprintf("#%s, %s: %s", m.Channel, m.From, schemas.Sentence(strings.TrimSpace(m.Text), maxSubject)), Description: m.Text,
		},
		Assignment: Assignment{TargetAgent: r.Agent},
		Mbox:       Meta{IdempotencyKey: itemKey(m.ID, r.Agent), MaxAttempts: int64(b.o.MaxAttempts)},
	}
	now := b.now()
	t.Complete(now, now, m.From, b.o.MaxAttempts)
	t.Mbox.Trigger, t.Mbox.RootID, t.Mbox.Depth, t.Mbox.Budget = r.Trigger+":"+m.ID, m.Root, m.Depth, m.Budget
	return t
}

// deliverOwed delivers the messages that somebody has posted and not delivered. One that
// cannot be read, or whose bytes are not those of its line, waits: verify names it.
func (b *sender) deliverOwed(ctx context.Context) error {
	for _, file := range b.queue.Owed() {
		e, err := b.ledger.LineWith("file", file)
		if err != nil {
			return err
		}
		if e == nil {
			continue
		}
		m, err := readMessage(b.books, e)
		if err != nil {
			continue
		}
		if err := b.deliver(ctx, m); err != nil && !errors.Is(err, ErrBusy) { // then the next scan does it
			return err
		}
	}
	return nil
}

// owed makes the inbox items that a crash has kept from being made.
func (r *recovery) owed() error {
	if err := r.b.queue.Update(); err != nil {
		return err
	}
	return onTheWay(r.b.sender.deliverOwed(r.ctx))
}

// MessageOf is the message with this id, whatever its case, or ErrNotFound.
func MessageOf(b *Box, id string) (*Posted, error) {
	m, err := findMessage(b.books, id)
	if err == nil && m == nil {
		err = fmt.Errorf("message %s: %w", schemas.Sentence(id, 128), ErrNotFound)
	}
	return m, err
}

// Reading chooses messages.
type Reading struct {
	Channel string // "" for all
	Since   int64  // only behind this seq
	Limit   int    // only the last so many; 0: no limit
	First   bool   // of more than Limit the first, for who reads on from there
}

// Messages are those that are chosen, in the order in which they were posted. Those
// that somebody has changed or removed are left out, and bad tells of each.
func Messages(ctx context.Context, b *Box, of Reading) (said []*Posted, bad []error, err error) {
	for line, err := range b.ledger.Naming(string(audit.MessageEvent)) {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return nil, nil, err
		}
		if line.Seq <= of.Since || of.Limit > 0 && !of.First && len(said) == of.Limit {
			break
		}
		if line.Event() != audit.MessageEvent || of.Channel != "" && line.Text("channel") != of.Channel {
			continue
		}
		e, err := line.Decode()
		if err != nil {
			return nil, nil, err
		}
		m, err := readMessage(b.books, &e)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		said = append(said, m)
	}
	slices.Reverse(said)
	if of.Limit > 0 && len(said) > of.Limit {
		said = said[:of.Limit]
	}
	return said, bad, nil
}

// Receipt tells how far a message has come with one that it is for.
type Receipt struct {
	channel.Receiver
	Item  ID    `json:"item,omitzero"`  // "" until its inbox item is made
	State State `json:"state,omitzero"` // of the item: pending is delivered, in-progress seen, completed acknowledged
}

// Receipts are those of a message, in the order of its receivers.
func Receipts(ctx context.Context, b *Box, m *Posted) ([]Receipt, error) {
	var all []Receipt
	for _, r := range m.Receivers {
		one := Receipt{Receiver: r}
		id, err := b.sender.idOfKey(itemHash(b.books, itemKey(m.ID, r.Agent)))
		if err == nil && id != "" {
			one.Item = id
			_, one.State, err = b.Task(ctx, id)
		}
		if err != nil && !errors.Is(err, ErrNotFound) { // it was pruned from the archive
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// messagesThere are the messages that lie in the home, in the order in which they were
// posted: what the channels of a ledger that is begun anew begin with.
func (r *recovery) messagesThere() ([]*channel.Message, error) {
	names, err := durable.Names(r.b.path("channels"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []*channel.Message
	for _, name := range names {
		for path, err := range home.Paths(r.b.path("channels", name)) {
			if err != nil {
				return nil, err
			}
			data, err := durable.Read(path, MaxTask)
			if err != nil {
				continue // verify names it
			}
			if m, err := channel.Parse(data); err == nil && path == r.b.path(filepath.FromSlash(m.File())) {
				all = append(all, m)
			}
		}
	}
	slices.SortFunc(all, func(m, o *channel.Message) int {
		return cmp.Or(m.Posted.Compare(o.Posted.Time), strings.Compare(m.ID, o.ID))
	})
	return all, nil
}

// messageLine is the line of a message as it lies.
func (r *recovery) messageLine(m *channel.Message) (audit.Entry, error) {
	f, err := r.b.recorder.filing(m)
	if err != nil {
		return audit.Entry{}, err
	}
	f.by, f.action = audit.MboxAgent, "mbox found "+m.ID+" when the ledger was forgotten"
	if data, read := durable.Read(r.b.path(m.File()), MaxTask); read == nil {
		f.data = data
	}
	return f.line(r.b.books, home.RandomHex(16)), nil
}
