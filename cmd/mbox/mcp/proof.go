package mcp

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/verify"
)

func (s *Server) addProof() {
	add(s, tool{name: "tail_ledger", title: "Read the ledger", reads: true, about: `Show the last lines of the ledger that you may see, oldest first. before pages backwards.`}, s.tail)
	add(s, tool{name: "verify", title: "Verify the mailbox", reads: true, about: `Recompute every hash of the ledger, and compare it with every file. faults is 0 where all is well. Keep seq and checksum: they prove later that nothing was rolled back.`}, s.verify)
}

type tailInput struct {
	N      *int          `json:"n,omitzero" jsonschema:"minimum=1,maximum=200,default=20,description=how many lines at most"`
	Before int64         `json:"before,omitzero" jsonschema:"minimum=1,description=only lines before this seq"`
	Agent  string        `json:"agent,omitzero" jsonschema:"minLength=1,description=only lines of this agent"`
	Task   string        `json:"task,omitzero" jsonschema:"minLength=1,description=only lines of this task"`
	Events []audit.Event `json:"events,omitempty" jsonschema:"description=only these events\\, such as task_completed"`
}

type tailOutput struct {
	Entries []audit.Entry `json:"entries"`
	More    bool          `json:"more" jsonschema:"description=there may be earlier ones: call again with before"`
}

func (s *Server) tail(ctx context.Context, _ *sdk.CallToolRequest, in tailInput) (tailOutput, error) {
	if err := s.tidy(ctx); err != nil {
		return tailOutput{}, err
	}
	leave, err := inTurn(ctx, s.search)
	if err != nil {
		return tailOutput{}, err
	}
	defer leave()
	most := 20
	if in.N != nil {
		most = *in.N
	}
	out, v, size := tailOutput{Entries: []audit.Entry{}}, s.sight(), 0
	from := int64(math.MaxInt64)
	if in.Before > 0 {
		from = in.Before - 1
	}
	for line, err := range s.o.Box.Ledger().BackwardFrom(from) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return out, err
		}
		if !in.wants(line) {
			continue
		}
		yes, err := v.Line(ctx, line)
		if err != nil {
			return out, err
		}
		if !yes {
			continue
		}
		e, err := line.Decode()
		if err != nil {
			return out, err
		}
		out.Entries = append(out.Entries, e)
		if size += len(line.Raw); len(out.Entries) == most || size > maxLines {
			out.More = true
			break
		}
	}
	slices.Reverse(out.Entries)
	return out, nil
}

func (in *tailInput) wants(l audit.Line) bool {
	return (in.Agent == "" || l.Agent() == in.Agent) &&
		(in.Task == "" || strings.EqualFold(l.Task(), in.Task)) &&
		(len(in.Events) == 0 || slices.Contains(in.Events, l.Event()))
}

type verifyInput struct {
	LedgerOnly bool `json:"ledger_only,omitzero" jsonschema:"description=check the ledger and the agents' copies\\, not the files"`
}

type verifyOutput struct {
	Faults   int              `json:"faults" jsonschema:"description=how many invariants do not hold"`
	First    []verify.Finding `json:"first,omitempty" jsonschema:"description=the first of them; an agent is told their number alone"`
	Lines    int64            `json:"lines"`
	Tasks    int64            `json:"tasks"`
	Records  int64            `json:"records"`
	Seq      int64            `json:"seq" jsonschema:"description=of the ledger's last line"`
	Checksum string           `json:"checksum" jsonschema:"description=of the ledger's last line"`
	Gone     string           `json:"gone,omitzero" jsonschema:"description=why the mailbox has stopped\\, or will"`
}

func (s *Server) verify(ctx context.Context, _ *sdk.CallToolRequest, in verifyInput) (verifyOutput, error) {
	leave, err := inTurn(ctx, s.prove)
	if err != nil {
		return verifyOutput{}, err
	}
	defer leave()
	box := s.o.Box
	r, err := verify.Home(ctx, box.Home(), verify.Options{LedgerOnly: in.LedgerOnly, Wait: box.Options().LockWait})
	if err != nil {
		return verifyOutput{}, err
	}
	out := verifyOutput{Faults: len(r.Findings), Lines: r.Lines, Tasks: r.Tasks, Records: r.Records, Seq: r.Seq, Checksum: r.Checksum}
	if s.o.Agent == "" {
		out.First, out.Gone = r.Findings[:min(len(r.Findings), maxSteps)], r.Gone
	}
	return out, nil
}

// happened waits for a line about the task behind the place, or for so long, and tells
// whether there was one.
func (s *Server) happened(ctx context.Context, at audit.Position, id mailbox.ID, most time.Duration) (bool, error) {
	limited, cancel := s.waiting(ctx, most)
	defer cancel()
	happened, err := mailbox.Happens(limited, s.o.Box, at, id)
	return happened, cmp.Or(err, ctx.Err())
}

// waiting bounds a wait by a time, and by the stay of the client.
func (s *Server) waiting(ctx context.Context, most time.Duration) (context.Context, func()) {
	limited, cancel := context.WithTimeout(ctx, most)
	stop := context.AfterFunc(s.stays, cancel)
	return limited, func() { stop(); cancel() }
}
