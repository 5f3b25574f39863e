package mailbox

import (
	"maps"
	"os"
	"strings"
	"testing"

	"mbox/audit"
)

// Whatever is damaged, and however much of it: a second recovery changes nothing
// and says what the first one said.
func TestRecoverTwice(t *testing.T) {
	v := newVandal(t, 1)
	stays := func(name string) bool { return !strings.HasPrefix(name, ".mbox/") }
	recover := func() (string, map[string]node) {
		_, err := Recover(t.Context(), v.dir, v.options(), RecoverOptions{})
		why := "well"
		if err != nil {
			_, why, _ = strings.Cut(err.Error(), audit.ErrDamaged.Error()) // at first it is an error, then the mark's reason
		}
		now := v.snapshot(stays)
		maps.DeleteFunc(now, func(name string, _ node) bool { return !stays(name) })
		return why, now
	}
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			v.t = t
			kind.do(v)
			if kind.name == "a task removed" { // two of them
				kind.do(v)
			}
			said, first := recover()
			again, second := recover()
			if said != again {
				t.Errorf("it said %q, then %q", said, again)
			}
			for name, n := range second {
				if first[name] != n {
					t.Errorf("%s was changed: %d bytes, then %d", name, len(first[name].text), len(n.text))
				}
			}
			if len(first) != len(second) {
				t.Errorf("%d files, then %d", len(first), len(second))
			}
		})
		v.t, v.wrote = t, map[string]bool{}
		for name, n := range v.clean {
			v.wrote[name] = n.mode.IsRegular()
		}
		v.restore()
	}
}

// Each lost task has one alarm, however often recovery comes by.
func TestRule21_RecoverLostTwice(t *testing.T) {
	b := homes{}.open(t, Options{})
	for _, id := range []ID{"a", "b", "c"} {
		sent(t, b, id)
		_, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
		must(t, err)
		must(t, os.Remove(b.path("tasks", "in-progress", id.File())))
	}
	for range 3 {
		_, err := Recover(t.Context(), b.home, b.o, RecoverOptions{})
		must(t, err)
	}
	for _, id := range []ID{"a", "b", "c"} {
		alarms := 0
		for _, e := range lines(t, b, id) {
			if e.Event == audit.ErrorEvent {
				alarms++
			}
		}
		if alarms != 1 {
			t.Errorf("%s has %d alarms", id, alarms)
		}
	}
}

// In the same boot, without a write error, bytes that are there were written: an
// older journal that is put back takes no line away.
func TestRule37_OlderJournalBlanksNothing(t *testing.T) {
	b := journaledBox(t)
	submitted(t, b)
	journal, err := os.ReadFile(audit.JournalPath(b.home))
	must(t, err)
	for range 3 {
		must(t, b.Note(t.Context(), audit.Entry{Agent: "coder", Event: audit.PolicyDenied, Action: "coder may not"}))
	}
	path := onlyLedger(t, b.home)
	was, err := os.ReadFile(path)
	must(t, err)
	must(t, b.Close())
	must(t, os.WriteFile(audit.JournalPath(b.home), journal, 0o600))
	for range 2 {
		_, err := Recover(t.Context(), b.home, Options{}, RecoverOptions{})
		must(t, err)
		if now, err := os.ReadFile(path); err != nil || string(now) != string(was) {
			t.Fatalf("the ledger has %d bytes, it had %d (%v)", len(now), len(was), err)
		}
	}
	whole(t, b.home)
}
