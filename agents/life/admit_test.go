package life

import (
	"testing"
	"time"

	"mbox/mailbox"
	"mbox/mailbox/lifecycle"
)

// One that nobody here runs is let in, and has no pulse before it says one itself: then it
// is missed. One that has begun already keeps its pulse.
func TestAdmit(t *testing.T) {
	b := newBox(t)
	must(t, Birth(t.Context(), b, newborn("ada")))
	stale := func(run bool) bool {
		_, is := Seen(b, "ada").Stale(b.Options().Now().Add(time.Hour), time.Second, run)
		return is
	}
	must(t, Admit(t.Context(), b, "ada", "human"))
	a, err := mailbox.AgentOf(b, "ada")
	must(t, err)
	if s := Seen(b, "ada"); a.State != lifecycle.Healthy || a.By != "human" || s.LastPulseAt != nil || s.Status != "healthy" {
		t.Errorf("%+v %+v", a, s)
	}
	if stale(false) || !stale(true) {
		t.Error("who has never had a pulse is missed only where a worker was to say it")
	}
	must(t, Pulse(t.Context(), b, "ada", "v", false))
	must(t, Admit(t.Context(), b, "ada", "human"))
	if !stale(false) {
		t.Error("its pulse stays away, and nobody misses it")
	}
}
