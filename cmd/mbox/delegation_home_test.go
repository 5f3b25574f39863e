package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// treeConfig has chiefs of their own above the coordinator, so that a delegation
// can be three deep without a circle; the one is left to those who claim by hand.
const treeConfig = `retry_base = "1ms"
poll_interval = "1s"
[agents.lead]
role = "coordinator"
risk_profile = "coordinator"
delegates = ["coordinator", "coder", "tester"]
[agents.lead.workspace.access]
coder = "read"
[agents.sower]
role = "coordinator"
risk_profile = "coordinator"
delegates = ["coordinator", "coder", "tester"]
[agents.sower.workspace.access]
coder = "read"
[runtime_profiles.default]
max_actions_per_hour = 1000000
`

// treeAgents are those that work in a tree, the leaves first.
var treeAgents = []string{"coder", "tester", "coordinator", "lead", "sower"}

// chain is a task for whom that makes the coordinator make the coder write a
// file; without lead the first step is left out.
func chain(id, path string, lead bool) string {
	leaf := fmt.Sprintf(`{"role":"coder","task":"write_file","payload":{"path":%q,"content":%q}}`, path, id)
	to, params := "coordinator", leaf
	if lead {
		to, params = "lead", `{"role":"coordinator","task":"delegate","payload":`+leaf+`}`
	}
	return fmt.Sprintf(`{"id":%q,"task":{"title":"hand on","type":"action"},"assignment":{"target_agent":%q},"mbox":{"action":{"name":"delegate","params":%s}}}`, id, to, params)
}

// treeTask is a task file, as far as the oracle reads it.
type treeTask struct {
	ID         string
	Assignment struct {
		Target string `json:"target_agent"`
	}
	Result struct {
		Status string
		Error  *struct{ Code, Message string }
	}
	Mbox struct {
		ParentID string   `json:"parent_id"`
		RootID   string   `json:"root_id"`
		WaitsFor []string `json:"waits_for"`
		Join     string
		Action   *struct {
			Name   string
			Params struct{ Path, Content string }
		}
	}
}

// forestSeen is what a home holds of trees, read without mbox.
type forestSeen struct {
	home      string
	tasks     map[string]*treeTask
	completed map[string]int            // lines
	debited   map[string]map[string]int // root → kind → sum of what was spent
	acted     map[string]int            // root → delivered actions that are not delegations
}

func seeForest(home string) (*forestSeen, error) {
	f := &forestSeen{home, map[string]*treeTask{}, map[string]int{}, map[string]map[string]int{}, map[string]int{}}
	for _, folder := range []string{"pending", "in-progress", "completed", "failed"} {
		names, err := filepath.Glob(filepath.Join(home, "tasks", folder, "*.json"))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			t := new(treeTask)
			data, err := os.ReadFile(name)
			if err := errors.Join(err, json.Unmarshal(data, t)); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if t.Result.Status = folder; f.tasks[t.ID] != nil {
				return nil, fmt.Errorf("%s lies in two folders", t.ID)
			}
			f.tasks[t.ID] = t
		}
	}
	days, err := filepath.Glob(filepath.Join(home, "audit", "shared", "*.jsonl"))
	if err != nil {
		return nil, err
	}
	for _, day := range days {
		data, err := os.ReadFile(day)
		if err != nil {
			return nil, err
		}
		in := bufio.NewScanner(bytes.NewReader(data))
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			f.line(in.Bytes())
		}
	}
	return f, nil
}

func (f *forestSeen) line(raw []byte) {
	var e struct {
		Event   string
		TaskID  string `json:"task_id"`
		Details struct {
			To       *string
			Root     string
			Decision string
			Did      string `json:"result_summary"` // of an action that was done
			Spent    map[string]int
		}
	}
	if json.Unmarshal(raw, &e) != nil {
		return // what a kill tore is verify's
	}
	if e.Details.To != nil && *e.Details.To == "completed" {
		f.completed[e.TaskID]++
	}
	if e.Details.Root == "" {
		return
	}
	for kind, n := range e.Details.Spent {
		if f.debited[e.Details.Root] == nil {
			f.debited[e.Details.Root] = map[string]int{}
		}
		f.debited[e.Details.Root][kind] += n
	}
	if e.Event == "delegation" && e.Details.Decision == "delivered" && e.Details.Did != "" {
		f.acted[e.Details.Root]++
	}
}

// live tells how many tasks have not ended.
func (f *forestSeen) live() (n int) {
	for _, t := range f.tasks {
		if t.Result.Status == "pending" || t.Result.Status == "in-progress" {
			n++
		}
	}
	return n
}

// orphans wants no live child for which its parent does not wait. It is asked
// when nobody works, and somebody has looked at what the dead left.
func (f *forestSeen) orphans() error {
	for id, t := range f.tasks {
		if t.Mbox.ParentID == "" || t.Result.Status != "pending" && t.Result.Status != "in-progress" {
			continue
		}
		parent := f.tasks[t.Mbox.ParentID]
		if parent == nil || parent.Result.Status != "pending" && parent.Result.Status != "in-progress" || !slices.Contains(parent.Mbox.WaitsFor, id) {
			return fmt.Errorf("%s is %s, and its parent %s does not wait for it", id, t.Result.Status, t.Mbox.ParentID)
		}
	}
	return nil
}

// judge wants what has to hold when everybody has worked: nothing is left alive,
// nothing was completed twice, whoever completed has all its children completed
// and its file written, and what is no child that counts has failed.
func (f *forestSeen) judge() error {
	counts := map[string]bool{}
	for _, t := range f.tasks {
		for _, child := range t.Mbox.WaitsFor {
			counts[child] = true
		}
	}
	var wrong []error
	for id, t := range f.tasks {
		switch status := t.Result.Status; {
		case status == "pending" || status == "in-progress":
			wrong = append(wrong, fmt.Errorf("%s of %s is %s for ever", id, t.Mbox.ParentID, status))
		case f.completed[id] > 1, status == "completed" && f.completed[id] != 1:
			wrong = append(wrong, fmt.Errorf("%s is %s and was completed %d times", id, status, f.completed[id]))
		case t.Mbox.ParentID != "" && !counts[id] && status == "completed" && f.tasks[t.Mbox.ParentID] != nil && f.tasks[t.Mbox.ParentID].Result.Status == "completed":
			// It ended before its parent's worker was found dead: its effect is the same.
		case status == "completed":
			wrong = append(wrong, f.effect(t))
		}
	}
	for root, n := range f.acted {
		if f.debited[root]["actions"] < n {
			wrong = append(wrong, fmt.Errorf("the tree of %s did %d actions and was debited %v", root, n, f.debited[root]))
		}
	}
	return errors.Join(wrong...)
}

// effect wants what a completed task says it did.
func (f *forestSeen) effect(t *treeTask) error {
	well := 0
	for _, id := range t.Mbox.WaitsFor {
		if child := f.tasks[id]; child != nil && child.Result.Status == "completed" {
			well++
		}
	}
	least := map[string]int{"any": 1, "quorum": len(t.Mbox.WaitsFor)/2 + 1, "all": len(t.Mbox.WaitsFor)}
	if len(t.Mbox.WaitsFor) > 0 && well < least[t.Mbox.Join] {
		return fmt.Errorf("%s is completed, and of its children %v only %d are; it waited for %s", t.ID, t.Mbox.WaitsFor, well, t.Mbox.Join)
	}
	a := t.Mbox.Action
	switch {
	case a == nil || a.Name == "file_check":
		return nil
	case a.Name == "delegate" && len(t.Mbox.WaitsFor) == 0:
		return fmt.Errorf("%s is completed, and handed nothing on", t.ID)
	case a.Name != "write_file":
		return nil
	}
	data, err := os.ReadFile(filepath.Join(f.home, "agents", t.Assignment.Target, "workspace", "projects", a.Params.Path))
	if err == nil && !strings.Contains(string(data), a.Params.Content) {
		err = fmt.Errorf("%s holds %q, want %q", a.Params.Path, data, a.Params.Content)
	}
	return err
}
