package keyring

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mbox/agents/secret/keyring/keyringtest"
)

// The keyring is a real one.
func TestSystem(t *testing.T) {
	keyringtest.Use(t)
	const text = "# a comment\nAGE-SECRET-KEY-1\n"
	k := System{}
	if got, err := k.Get(t.Context(), "one"); got != "" || !errors.Is(err, ErrUnknown) {
		t.Errorf("before it is set: %q, %v", got, err)
	}
	for _, text := range []string{"first", text} {
		if err := k.Set(t.Context(), "one", text); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := k.Get(t.Context(), "one"); got != text || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := k.Get(t.Context(), "two"); !errors.Is(err, ErrUnknown) {
		t.Errorf("of another account: %v", err)
	}
	for range 2 {
		if err := k.Delete(t.Context(), "one"); err != nil {
			t.Error(err)
		}
	}
	if _, err := k.Get(t.Context(), "one"); !errors.Is(err, ErrUnknown) {
		t.Errorf("after it is deleted: %v", err)
	}
}

// Without a D-Bus none is started, and one without a keyring is told.
func TestNone(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+t.TempDir()+"/none")
	if err := (System{}).Set(t.Context(), "one", "text"); !errors.Is(err, ErrUnreachable) {
		t.Error(err)
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "autolaunch:")
	t.Setenv("PATH", "")
	if err := (System{}).Set(t.Context(), "one", "text"); !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), "dbus-launch") {
		t.Error(err)
	}
}

// A call that is not answered ends by its time or its context, and those after it wait no
// longer, and ask nothing meanwhile.
func TestSilent(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/none")
	answer, asked := make(chan struct{}), atomic.Int32{}
	silent := func() (string, error) {
		asked.Add(1)
		<-answer
		return "", nil
	}
	for range 3 {
		if _, err := call(t.Context(), 10*time.Millisecond, silent); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "locked") {
			t.Error(err)
		}
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := call(stopped, time.Hour, silent); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	close(answer)
	if text, err := call(t.Context(), time.Minute, func() (string, error) { return "text", nil }); text != "text" || err != nil {
		t.Errorf("after it is answered: %q, %v", text, err)
	}
}
