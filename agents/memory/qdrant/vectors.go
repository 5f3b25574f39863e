package qdrant

import (
	"context"
	"errors"
	"fmt"
	"slices"

	client "github.com/qdrant/go-client/qdrant"

	"mbox/agents/memory"
)

// UseEmbeddings has recall find by meaning too. warn is told, once, when there is no
// vector to be had: then words alone count.
func (s *Store) UseEmbeddings(e memory.Embedder, warn func(error)) { s.meaning.Use(e, warn) }

// vectorsOf is the collection of the vectors of so many dimensions.
func (s *Store) vectorsOf(dim int) string { return fmt.Sprintf("%s_%d", s.o.Collection, dim) }

// fits returns ErrModel if the agent has vectors of another model or length.
func (s *Store) fits(a *agent, dim int) error {
	if a.model == "" {
		return nil
	}
	return s.meaning.Fits(a.model, a.dim, dim)
}

// addVectors stores the vectors of entries that are there. Of those that somebody has
// forgotten meanwhile it stores none.
func (s *Store) addVectors(ctx context.Context, a *agent, of []memory.Entry, vectors [][]float32) error {
	dim := len(vectors[0])
	if err := s.fits(a, dim); err != nil {
		return err
	}
	if err := s.makeVectors(ctx, dim); err != nil {
		return err
	}
	if a.model == "" {
		a.model, a.dim = s.meaning.Model(), dim
		if err := s.setModel(ctx, a); err != nil {
			return err
		}
	}
	var points []*client.PointStruct
	var ids []*client.PointId
	for i, e := range of {
		id := client.NewIDUUID(e.ID)
		ids = append(ids, id)
		points = append(points, &client.PointStruct{
			Id: id, Vectors: client.NewVectorsDense(vectors[i]),
			Payload: map[string]*client.Value{"agent_id": client.NewValueString(a.uuid), "model": client.NewValueString(a.model)},
		})
	}
	if err := s.put(ctx, s.vectorsOf(dim), points...); err != nil {
		return err
	}
	there, err := s.there(ctx, s.o.Collection, a, ids)
	gone := slices.DeleteFunc(ids, func(id *client.PointId) bool { return there[id.GetUuid()] })
	if err != nil || len(gone) == 0 {
		return err
	}
	return s.remove(ctx, s.vectorsOf(dim), a.of(client.NewHasID(gone...)))
}

// setModel keeps which model the agent's vectors are of, under whatever name it has now.
func (s *Store) setModel(ctx context.Context, a *agent) error {
	_, err := s.c.SetPayload(ctx, &client.SetPayloadPoints{
		CollectionName: s.o.Collection, Wait: client.PtrOf(true),
		Payload:        map[string]*client.Value{"model": client.NewValueString(a.model), "dim": client.NewValueInt(int64(a.dim))},
		PointsSelector: client.NewPointsSelectorFilter(&client.Filter{Must: []*client.Condition{client.NewMatchKeyword("uuid", a.uuid)}}),
	})
	return err
}

// makeVectors makes the collection of vectors of so many dimensions.
func (s *Store) makeVectors(ctx context.Context, dim int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dims[dim] {
		return nil
	}
	err := s.create(ctx, s.vectorsOf(dim), client.NewVectorsConfig(&client.VectorParams{Size: uint64(dim), Distance: client.Distance_Cosine}))
	if err == nil {
		err = s.index(ctx, s.vectorsOf(dim), "agent_id", ofTenant)
	}
	if err == nil {
		err = s.index(ctx, s.vectorsOf(dim), "model", client.NewPayloadIndexParamsKeyword(&client.KeywordIndexParams{}))
	}
	s.dims[dim] = err == nil
	return err
}

// removeVectors deletes those of the agent's vectors that a filter finds.
func (s *Store) removeVectors(ctx context.Context, of *client.Filter) error {
	a, err := s.agent(ctx, s.o.Agent) // now: it may have got its first ones meanwhile
	if err != nil || a == nil || a.dim == 0 {
		return err
	}
	if err = s.remove(ctx, s.vectorsOf(a.dim), of); missing(err) {
		return nil
	}
	return err
}

// byMeaning are the entries nearest to a query, best first; none if there are no vectors,
// or no model, which is told.
func (s *Store) byMeaning(ctx context.Context, query string) (near []memory.Entry, err error) {
	some := false
	err = s.read(ctx, func(_ context.Context, a *agent) error {
		some = a.model != ""
		return s.fits(a, 0)
	})
	if err != nil || !some {
		return nil, err
	}
	v, err := s.meaning.OfQuery(ctx, query)
	if err != nil || v == nil {
		return nil, err
	}
	err = s.read(ctx, func(ctx context.Context, a *agent) error {
		if err := s.fits(a, len(v)); err != nil || a.model == "" {
			return err
		}
		near, err = s.nearest(ctx, a, v)
		return err
	})
	return near, err
}

// nearest are the entries whose vectors, of the same model, are the nearest.
func (s *Store) nearest(ctx context.Context, a *agent, v []float32) (near []memory.Entry, err error) {
	hits, err := s.c.Query(ctx, &client.QueryPoints{
		CollectionName: s.vectorsOf(len(v)), Query: client.NewQueryDense(v), Limit: client.PtrOf(uint64(memory.Fused)),
		Filter: a.of(client.NewMatchKeyword("model", a.model)),
	})
	if err != nil || len(hits) == 0 {
		return nil, err
	}
	var ids []*client.PointId
	for _, hit := range hits {
		ids = append(ids, hit.GetId())
	}
	found, err := s.c.Scroll(ctx, &client.ScrollPoints{
		CollectionName: s.o.Collection, Filter: a.of(client.NewHasID(ids...)), Limit: client.PtrOf(uint32(len(ids))), WithPayload: client.NewWithPayload(true),
	})
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if i := slices.IndexFunc(found, func(p *client.RetrievedPoint) bool { return p.GetId().GetUuid() == id.GetUuid() }); i >= 0 {
			near = append(near, s.entry(found[i]))
		}
	}
	return near, nil
}

// Embed makes the vectors of all entries that have none, or with again, and where the
// model has changed, of all. What it has made stays if it ends early; n is how many.
func (s *Store) Embed(ctx context.Context, again bool) (n int, err error) {
	if s.meaning.Off() {
		return 0, memory.ErrNoModel
	}
	if err := s.dropOthers(ctx, again); err != nil {
		return 0, err
	}
	for from := ""; ; {
		all, next, err := s.page(ctx, from, memory.EmbedAtOnce)
		if err != nil {
			return n, err
		}
		made, err := s.embed(ctx, all)
		n += made
		if from = next; err != nil || from == "" {
			return n, err
		}
	}
}

// dropOthers removes the agent's vectors, if they are of another model or again is set.
func (s *Store) dropOthers(ctx context.Context, again bool) error {
	return s.read(ctx, func(ctx context.Context, a *agent) error {
		if err := s.fits(a, 0); !again && !errors.Is(err, memory.ErrModel) {
			return err
		}
		if err := s.removeVectors(ctx, a.of()); err != nil {
			return err
		}
		a.model, a.dim = "", 0
		return s.setModel(ctx, a)
	})
}

// embed makes the vectors of those entries that have none.
func (s *Store) embed(ctx context.Context, all []memory.Entry) (n int, err error) {
	err = s.read(ctx, func(ctx context.Context, a *agent) error {
		if a.dim == 0 || len(all) == 0 {
			return nil
		}
		var ids []*client.PointId
		for _, e := range all {
			ids = append(ids, client.NewIDUUID(e.ID))
		}
		there, err := s.there(ctx, s.vectorsOf(a.dim), a, ids)
		if missing(err) {
			return nil
		}
		all = slices.DeleteFunc(all, func(e memory.Entry) bool { return there[e.ID] })
		return err
	})
	if err != nil || len(all) == 0 {
		return 0, err
	}
	vectors, err := s.meaning.OfEntries(ctx, all)
	if err != nil {
		return 0, err
	}
	err = s.read(ctx, func(ctx context.Context, a *agent) error { return s.addVectors(ctx, a, all, vectors) })
	if err != nil {
		return 0, err
	}
	return len(all), nil
}
