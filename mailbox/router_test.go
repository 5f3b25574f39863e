package mailbox

import (
	"context"
	"sync"
	"testing"
	"time"

	"mbox/mailbox/durable"
	"mbox/mailbox/home"
)

// While a router gives signs of life the others leave its work to it. One that stands
// still, as behind Ctrl-Z, has its work done by whoever comes.
func TestHaltedRouter(t *testing.T) {
	b := newBox(t, Options{})
	path := home.LockPath(b.home, "routing")
	router, err := durable.TryLock(path)
	must(t, err)
	unlock := sync.OnceFunc(func() { router.Unlock() })
	defer unlock()
	admitted := func(id string) bool {
		t.Helper()
		b.drop(t, id+".json", titled(""))
		must(t, b.Tidy(t.Context()))
		known, err := Heard(b, ID(id))
		must(t, err)
		return known
	}
	must(t, durable.Touch(path, time.Now()))
	if admitted("first") || !b.Routed() || Halted(b) {
		t.Error("the router's work was done by another")
	}
	for _, at := range []time.Time{time.Now().Add(-time.Minute), time.Now().Add(time.Minute)} {
		must(t, durable.Touch(path, at))
		if b.Routed() || !Halted(b) {
			t.Errorf("a router whose last sign was at %s counts as alive", at)
		}
	}
	if !admitted("second") {
		t.Error("nobody has done the work of a router that stands still")
	}
	unlock()
	if b.Routed() || Halted(b) {
		t.Error("there is none any more")
	}

	must(t, durable.Touch(path, time.Now().Add(-time.Hour)))
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- b.Route(ctx, RouterOptions{Ready: func() {
			if !b.Routed() {
				t.Error("one that has just begun gives no sign of life")
			}
			end()
		}})
	}()
	must(t, <-ended)
}
