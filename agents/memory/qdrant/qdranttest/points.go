package qdranttest

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/google/uuid"
	client "github.com/qdrant/go-client/qdrant"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type collection struct {
	size    uint64 // of the vectors; 0: there are none
	indexes map[string]*client.PayloadIndexParams
	points  map[string]*point
}

type point struct {
	payload map[string]*client.Value
	vector  []float32
}

func (s *Server) collection(name string) (*collection, error) {
	if c := s.collections[name]; c != nil {
		return c, nil
	}
	return nil, status.Errorf(codes.NotFound, "Not found: Collection `%s` doesn't exist!", name)
}

// Create implements a method of the service.
func (o of) Create(_ context.Context, r *client.CreateCollection) (*client.CollectionOperationResponse, error) {
	if o.s.collections[r.GetCollectionName()] != nil {
		return nil, status.Errorf(codes.AlreadyExists, "Wrong input: Collection `%s` already exists!", r.GetCollectionName())
	}
	if r.GetCollectionName() == "" || len(r.GetCollectionName()) > 255 || strings.ContainsAny(r.GetCollectionName(), `<>:"/\|?*`+"\x00") {
		return nil, status.Error(codes.InvalidArgument, "Validation error in body: collection_name")
	}
	c := &collection{indexes: map[string]*client.PayloadIndexParams{}, points: map[string]*point{}}
	if params := r.GetVectorsConfig().GetParams(); params != nil {
		if c.size = params.GetSize(); c.size == 0 || c.size > 65536 || params.GetDistance() == client.Distance_UnknownDistance {
			return nil, status.Error(codes.InvalidArgument, "Validation error in body: vectors_config")
		}
	}
	o.s.collections[r.GetCollectionName()] = c
	return &client.CollectionOperationResponse{Result: true}, nil
}

// CollectionExists implements a method of the service.
func (o of) CollectionExists(_ context.Context, r *client.CollectionExistsRequest) (*client.CollectionExistsResponse, error) {
	return &client.CollectionExistsResponse{Result: &client.CollectionExists{Exists: o.s.collections[r.GetCollectionName()] != nil}}, nil
}

// Delete implements a method of the service of points.
func (s *Server) Delete(_ context.Context, r *client.DeletePoints) (*client.PointsOperationResponse, error) {
	c, err := s.collection(r.GetCollectionName())
	if err != nil {
		return nil, err
	}
	ids, err := c.selected(r.GetPoints())
	if err != nil {
		return nil, err
	}
	return s.write(r.GetWait(), func() {
		for _, id := range ids {
			delete(c.points, id)
		}
	})
}

// selected are the ids of the points that a selector names.
func (c *collection) selected(of *client.PointsSelector) (ids []string, err error) {
	if of.GetFilter() == nil {
		return nil, wrong("the tests know selectors of filters alone")
	}
	for id, p := range c.points {
		fits, err := c.fits(of.GetFilter(), id, p)
		if err != nil {
			return nil, err
		}
		if fits {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// write does what was waited for before, and this, or lets it wait too.
func (s *Server) write(wait bool, do func()) (*client.PointsOperationResponse, error) {
	for _, late := range s.late {
		late()
	}
	s.late = nil
	if !wait {
		s.late = append(s.late, do)
		return &client.PointsOperationResponse{Result: &client.UpdateResult{Status: client.UpdateStatus_Acknowledged}}, nil
	}
	do()
	return &client.PointsOperationResponse{Result: &client.UpdateResult{Status: client.UpdateStatus_Completed}}, nil
}

// idOf wants a UUID or a number.
func idOf(id *client.PointId) (string, error) {
	switch id.GetPointIdOptions().(type) {
	case *client.PointId_Uuid:
		u, err := uuid.Parse(id.GetUuid())
		if err != nil {
			return "", status.Errorf(codes.InvalidArgument, "Unable to parse UUID: %s", id.GetUuid())
		}
		return u.String(), nil
	case *client.PointId_Num:
		return "", wrong("the tests know no numbers")
	}
	return "", status.Error(codes.InvalidArgument, "No ID options provided")
}

// Upsert implements a method of the service.
func (s *Server) Upsert(_ context.Context, r *client.UpsertPoints) (*client.PointsOperationResponse, error) {
	c, err := s.collection(r.GetCollectionName())
	if err != nil {
		return nil, err
	}
	if len(r.GetPoints()) == 0 {
		return nil, wrong("Empty update request")
	}
	all := map[string]*point{}
	for _, p := range r.GetPoints() {
		id, err := idOf(p.GetId())
		if err != nil {
			return nil, err
		}
		vector, err := c.vector(p.GetVectors())
		if err != nil {
			return nil, err
		}
		all[id] = &point{maps.Clone(p.GetPayload()), vector}
	}
	return s.write(r.GetWait(), func() { maps.Copy(c.points, all) })
}

// vector wants the collection's.
func (c *collection) vector(v *client.Vectors) ([]float32, error) {
	switch {
	case v.GetVectorsOptions() == nil:
		return nil, status.Error(codes.InvalidArgument, "Expected some vectors")
	case v.GetVectors() != nil && len(v.GetVectors().GetVectors()) == 0:
		return nil, nil
	case c.size == 0:
		return nil, wrong("Not existing vector name error: ")
	}
	data := v.GetVector().GetDense().GetData()
	if uint64(len(data)) != c.size {
		return nil, wrong("Vector dimension error: expected dim: %d, got %d", c.size, len(data))
	}
	return data, nil
}

// SetPayload implements a method of the service.
func (s *Server) SetPayload(_ context.Context, r *client.SetPayloadPoints) (*client.PointsOperationResponse, error) {
	c, err := s.collection(r.GetCollectionName())
	if err != nil {
		return nil, err
	}
	ids, err := c.selected(r.GetPointsSelector())
	if err != nil {
		return nil, err
	}
	return s.write(r.GetWait(), func() {
		for _, id := range ids {
			maps.Copy(c.points[id].payload, r.GetPayload())
		}
	})
}

// CreateFieldIndex implements a method of the service.
func (s *Server) CreateFieldIndex(_ context.Context, r *client.CreateFieldIndexCollection) (*client.PointsOperationResponse, error) {
	c, err := s.collection(r.GetCollectionName())
	if err != nil {
		return nil, err
	}
	params := r.GetFieldIndexParams()
	kind := map[client.FieldType]bool{
		client.FieldType_FieldTypeKeyword: params.GetKeywordIndexParams() != nil,
		client.FieldType_FieldTypeText:    params.GetTextIndexParams() != nil,
		client.FieldType_FieldTypeInteger: params.GetIntegerIndexParams() != nil,
	}
	if !kind[r.GetFieldType()] {
		return nil, wrong("Invalid field index params for field type %v", r.GetFieldType())
	}
	return s.write(r.GetWait(), func() { c.indexes[r.GetFieldName()] = params })
}

// Get implements a method of the service of points.
func (s *Server) Get(_ context.Context, r *client.GetPoints) (*client.GetResponse, error) {
	c, err := s.collection(r.GetCollectionName())
	if err != nil {
		return nil, err
	}
	answer := &client.GetResponse{}
	for _, id := range r.GetIds() {
		text, err := idOf(id)
		if err != nil {
			return nil, err
		}
		if p := c.points[text]; p != nil {
			answer.Result = append(answer.Result, retrieved(text, p, r.GetWithPayload()))
		}
	}
	return answer, nil
}

func retrieved(id string, p *point, with *client.WithPayloadSelector) *client.RetrievedPoint {
	out := &client.RetrievedPoint{Id: client.NewIDUUID(id)}
	if with.GetEnable() {
		out.Payload = maps.Clone(p.payload)
	}
	return out
}

// found are the ids of the points that a filter finds, in their order.
func (c *collection) found(of *client.Filter) ([]string, error) {
	ids, err := c.selected(client.NewPointsSelectorFilter(cmp.Or(of, &client.Filter{})))
	slices.Sort(ids)
	return ids, err
}

// Count implements a method of the service.
func (s *Server) Count(_ context.Context, r *client.CountPoints) (*client.CountResponse, error) {
	c, err := s.collection(r.GetCollectionName())
	if err != nil {
		return nil, err
	}
	ids, err := c.found(r.GetFilter())
	return &client.CountResponse{Result: &client.CountResult{Count: uint64(len(ids))}}, err
}

// Scroll implements a method of the service.
func (s *Server) Scroll(_ context.Context, r *client.ScrollPoints) (*client.ScrollResponse, error) {
	c, err := s.collection(r.GetCollectionName())
	if err != nil {
		return nil, err
	}
	ids, err := c.found(r.GetFilter())
	if err != nil {
		return nil, err
	}
	limit := 10
	if r.Limit != nil {
		if limit = int(r.GetLimit()); limit == 0 {
			return nil, status.Error(codes.InvalidArgument, "Validation error in body: limit: value 0 invalid, must be 1 or larger")
		}
	}
	if r.GetOrderBy() != nil {
		if ids, err = c.ordered(ids, r.GetOrderBy()); err != nil {
			return nil, err
		}
	}
	if r.GetOffset() != nil {
		from, err := idOf(r.GetOffset())
		if err != nil || r.GetOrderBy() != nil {
			return nil, wrong("Cannot use an `offset` when using `order_by`: %v", err)
		}
		ids = slices.DeleteFunc(ids, func(id string) bool { return id < from })
	}
	answer := &client.ScrollResponse{}
	for _, id := range ids[:min(limit, len(ids))] {
		answer.Result = append(answer.Result, retrieved(id, c.points[id], r.GetWithPayload()))
	}
	if len(ids) > limit && r.GetOrderBy() == nil {
		answer.NextPageOffset = client.NewIDUUID(ids[limit])
	}
	return answer, nil
}

// ordered are the points that have a field, by it.
func (c *collection) ordered(ids []string, by *client.OrderBy) ([]string, error) {
	if !c.indexes[by.GetKey()].GetIntegerIndexParams().GetRange() {
		return nil, wrong("No range index for `order_by` key: `%s`. Please create one to use `order_by`.", by.GetKey())
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return c.points[id].payload[by.GetKey()] == nil })
	slices.SortStableFunc(ids, func(a, b string) int {
		return cmp.Compare(c.points[a].payload[by.GetKey()].GetIntegerValue(), c.points[b].payload[by.GetKey()].GetIntegerValue())
	})
	if by.GetDirection() == client.Direction_Desc {
		slices.Reverse(ids)
	}
	return ids, nil
}

// Query implements a method of the service.
func (s *Server) Query(_ context.Context, r *client.QueryPoints) (*client.QueryResponse, error) {
	c, err := s.collection(r.GetCollectionName())
	if err != nil {
		return nil, err
	}
	v := r.GetQuery().GetNearest().GetDense().GetData()
	if uint64(len(v)) != c.size || c.size == 0 {
		return nil, wrong("Vector dimension error: expected dim: %d, got %d", c.size, len(v))
	}
	ids, err := c.found(r.GetFilter())
	if err != nil {
		return nil, err
	}
	answer := &client.QueryResponse{}
	for _, id := range ids {
		answer.Result = append(answer.Result, &client.ScoredPoint{Id: client.NewIDUUID(id), Score: cosine(v, c.points[id].vector)})
	}
	slices.SortStableFunc(answer.Result, func(a, b *client.ScoredPoint) int { return cmp.Compare(b.GetScore(), a.GetScore()) })
	limit := 10
	if r.Limit != nil {
		limit = int(r.GetLimit())
	}
	answer.Result = answer.Result[:min(limit, len(answer.Result))]
	return answer, nil
}

func cosine(a, b []float32) float32 {
	var dot, x, y float64
	for i := range a {
		dot, x, y = dot+float64(a[i])*float64(b[i]), x+float64(a[i])*float64(a[i]), y+float64(b[i])*float64(b[i])
	}
	if x == 0 || y == 0 {
		return 0
	}
	return float32(dot / math.Sqrt(x*y))
}
