package adapter

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/go-json-experiment/json"

	"mbox/agents/memory"
)

// Opener opens the store of an agent. What the store warns of is told to warn.
type Opener func(agent, uuid string, warn func(error)) (memory.Store, error)

// Serve is the program's side of the protocol: it answers the requests of in until there
// are no more. A store may also have Embed, Rename and Knows.
func Serve(ctx context.Context, in io.Reader, out io.Writer, open Opener) error {
	s := &server{open: open, stores: map[string]memory.Store{}}
	lines := bufio.NewReader(in)
	for {
		line, err := readLine(lines)
		if err == nil {
			err = s.reply(ctx, line, out)
		}
		if err != nil {
			s.listed.end()
			for _, store := range s.stores {
				_ = store.Close()
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

type server struct {
	open     Opener
	stores   map[string]memory.Store // by agent
	warnings []string                // since the last answer
	listed   *list                   // nil: none goes on
}

// reply answers one request.
func (s *server) reply(ctx context.Context, line []byte, out io.Writer) error {
	var r request
	a := &answer{}
	err := json.Unmarshal(line, &r)
	switch {
	case err != nil:
		err = errors.New("the request is no JSON of the protocol")
	case r.V != version:
		err = fmt.Errorf("the protocol's version %d is another one than %d", r.V, version)
	default:
		err = s.do(ctx, &r, a)
	}
	if err != nil {
		a = refusal(err)
	}
	a.Warnings, s.warnings = s.warnings, nil
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = out.Write(append(text, '\n'))
	return err
}

// refusal is the answer to what cannot be done.
func refusal(err error) *answer {
	a := &answer{Error: err.Error()}
	var fault *memory.Fault
	if errors.As(err, &fault) {
		a.Error, a.Fix = fault.Err.Error(), fault.Fix
	}
	for code, known := range codes {
		if errors.Is(err, known) {
			a.Code = code
		}
	}
	return a
}

// store is the agent's.
func (s *server) store(r *request) (memory.Store, error) {
	if s.stores[r.Agent] == nil {
		store, err := s.open(r.Agent, r.UUID, func(err error) { s.warnings = append(s.warnings, err.Error()) })
		if err != nil {
			return nil, err
		}
		s.stores[r.Agent] = store
	}
	return s.stores[r.Agent], nil
}

// more is what a store may have beside its interface.
type more interface {
	Embed(ctx context.Context, again bool) (int, error)
	Rename(ctx context.Context, to string) error
	Knows(ctx context.Context) (bool, error)
}

func (s *server) do(ctx context.Context, r *request, a *answer) error {
	store, err := s.store(r)
	if err != nil {
		return err
	}
	if r.Op != "list" {
		s.listed.end()
		s.listed = nil
	}
	also, _ := store.(more)
	switch {
	case r.Op == "add" && r.Entry != nil:
		a.ID, err = store.Add(ctx, *r.Entry)
	case r.Op == "recall" && r.Query != nil:
		a.Entries, err = store.Recall(ctx, *r.Query, r.Limit)
	case r.Op == "list":
		err = s.list(ctx, store, r, a)
	case r.Op == "forget":
		err = store.Forget(ctx, r.IDs...)
	case r.Op == "embed" && also != nil:
		a.Count, err = also.Embed(ctx, r.Again)
	case r.Op == "rename" && also != nil:
		err = also.Rename(ctx, r.To)
	case r.Op == "knows" && also != nil:
		a.Known, err = also.Knows(ctx)
	default:
		err = errors.New("this program does not know such a request")
	}
	return err
}

// list is one that goes on with the next request.
type list struct {
	next  func() (memory.Entry, error, bool)
	stop  func()
	after string // the last entry that was told
}

func (l *list) end() {
	if l != nil {
		l.stop()
	}
}

// maxList is how many bytes of content one answer has, or one entry more.
const maxList = 1 << 20

// list answers with a part of the entries, from behind one on.
func (s *server) list(ctx context.Context, store memory.Store, r *request, a *answer) error {
	if s.listed == nil || r.After == "" || s.listed.after != r.After {
		s.listed.end()
		s.listed = &list{}
		s.listed.next, s.listed.stop = iter.Pull2(store.All(ctx))
		for r.After != "" && s.listed.after != r.After {
			e, err, there := s.listed.next()
			if err != nil || !there {
				return errors.Join(err, memory.Unknown(r.After))
			}
			s.listed.after = e.ID
		}
	}
	for size := 0; size < maxList; {
		e, err, there := s.listed.next()
		if err != nil || !there {
			return err
		}
		a.Entries, s.listed.after = append(a.Entries, e), e.ID
		size += len(e.Content)
	}
	a.More = true
	return nil
}
