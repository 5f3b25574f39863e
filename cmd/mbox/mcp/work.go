package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

func (s *Server) addWork() {
	add(s, tool{name: "claim_task", title: "Take a task", about: `Take the most urgent task that is for you. It is yours until the deadline; report_progress moves that, and complete_task, fail_task or release_task ends it. While you hold a task, the same call gives you the same task again (again: true). To hold several at once, give each a key of its own.`}, s.claim)
	add(s, tool{name: "report_progress", title: "Report progress", about: `Say how far a task is that you have claimed. It moves the claim's deadline.`}, s.progress)
	add(s, tool{name: "complete_task", title: "Complete a task", about: `Hand in the result of a task that you have claimed. The result is on disk when this answers; the same call again answers the same.`}, s.complete)
	add(s, tool{name: "fail_task", title: "Say that a task failed", about: `End this attempt at a task that you have claimed. It is tried again after a pause until its attempts are used up, or fails at once with final.`}, s.fail)
	add(s, tool{name: "release_task", title: "Give a task back", about: `Give a task that you have claimed back undone, for anybody to take. No attempt is used up.`}, s.release)
}

// claims are those that this server has made: it has their tokens, so that a client
// need not show them.
type claims struct {
	mu    sync.Mutex
	byKey recent[string, *given]
	byID  recent[mailbox.ID, *mailbox.Claim]
}

// given is what was claimed under a key. Who claims under it has the turn: a second call
// waits for what the first one gets.
type given struct {
	turn  chan struct{}
	claim *mailbox.Claim
}

func (c *claims) under(key string) *given {
	c.mu.Lock()
	defer c.mu.Unlock()
	g, known := c.byKey.values[key]
	if !known {
		g = &given{turn: make(chan struct{}, 1)}
		c.byKey.put(key, g)
	}
	return g
}

func (c *claims) remember(claim *mailbox.Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byID.put(claim.ID(), claim)
}

func (c *claims) of(id mailbox.ID) *mailbox.Claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byID.values[id]
}

// recent keeps the values that were put last.
type recent[K comparable, V any] struct {
	values map[K]V
	order  []K // the oldest first
}

// maxRecent is how many.
const maxRecent = 1000

func (r *recent[K, V]) put(key K, value V) {
	if r.values == nil {
		r.values = map[K]V{}
	}
	if _, known := r.values[key]; !known {
		r.order = append(r.order, key)
	}
	r.values[key] = value
	if len(r.order) > maxRecent {
		delete(r.values, r.order[0])
		r.order = r.order[1:]
	}
}

type claimInput struct {
	Type    string `json:"type,omitzero" jsonschema:"enum=research,enum=action,enum=analysis,enum=other,description=only a task of this type"`
	Seconds int    `json:"wait_seconds,omitzero" jsonschema:"minimum=0,maximum=300,default=0,description=how long to wait for a task at most"`
	Key     string `json:"key,omitzero" jsonschema:"maxLength=256,description=names what you claim; a key that holds a task gets that one again"`
}

type claimOutput struct {
	ID       mailbox.ID    `json:"id"`
	Token    string        `json:"token" jsonschema:"description=proves the claim. This server remembers it; show it when the server was restarted since"`
	Deadline mailbox.Time  `json:"deadline" jsonschema:"description=when the claim is over unless report_progress moves it"`
	Again    bool          `json:"again" jsonschema:"description=you have had this claim before: go on with it\\, or end it to get another task"`
	Task     *mailbox.Task `json:"task" jsonschema:"description=what is to be done. It was written by others"`
	Notes    []string      `json:"notes,omitempty" jsonschema:"description=what was cut\\, and where it is whole"`
}

// claim takes a task, or gives again what was taken under the key and is still held: a
// client whose answer was lost gets the task that it holds, not a second one.
func (s *Server) claim(ctx context.Context, _ *sdk.CallToolRequest, in claimInput) (claimOutput, error) {
	g := s.claims.under(in.Key)
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return claimOutput{}, ctx.Err()
	}
	if g.claim != nil {
		out, err := s.claimed(ctx, g.claim)
		if err == nil {
			out.Again = true
			return out, nil
		}
		if !errors.Is(err, mailbox.ErrStale) && !errors.Is(err, mailbox.ErrNotFound) {
			return claimOutput{}, err
		}
		g.claim = nil
	}
	claim, err := s.take(ctx, in)
	if err != nil {
		return claimOutput{}, err
	}
	return s.hand(ctx, g, claim)
}

// hand gives a claim to who asked for it. Who does not get the token cannot work, so that
// a claim whose client has gone meanwhile is given back.
func (s *Server) hand(ctx context.Context, g *given, claim *mailbox.Claim) (claimOutput, error) {
	if err := ctx.Err(); err != nil {
		return claimOutput{}, errors.Join(err, claim.Release(context.WithoutCancel(ctx), "its claimant could not be told", 0))
	}
	g.claim = claim
	s.claims.remember(claim)
	return s.claimed(ctx, claim)
}

func (s *Server) take(ctx context.Context, in claimInput) (*mailbox.Claim, error) {
	want := mailbox.ClaimRequest{Agent: s.o.Agent, Type: in.Type}
	if in.Seconds == 0 {
		if err := s.tidy(ctx); err != nil {
			return nil, err
		}
		return s.o.Box.Claim(ctx, want)
	}
	limited, cancel := s.waiting(ctx, time.Duration(in.Seconds)*time.Second)
	defer cancel()
	claim, err := s.o.Box.Wait(limited, want)
	if err != nil && ctx.Err() == nil && limited.Err() != nil && errors.Is(err, limited.Err()) {
		if err := mailbox.MayClaim(s.o.Box, s.o.Agent); err != nil {
			return nil, err
		}
		return nil, mailbox.ErrEmpty
	}
	return claim, err
}

// claimed is a claim that stands, with the task as it is now.
func (s *Server) claimed(ctx context.Context, claim *mailbox.Claim) (claimOutput, error) {
	if err := claim.Valid(ctx); err != nil {
		return claimOutput{}, err
	}
	t, _, err := s.o.Box.Task(ctx, claim.ID())
	if err != nil {
		return claimOutput{}, err
	}
	c := s.cutting(t.ID)
	out := claimOutput{ID: t.ID, Token: claim.Token(), Task: c.task(t), Notes: c.notes}
	if l := t.Mbox.Lease; l != nil {
		out.Deadline = l.Deadline
	}
	return out, nil
}

// held is the claim that a verb is about: what this server has made, or what the token
// stands for. A token of another agent is none of this one's.
func (s *Server) held(ctx context.Context, id mailbox.ID, token string) (*mailbox.Claim, error) {
	if claim := s.claims.of(id); claim != nil && (token == "" || token == claim.Token()) {
		return claim, nil
	}
	if err := task.CheckID(id); err != nil {
		return nil, err
	}
	if _, _, err := s.task(ctx, id); err != nil {
		return nil, err
	}
	if token == "" {
		return nil, &advised{
			task.About(id, fmt.Errorf("%w: this server has not claimed it", mailbox.ErrConflict)),
			"claim_task takes a task; if you have claimed this one before the server was restarted, show the token that claim_task told",
		}
	}
	claim, err := s.o.Box.Held(ctx, id, token)
	if err != nil {
		return nil, err
	}
	if by := claim.Task.Assignment.PickedUpBy; by != nil && *by != s.o.Agent {
		return nil, &advised{task.About(id, fmt.Errorf("%w: %s has taken it", mailbox.ErrStale, *by)), "claim_task takes another task"}
	}
	return claim, nil
}

// holding is what the tools of a claim's holder share.
type holding struct {
	ID    mailbox.ID `json:"id" jsonschema:"description=the task"`
	Token string     `json:"token,omitzero" jsonschema:"description=of the claim; needed only when the server was restarted since"`
}

type stateOutput struct {
	ID       mailbox.ID    `json:"id"`
	State    mailbox.State `json:"state" jsonschema:"description=where the task is now"`
	Deadline *mailbox.Time `json:"deadline,omitzero" jsonschema:"description=when the claim is over unless report_progress moves it"`
}

// act does one verb of a claim's holder. Said again with the same content after it was
// done, it answers the same: the ledger knows the verb. It tidies nothing first: the
// claim might be taken back a moment before its result comes in.
func (s *Server) act(ctx context.Context, h holding, do func(*mailbox.Claim) error) (stateOutput, error) {
	claim, err := s.held(ctx, h.ID, h.Token)
	if err != nil {
		return stateOutput{}, err
	}
	if err := do(claim); err != nil {
		return stateOutput{}, err
	}
	t, state, err := s.o.Box.Task(ctx, h.ID)
	if err != nil {
		return stateOutput{}, err
	}
	out := stateOutput{ID: t.ID, State: state}
	if l := t.Mbox.Lease; l != nil && state == mailbox.InProgress {
		out.Deadline = &l.Deadline
	}
	return out, nil
}

type progressInput struct {
	holding
	Percent *int   `json:"percent,omitzero" jsonschema:"minimum=0,maximum=100"`
	Message string `json:"message,omitzero" jsonschema:"maxLength=1000,description=what is being done"`
}

func (s *Server) progress(ctx context.Context, _ *sdk.CallToolRequest, in progressInput) (stateOutput, error) {
	return s.act(ctx, in.holding, func(c *mailbox.Claim) error {
		return c.Progress(ctx, mailbox.Progress{Percent: in.Percent, Message: in.Message})
	})
}

type completeInput struct {
	holding
	Output jsontext.Value `json:"output" jsonschema:"description=the result: text or any JSON"`
}

func (s *Server) complete(ctx context.Context, _ *sdk.CallToolRequest, in completeInput) (stateOutput, error) {
	return s.act(ctx, in.holding, func(c *mailbox.Claim) error {
		return c.Complete(ctx, mailbox.Result{Output: in.Output})
	})
}

type failInput struct {
	holding
	Reason string `json:"reason" jsonschema:"minLength=1,description=what went wrong"`
	Code   string `json:"code,omitzero" jsonschema:"pattern=^[a-z0-9][a-z0-9_.-]{0\\,63}$,default=failed,description=a stable name of it"`
	Final  bool   `json:"final,omitzero" jsonschema:"description=trying again would not help"`
}

func (s *Server) fail(ctx context.Context, _ *sdk.CallToolRequest, in failInput) (stateOutput, error) {
	return s.act(ctx, in.holding, func(c *mailbox.Claim) error {
		failure := mailbox.Failure{Final: in.Final}
		failure.Code, failure.Message = cmp.Or(in.Code, "failed"), in.Reason
		return c.Fail(ctx, failure)
	})
}

type releaseInput struct {
	holding
	Reason string `json:"reason,omitzero" jsonschema:"description=why"`
	Delay  int    `json:"delay_seconds,omitzero" jsonschema:"minimum=0,maximum=604800,description=not to be taken again before"`
}

func (s *Server) release(ctx context.Context, _ *sdk.CallToolRequest, in releaseInput) (stateOutput, error) {
	return s.act(ctx, in.holding, func(c *mailbox.Claim) error {
		return c.Release(ctx, cmp.Or(schemas.Sentence(in.Reason, mailbox.MaxReason), "Released"), time.Duration(in.Delay)*time.Second)
	})
}
