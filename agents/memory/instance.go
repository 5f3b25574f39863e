package memory

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// Options say whose memory it is, and who uses it.
type Options struct {
	Agent string
	Peers []string // whose memory it may recall besides: read_memory_from
	Limit int      // entries of a recall: memory_recall_limit; 0: DefaultLimit
	By    string   // who uses it: human, or the agent
	Task  string   // on which task; "" for none

	Open func(agent string) (Store, error) // the store of an agent, by its own backend
	Warn func(agent string, err error)     // a peer's memory was left out; nil: nobody is told
	Now  func() time.Time                  // nil: time.Now
}

// Memory is the memory of one agent, as its policy lets it be used.
type Memory struct {
	o   Options
	own Store
}

// ForAgent opens the memory of one agent.
func ForAgent(o Options) (*Memory, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Warn == nil {
		o.Warn = func(string, error) {}
	}
	o.Limit = cmp.Or(o.Limit, DefaultLimit)
	own, err := o.Open(o.Agent)
	if err != nil {
		return nil, err
	}
	return &Memory{o, own}, nil
}

// Close closes the agent's store.
func (m *Memory) Close() error { return m.own.Close() }

// Add remembers a text. An empty category is core. The entry that it returns is stamped.
func (m *Memory) Add(ctx context.Context, category, key, content string) (Entry, error) {
	e := Entry{
		Agent: m.o.Agent, Category: cmp.Or(category, Core), Key: key, Content: strings.TrimSpace(content),
		At: m.o.Now().UTC().Truncate(time.Millisecond), By: m.o.By, Task: m.o.Task,
	}
	err := e.Check()
	if err == nil {
		e.ID, err = m.own.Add(ctx, e)
	}
	return e, err
}

// Recall returns what the agent and its peers remember that fits best. A limit of 0 is
// the one of the options.
func (m *Memory) Recall(ctx context.Context, query string, limit int) ([]Entry, error) {
	limit = min(cmp.Or(limit, m.o.Limit), MaxLimit)
	all, err := recall(ctx, m.own, m.o.Agent, query, limit)
	if err != nil {
		return nil, err
	}
	for _, peer := range m.o.Peers {
		theirs, err := m.ask(ctx, peer, query, limit)
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			m.o.Warn(peer, err)
			continue
		}
		all = append(all, theirs...)
	}
	return Best(all, m.o.Agent, limit), nil
}

func (m *Memory) ask(ctx context.Context, peer, query string, limit int) ([]Entry, error) {
	s, err := m.o.Open(peer)
	if err != nil {
		return nil, err
	}
	found, err := recall(ctx, s, peer, query, limit)
	return found, errors.Join(err, s.Close())
}

// recall asks one store, and stamps whose it is.
func recall(ctx context.Context, s Store, agent, query string, limit int) ([]Entry, error) {
	found, err := s.Recall(ctx, query, limit)
	for i := range found {
		found[i].Agent = agent
	}
	return found, err
}

// List returns all entries of the agent, oldest first.
func (m *Memory) List(ctx context.Context) (all []Entry, err error) {
	for e, err := range m.own.All(ctx) {
		if err != nil {
			return nil, err
		}
		e.Agent = m.o.Agent
		all = append(all, e)
	}
	return all, nil
}

// Find returns the entries with these ids. ErrUnknown if one is not there.
func (m *Memory) Find(ctx context.Context, ids ...string) (found []Entry, err error) {
	all, err := m.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		i := slices.IndexFunc(all, func(e Entry) bool { return e.ID == id })
		if i < 0 {
			return nil, Unknown(id)
		}
		found = append(found, all[i])
	}
	return found, nil
}

// Embed makes the vectors that the agent's entries lack, or with again all of them anew,
// and tells how many. ErrNoModel if its store finds by words alone.
func (m *Memory) Embed(ctx context.Context, again bool) (n int, err error) {
	s, ok := m.own.(interface {
		Embed(ctx context.Context, again bool) (int, error)
	})
	if !ok {
		return 0, ErrNoModel
	}
	return s.Embed(ctx, again)
}

// Forget removes entries for good. The caller has told the ledger.
func (m *Memory) Forget(ctx context.Context, ids ...string) error { return m.own.Forget(ctx, ids...) }

// Import adds entries that Export of a memory has given, with their times and where they
// come from, which mbox believes: it is for people. What is there already is left out,
// so that an import that was cut off can be done again. All are checked before the first
// is added.
func (m *Memory) Import(ctx context.Context, entries []Entry) (added int, err error) {
	for i, e := range entries {
		if err := e.Check(); err != nil {
			return 0, inEntry(i, err)
		}
	}
	all, err := m.List(ctx)
	if err != nil {
		return 0, err
	}
	have := map[Entry]int{}
	for _, e := range all {
		have[bare(e)]++
	}
	for _, e := range entries {
		e.Agent, e.Content = m.o.Agent, strings.TrimSpace(e.Content)
		e.At = e.At.UTC().Truncate(time.Millisecond)
		if have[bare(e)] > 0 {
			have[bare(e)]--
			continue
		}
		if _, err := m.own.Add(ctx, e); err != nil {
			return added, err
		}
		added++
	}
	return added, nil
}

// bare is what makes two entries the same one.
func bare(e Entry) Entry {
	e.ID, e.Agent, e.Score, e.At = "", "", 0, time.UnixMilli(e.At.UnixMilli()).UTC()
	return e
}
