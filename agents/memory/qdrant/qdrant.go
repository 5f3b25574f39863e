// Package qdrant keeps what all agents of a mailbox remember in a Qdrant server, by its
// official client.
//
// # The collections
//
// They are made with the first entry. The one that Options name has points without
// vectors, of three kinds:
//
//	version                                             of this form
//	alias, uuid, model, dim                             an agent: it keeps its uuid when its name changes
//	agent_id, category, key, content, at, author, task  an entry; at is in Unix milliseconds
//
// The vectors of entries that were embedded are in a collection for each dimension, with
// that behind its name (mbox_768): a point of the entry's id with agent_id and model.
//
// A Store stamps what it adds with its agent's uuid, and sees nothing that has another.
// Ids are UUIDs of version 7, never used again.
//
// # Without transactions
//
// Qdrant changes one collection at a time, whole or not at all. So an entry counts when
// its point is there; a vector follows it, and where it does not the entry is found by
// its words alone until it is embedded. To forget removes the vectors before and behind
// the entries, and who has added vectors looks whether their entries are still there: no
// vector of a forgotten entry stays. The uuid that an agent without one gets is made of
// its name, so that two who make it at once make the same.
//
// # Its weight
//
// Whatever links this package begins 1.2 ms later and has 4.5 MB more, for the client's
// generated code: mbox itself does not, and has the program mbox-qdrant speak to the
// server (see package adapter).
package qdrant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	client "github.com/qdrant/go-client/qdrant"

	"mbox/agents/memory"
)

// Store is one agent's part of a server. It implements [memory.Store].
type Store struct {
	o       Options
	c       *client.Client
	meaning memory.Meaning

	mu   sync.Mutex
	made bool         // the collection is there, of this version
	dims map[int]bool // for which there is a collection of vectors
}

var _ memory.Store = (*Store)(nil)

const (
	version = 1
	page    = 100 // entries of one answer, of at most 64 KiB each
)

// space is of all names from which mbox makes ids.
var space = uuid.MustParse("6a0f6c0e-5b0f-4d0c-9d57-2f3f6f0f2b11")

func idOf(name string) *client.PointId {
	return client.NewIDUUID(uuid.NewSHA1(space, []byte(name)).String())
}

// with does something with the server, within the time for it.
func (s *Store) with(ctx context.Context, do func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	err := s.look(limited)
	if err == nil {
		err = do(limited)
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return s.about(err)
}

// read is with for what there is nothing of before the agent's first entry.
func (s *Store) read(ctx context.Context, do func(ctx context.Context, a *agent) error) error {
	return s.with(ctx, func(ctx context.Context) error {
		a, err := s.agent(ctx, s.o.Agent)
		if err != nil || a == nil {
			return err
		}
		return do(ctx, a)
	})
}

// look looks once whether the collection is there. Its version is its first point; one
// that has others alone is somebody else's.
func (s *Store) look(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made {
		return nil
	}
	n, err := s.c.Count(ctx, &client.CountPoints{CollectionName: s.o.Collection, Exact: client.PtrOf(true)})
	if missing(err) || err == nil && n == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	found, err := s.point(ctx, idOf("version"))
	switch {
	case err != nil:
		return err
	case found == nil:
		return fault(fmt.Errorf("the collection %s is somebody else's", s.o.Collection), "another name in collection of [qdrant]")
	case found["version"].GetIntegerValue() != version:
		return fault(fmt.Errorf("the collection %s has the version %d, and this mbox reads %d", s.o.Collection, found["version"].GetIntegerValue(), version), "a newer mbox has made it: use that one, or another collection")
	}
	s.made = true
	return nil
}

// make makes the collection. Who is killed here, or does it at the same time, does no
// harm: the version comes last.
func (s *Store) make(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made {
		return nil
	}
	if err := s.create(ctx, s.o.Collection, client.NewVectorsConfigMap(nil)); err != nil {
		return err
	}
	words := client.NewPayloadIndexParamsText(&client.TextIndexParams{
		Tokenizer: client.TokenizerType_Prefix, Lowercase: client.PtrOf(true), MinTokenLen: client.PtrOf(uint64(1)), MaxTokenLen: client.PtrOf(uint64(maxWord)),
	})
	for field, index := range map[string]*client.PayloadIndexParams{
		"agent_id": ofTenant, "uuid": client.NewPayloadIndexParamsKeyword(&client.KeywordIndexParams{}), "key": words, "content": words,
		"at": client.NewPayloadIndexParamsInt(&client.IntegerIndexParams{Lookup: client.PtrOf(false), Range: client.PtrOf(true)}),
	} {
		if err := s.index(ctx, s.o.Collection, field, index); err != nil {
			return err
		}
	}
	err := s.put(ctx, s.o.Collection, point(idOf("version"), map[string]*client.Value{"version": client.NewValueInt(version)}))
	s.made = err == nil
	return err
}

// ofTenant is the index of the agent by which everything is looked for.
var ofTenant = client.NewPayloadIndexParamsKeyword(&client.KeywordIndexParams{IsTenant: client.PtrOf(true)})

// create makes a collection, which somebody else may have made.
func (s *Store) create(ctx context.Context, name string, vectors *client.VectorsConfig) error {
	err := s.c.CreateCollection(ctx, &client.CreateCollection{CollectionName: name, VectorsConfig: vectors})
	if err != nil {
		if there, failed := s.c.CollectionExists(ctx, name); failed == nil && there {
			return nil
		}
	}
	return err
}

// index makes an index of a field. One that is there stays.
func (s *Store) index(ctx context.Context, collection, field string, params *client.PayloadIndexParams) error {
	kind := client.FieldType_FieldTypeKeyword
	switch {
	case params.GetTextIndexParams() != nil:
		kind = client.FieldType_FieldTypeText
	case params.GetIntegerIndexParams() != nil:
		kind = client.FieldType_FieldTypeInteger
	}
	_, err := s.c.CreateFieldIndex(ctx, &client.CreateFieldIndexCollection{
		CollectionName: collection, Wait: client.PtrOf(true), FieldName: field, FieldType: &kind, FieldIndexParams: params,
	})
	return err
}

// point is one without vectors.
func point(id *client.PointId, payload map[string]*client.Value) *client.PointStruct {
	return &client.PointStruct{Id: id, Payload: payload, Vectors: client.NewVectorsMap(nil)}
}

// put stores points. When it returns they are found.
func (s *Store) put(ctx context.Context, collection string, points ...*client.PointStruct) error {
	_, err := s.c.Upsert(ctx, &client.UpsertPoints{CollectionName: collection, Wait: client.PtrOf(true), Points: points})
	return err
}

// remove deletes the points that a filter finds.
func (s *Store) remove(ctx context.Context, collection string, of *client.Filter) error {
	_, err := s.c.Delete(ctx, &client.DeletePoints{CollectionName: collection, Wait: client.PtrOf(true), Points: client.NewPointsSelectorFilter(of)})
	return err
}

// point is what a point has; nil if it is not there.
func (s *Store) point(ctx context.Context, id *client.PointId) (map[string]*client.Value, error) {
	found, err := s.c.Get(ctx, &client.GetPoints{CollectionName: s.o.Collection, Ids: []*client.PointId{id}, WithPayload: client.NewWithPayload(true)})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0].GetPayload(), nil
}

// agent is what the server knows of one. Its vectors are of the model with so many
// dimensions; "": it has none.
type agent struct {
	uuid, model string
	dim         int
}

func agentID(alias string) *client.PointId { return idOf("agent " + alias) }

// agent returns the one of a name; nil if there is none.
func (s *Store) agent(ctx context.Context, alias string) (*agent, error) {
	found, err := s.point(ctx, agentID(alias))
	if missing(err) {
		return nil, nil
	}
	if err != nil || found == nil {
		return nil, err
	}
	return &agent{found["uuid"].GetStringValue(), found["model"].GetStringValue(), int(found["dim"].GetIntegerValue())}, nil
}

// putAgent gives an agent a name.
func (s *Store) putAgent(ctx context.Context, alias string, a *agent) error {
	return s.put(ctx, s.o.Collection, point(agentID(alias), map[string]*client.Value{
		"alias": client.NewValueString(alias), "uuid": client.NewValueString(a.uuid),
		"model": client.NewValueString(a.model), "dim": client.NewValueInt(int64(a.dim)),
	}))
}

// known returns the agent, which becomes known here.
func (s *Store) known(ctx context.Context) (*agent, error) {
	if err := s.make(ctx); err != nil {
		return nil, err
	}
	a, err := s.agent(ctx, s.o.Agent)
	if err != nil || a != nil {
		return a, err
	}
	a = &agent{uuid: s.o.UUID}
	for n := 0; ; n++ {
		if s.o.UUID == "" {
			a.uuid = uuid.NewSHA1(space, fmt.Appendf(nil, "uuid %d %s", n, s.o.Agent)).String()
		}
		others, err := s.others(ctx, a.uuid)
		switch {
		case err != nil:
			return nil, err
		case others == 0:
			return a, s.putAgent(ctx, s.o.Agent, a)
		case s.o.UUID != "":
			return nil, fault(errors.New("another agent has its UUID"), "each mailbox wants a collection of its own: another name in collection of [qdrant]")
		}
	}
}

// others tells how many have a uuid under other names than the store's.
func (s *Store) others(ctx context.Context, uuid string) (uint64, error) {
	return s.c.Count(ctx, &client.CountPoints{CollectionName: s.o.Collection, Exact: client.PtrOf(true), Filter: &client.Filter{
		Must: []*client.Condition{client.NewMatchKeyword("uuid", uuid)}, MustNot: []*client.Condition{client.NewHasID(agentID(s.o.Agent))},
	}})
}

// of finds what is an agent's, and meets all conditions.
func (a *agent) of(also ...*client.Condition) *client.Filter {
	return &client.Filter{Must: append([]*client.Condition{client.NewMatchKeyword("agent_id", a.uuid)}, also...)}
}

// Add stores an entry.
func (s *Store) Add(ctx context.Context, e memory.Entry) (string, error) {
	if err := e.Check(); err != nil {
		return "", err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return "", err
	}
	e.ID = id.String()
	vector := s.meaning.OfEntry(ctx, e)
	var kept error // it is, without its vector
	err = s.with(ctx, func(ctx context.Context) error {
		a, err := s.known(ctx)
		if err != nil {
			return err
		}
		if err := s.put(ctx, s.o.Collection, point(client.NewIDUUID(e.ID), payload(a, e))); err != nil {
			return err
		}
		if vector != nil {
			kept = s.about(s.addVectors(ctx, a, []memory.Entry{e}, [][]float32{vector}))
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if kept != nil {
		s.meaning.TellKept(kept)
	}
	return e.ID, nil
}

func payload(a *agent, e memory.Entry) map[string]*client.Value {
	text := client.NewValueString
	return map[string]*client.Value{
		"agent_id": text(a.uuid), "category": text(e.Category), "key": text(e.Key), "content": text(e.Content),
		"at": client.NewValueInt(e.At.UnixMilli()), "author": text(e.By), "task": text(e.Task),
	}
}

// entry reads a point.
func (s *Store) entry(p *client.RetrievedPoint) memory.Entry {
	text := func(key string) string { return p.GetPayload()[key].GetStringValue() }
	return memory.Entry{
		ID: p.GetId().GetUuid(), Agent: s.o.Agent, Category: text("category"), Key: text("key"), Content: text("content"),
		At: time.UnixMilli(p.GetPayload()["at"].GetIntegerValue()).UTC(), By: text("author"), Task: text("task"),
	}
}

// Forget removes entries, and their vectors.
func (s *Store) Forget(ctx context.Context, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	known := false
	err := s.read(ctx, func(ctx context.Context, a *agent) error {
		known = true
		points, err := s.ownAll(ctx, a, ids)
		if err != nil {
			return err
		}
		those := a.of(client.NewHasID(points...))
		if err := s.removeVectors(ctx, those); err != nil {
			return err
		}
		if err := s.remove(ctx, s.o.Collection, those); err != nil {
			return err
		}
		return s.removeVectors(ctx, those) // of who has added one meanwhile
	})
	if err == nil && !known {
		return memory.Unknown(ids[0])
	}
	return err
}

// ownAll wants that all ids are of entries of the agent.
func (s *Store) ownAll(ctx context.Context, a *agent, ids []string) (points []*client.PointId, err error) {
	for _, id := range ids {
		if _, err := uuid.Parse(id); err != nil {
			return nil, memory.Unknown(id)
		}
		points = append(points, client.NewIDUUID(id))
	}
	there, err := s.there(ctx, s.o.Collection, a, points)
	for _, id := range ids {
		if err == nil && !there[id] {
			err = memory.Unknown(id)
		}
	}
	return points, err
}

// there tells of which ids a collection has points of the agent.
func (s *Store) there(ctx context.Context, collection string, a *agent, ids []*client.PointId) (map[string]bool, error) {
	found, err := s.c.Scroll(ctx, &client.ScrollPoints{
		CollectionName: collection, Filter: a.of(client.NewHasID(ids...)), Limit: client.PtrOf(uint32(max(len(ids), 1))), WithPayload: client.NewWithPayload(false),
	})
	there := map[string]bool{}
	for _, p := range found {
		there[p.GetId().GetUuid()] = true
	}
	return there, err
}

// All yields the agent's entries, oldest first.
func (s *Store) All(ctx context.Context) iter.Seq2[memory.Entry, error] {
	return func(yield func(memory.Entry, error) bool) {
		var all []memory.Entry
		for from := ""; ; {
			some, next, err := s.page(ctx, from, page)
			if err != nil {
				yield(memory.Entry{}, err)
				return
			}
			all = append(all, some...)
			if from = next; from == "" {
				break
			}
		}
		slices.SortFunc(all, byAge)
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// byAge has the oldest first; of one time, the one that came first.
func byAge(a, b memory.Entry) int {
	return cmp.Or(a.At.Compare(b.At), strings.Compare(a.ID, b.ID))
}

// page is a part of the agent's entries, by their ids, from one on; "" is the first.
// next is where the next one begins; "": there is none.
func (s *Store) page(ctx context.Context, from string, most int) (all []memory.Entry, next string, err error) {
	err = s.read(ctx, func(ctx context.Context, a *agent) error {
		request := &client.ScrollPoints{CollectionName: s.o.Collection, Filter: a.of(), Limit: client.PtrOf(uint32(most)), WithPayload: client.NewWithPayload(true)}
		if from != "" {
			request.Offset = client.NewIDUUID(from)
		}
		found, offset, err := s.c.ScrollAndOffset(ctx, request)
		for _, p := range found {
			all = append(all, s.entry(p))
		}
		next = offset.GetUuid()
		return err
	})
	return all, next, err
}
