package mcp

import (
	"context"
	"errors"
	"fmt"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/task"
)

// sight is what one request may see. It remembers what it has judged.
type sight struct {
	s     *Server
	trees map[mailbox.ID]bool
	tasks map[string]bool
}

func (s *Server) sight() *sight {
	return &sight{s, map[mailbox.ID]bool{}, map[string]bool{}}
}

// sees tells whether the client may see a task: one that its agent sent, that names it
// or any, that it claimed, or one of a tree with such a task.
func (v *sight) sees(ctx context.Context, t *mailbox.Task) (bool, error) {
	if v.s.concerns(t) {
		return true, nil
	}
	if t.Mbox.RootID == "" {
		return false, nil
	}
	root := t.Root()
	if known, ok := v.trees[root]; ok {
		return known, nil
	}
	yes, err := v.seesTree(ctx, root)
	if err == nil {
		v.trees[root] = yes
	}
	return yes, err
}

func (v *sight) seesTree(ctx context.Context, root mailbox.ID) (bool, error) {
	tree, err := v.s.o.Box.Tree(ctx, root)
	if err != nil {
		return false, ignoreMissing(err)
	}
	for _, n := range tree.Nodes {
		t, _, err := v.s.o.Box.Task(ctx, n.ID)
		if err != nil && !errors.Is(err, mailbox.ErrNotFound) {
			return false, err
		}
		if t != nil && v.s.concerns(t) {
			return true, nil
		}
	}
	return false, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, mailbox.ErrNotFound) {
		return nil
	}
	return err
}

// concerns tells whether a task is the client's by itself.
func (s *Server) concerns(t *mailbox.Task) bool {
	a := s.o.Agent
	by := t.Assignment.PickedUpBy
	return a == "" || t.Source.Agent == a || t.Assignment.TargetAgent == a || t.Assignment.TargetAgent == "any" || by != nil && *by == a
}

// seesTask is sees by id, for lines and records.
func (v *sight) seesTask(ctx context.Context, id string) (bool, error) {
	if known, ok := v.tasks[id]; ok {
		return known, nil
	}
	t, _, err := v.s.o.Box.Task(ctx, mailbox.ID(id))
	if err != nil {
		return false, ignoreMissing(err)
	}
	yes, err := v.sees(ctx, t)
	if err == nil {
		v.tasks[id] = yes
	}
	return yes, err
}

// seesLine tells whether the client may see a ledger line: its agent's own, and those
// about tasks that it may see.
func (v *sight) seesLine(ctx context.Context, l audit.Line) (bool, error) {
	switch {
	case v.s.o.Agent == "" || l.Agent() == v.s.o.Agent:
		return true, nil
	case l.Task() == "":
		return false, nil
	}
	return v.seesTask(ctx, l.Task())
}

// seesRecord tells the same of a record.
func (v *sight) seesRecord(ctx context.Context, agent, id string) (bool, error) {
	switch {
	case v.s.o.Agent == "" || agent == v.s.o.Agent:
		return true, nil
	case id == "":
		return false, nil
	}
	return v.seesTask(ctx, id)
}

// task reads a task that the client may see. Any other one is not found.
func (s *Server) task(ctx context.Context, id mailbox.ID) (*mailbox.Task, mailbox.State, error) {
	t, state, err := s.o.Box.Task(ctx, id)
	if err != nil {
		return nil, "", err
	}
	yes, err := s.sight().sees(ctx, t)
	if err != nil {
		return nil, "", err
	}
	if !yes {
		return nil, "", task.About(id, mailbox.ErrNotFound)
	}
	return t, state, nil
}

// tidy does what a running router would have done.
func (s *Server) tidy(ctx context.Context) error {
	if err := s.o.Box.Tidy(ctx); err != nil {
		return fmt.Errorf("the mailbox cannot be tidied: %w", err)
	}
	return nil
}
