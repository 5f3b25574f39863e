package lifecycle

import (
	"slices"
	"strings"
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox/task"
)

// Which state may follow on which: all that is not named here is refused.
func TestMoves(t *testing.T) {
	legal := []string{
		" provisioning",
		"provisioning healthy", "provisioning draining", "provisioning dead",
		"healthy paused", "healthy draining", "healthy dead",
		"paused healthy", "paused paused", "paused draining", "paused dead",
		"draining dead",
		"dead provisioning",
	}
	states := []State{Unborn, Provisioning, Healthy, Paused, Draining, Dead}
	for _, from := range states {
		for _, to := range states {
			move := string(from) + " " + string(to)
			if got := Legal(from, to); got != slices.Contains(legal, move) {
				t.Errorf("%s: legal is %t", move, got)
			}
		}
	}
	if Legal("asleep", Healthy) || Legal(Healthy, "asleep") {
		t.Error("a state that nobody knows can be left or entered")
	}
}

func entry(details string) *audit.Entry {
	return &audit.Entry{Agent: "human", Event: audit.AgentState, TS: "2026-11-22T10:00:00.000Z", Details: []byte(details)}
}

// What a line says is taken as it is, or as nothing: no line stops who reads it.
func TestMoveOf(t *testing.T) {
	good := `{"agent":"coder","before":"healthy","after":"paused","until":"2026-11-22T12:00:00Z","reason":"it\nhurts","uid":1}`
	e := entry(good)
	m, ok := MoveOf(e)
	all := map[string]Agent{}
	Fold(all, e, m)
	if a := all["coder"]; !ok || a.String() != "paused since 2026-11-22T10:00:00Z by human, until 2026-11-22T12:00:00Z: it hurts" {
		t.Errorf("%v %s", ok, a)
	}
	for _, change := range [][2]string{
		{`"coder"`, `"Coder"`},
		{`"coder"`, `"any"`},
		{`"coder"`, `7`},
		{`"coder"`, `"` + strings.Repeat("x", 65) + `"`},
		{`"healthy"`, `"dead"`},
		{`"healthy"`, `null`},
		{`"healthy"`, `["healthy"]`},
		{`"paused"`, `"asleep"`},
		{`"paused"`, `"dead"`}, // with an end
		{`"2026-11-22T12:00:00Z"`, `"soon"`},
		{`"2026-11-22T12:00:00Z"`, `"99999-11-22T12:00:00Z"`},
		{`"2026-11-22T12:00:00Z"`, `12`},
		{`"it\nhurts"`, `{}`},
		{`"reason"`, `"agent"`}, // twice
		{good, `[]`},
		{good, ``},
	} {
		if m, ok := MoveOf(entry(strings.Replace(good, change[0], change[1], 1))); ok || m != (Move{}) {
			t.Errorf("%s for %s is a move: %+v", change[1], change[0], m)
		}
	}
	e.Event = audit.ErrorEvent
	if _, ok := MoveOf(e); ok {
		t.Error("another event is a move")
	}
	m, ok = MoveOf(entry(strings.Replace(good, "hurts", strings.Repeat("x", 1000), 1)))
	if !ok || len([]rune(m.Reason)) != task.MaxReason {
		t.Errorf("a long reason has %d runes", len(m.Reason))
	}
}

// An agent of which nothing is known may claim, and a pause with an end ends by itself.
func TestAgentAt(t *testing.T) {
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	end := task.At(now.Add(time.Hour))
	paused, held := Agent{State: Paused, Until: &end}, Agent{State: Paused}
	for _, c := range []struct {
		agent  Agent
		at     time.Time
		claims bool
	}{
		{Agent{}, now, true},
		{Agent{State: Healthy}, now, true},
		{paused, now, false},
		{paused, end.Add(-time.Millisecond), false},
		{paused, end.Time, true},
		{held, now.Add(1000 * time.Hour), false},
		{Agent{State: Provisioning}, now, false},
		{Agent{State: Draining}, now, false},
		{Agent{State: Dead}, now, false},
	} {
		if got := c.agent.At(c.at).Claims(); got != c.claims {
			t.Errorf("%s at %s: claims %t", c.agent.State, c.at, got)
		}
	}
	for _, c := range []struct {
		agent Agent
		until time.Time
		want  bool
	}{
		{paused, end.Add(-time.Minute), true},
		{paused, end.Time, true},
		{paused, end.Add(time.Minute), false},
		{paused, time.Time{}, false},
		{held, end.Time, true},
		{held, time.Time{}, true},
		{Agent{State: Healthy}, end.Time, false},
		{Agent{}, end.Time, false},
	} {
		if got := c.agent.Outlasts(c.until); got != c.want {
			t.Errorf("%s outlasts %s: %t", c.agent, c.until, got)
		}
	}
}
