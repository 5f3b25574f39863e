package acp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"mbox/agents/policy"
	"mbox/mailbox"
)

// did are the ledger's lines about what was asked for in a task, the first first.
func (s *scene) did(id mailbox.ID) (lines []string) {
	s.Helper()
	for line, err := range s.box.Ledger().LinesOf(string(id)) {
		if err != nil {
			s.Fatal(err)
		}
		if line.Detail("decision") == nil || line.Detail("request_id") == nil {
			continue // no delegation
		}
		e, err := line.Decode()
		var d struct {
			Task     string `json:"task"`
			Decision string `json:"decision"`
			Result   string `json:"result_summary"`
			Spent    struct {
				Actions int64 `json:"actions"`
			} `json:"spent"`
		}
		if err != nil || e.Detail(&d) != nil {
			s.Fatal(err)
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprint(d.Task, " ", d.Decision, " ", d.Spent.Actions, " ", d.Result)))
	}
	slices.Reverse(lines)
	return lines
}

// allows sets how many actions the scene's agent may do in an hour.
func (s *scene) allows(actions int) {
	profile := policy.DefaultRuntimeProfile()
	profile.MaxActionsPerHour = actions
	s.team.Policies.RuntimeProfiles["default"] = profile
}

// Files and commands that a program asks for are actions: each counts, and stands in
// the ledger, reads by their number.
func TestRequestsAreActions(t *testing.T) {
	s := newScene(t, "busy")
	s.allows(1000)
	id := s.send("x")
	s.works()
	if got := s.answer(id).Answer; got != "0 refused: " {
		t.Error(got)
	}
	want := []string{"write_file delivered 1", "read_file delivered 0 100 reads", "terminal delivered 1", "read_file delivered 0 50 reads"}
	if got := s.did(id); !slices.Equal(got, want) {
		t.Errorf("the ledger has %q, want %q", got, want)
	}
	if n := s.team.Actions.Used("claude"); n != 152 {
		t.Errorf("%d actions count", n)
	}
}

// Whose hour is used up is refused, whatever it asks for.
func TestRequestsBeyondTheHour(t *testing.T) {
	s := newScene(t, "busy")
	s.allows(3)
	id := s.send("x")
	s.works()
	if got := s.answer(id).Answer; !strings.HasPrefix(got, "149 refused: ") || !strings.Contains(got, "3 of 3 actions in the last hour") {
		t.Error(got)
	}
	if got := s.did(id); got[0] != "write_file delivered 1" || got[1] != "read_file rejected 0" || got[len(got)-1] != "read_file delivered 0 2 reads" || s.team.Actions.Used("claude") != 3 {
		t.Errorf("the ledger has %q", got)
	}
}
