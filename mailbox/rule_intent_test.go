package mailbox

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"mbox/mailbox/durable"
	"mbox/mailbox/home"
)

// A slot is blank when it holds init's spaces, and nothing else: NULs, a slot that is
// cut short, a wrong sum are damage, and mean that everything is recovered.
func TestRule30_DamagedSlots(t *testing.T) {
	record := home.Intent{Kind: "note", Name: "a name", TX: zeroTX, PID: 1}
	record.At.Checksum = "sha256:0"
	good := record.Encode()
	for name, slot := range map[string][]byte{
		"NULs":           make([]byte, home.SlotSize),
		"a NUL":          append([]byte{0}, home.BlankSlot[1:]...),
		"a wrong sum":    bytes.Replace(good, []byte("note"), []byte("task"), 1),
		"without a sum":  home.SlotOf(strings.Join(strings.Fields(string(good))[:9], " ")),
		"of an old mbox": bytes.Replace(good, []byte("intent"), []byte("dirty "), 1),
		"more behind it": append(good[:home.SlotSize-2:home.SlotSize-2], 'x', '\n'),
		"cut short":      nil,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, Options{})
			sent(t, b, "x")
			if slot == nil {
				must(t, os.Truncate(home.IntentsPath(b.home), int64(home.SlotSize*home.Shard("x")+9)))
			} else {
				b.slot(t, home.Shard("x"), slot)
			}
			if s, err := b.tryShard(t.Context(), home.Shard("x")); err == nil {
				s.unlock()
				t.Fatal("the shard is given")
			} else if !errors.Is(err, home.ErrDamagedIntent) {
				t.Fatal(err)
			}
			must(t, put(home.Private(b.home, "tmp", "t9~"+zeroTX), "{}"))
			again := opened(t, b.home, b.o)
			if left, _ := home.StagedNames(b.home); len(left) > 0 {
				t.Errorf("not recovered: %q", left)
			}
			if all, err := again.intents.Filled(); err != nil || len(all) > 0 {
				t.Errorf("%+v (%v)", all, err)
			}
			sent(t, again, "y")
		})
	}
	if d, set, err := home.DecodeIntent(good); err != nil || !set || d != record {
		t.Errorf("%+v %v %v", d, set, err)
	}
	if _, set, err := home.DecodeIntent(home.BlankSlot); set || err != nil {
		t.Errorf("the blank one: %v %v", set, err)
	}
}

// Who has lost his lock blanks nobody else's record.
func TestRule30_OnlyTheOwnRecordIsBlanked(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "x")
	s, err := b.lockShard(t.Context(), "x")
	must(t, err)
	defer s.unlock()
	must(t, s.mark(home.Intent{Kind: "note", Name: "coder", TX: zeroTX, At: b.ledger.End()}))
	another := home.Intent{Kind: "note", Name: "tester", TX: strings.Repeat("1", 32), At: b.ledger.End()}
	b.slot(t, s.number, another.Encode())
	must(t, s.clean())
	if d, set, err := b.intents.Read(s.number); err != nil || !set || d != another {
		t.Errorf("the slot has %+v %v %v", d, set, err)
	}
	b.slot(t, s.number, home.BlankSlot)
}

// Who stood still before his record, and whose lock was lost meanwhile, writes over the
// record of whoever has it now. If that one is killed too, he is finished all the
// same: the other knows from the refusal of his line that nothing can be known.
func TestRule30_RecordOverAnothers(t *testing.T) {
	b := newBox(t, Options{})
	c, held := b.heldTwice(t)
	err := stoppedAt(t, durable.OpWriteAt, ".mbox/intents", func() error {
		return c.Complete(t.Context(), Result{Output: []byte(`"the stopped"`)})
	}, func() {
		b.lose(t, only(home.ShardName(home.Shard("x"))))
		killedAtMove(t, 1, func() error { return held.Complete(t.Context(), Result{Output: []byte(`"the other"`)}) })
	})
	if !errors.Is(err, durable.ErrReplaced) {
		t.Errorf("it was not refused: %v", err)
	}
	again := opened(t, b.home, b.o)
	if at := said(t, again, "x"); at != Completed {
		t.Errorf("it is %s", at)
	}
	if _, err := os.Lstat(b.path("tasks", "completed", "x.json")); err != nil {
		t.Error(err)
	}
	whole(t, b.home)
}

// A record that nobody can read any more announces nothing: whose intents were
// replaced under him writes no line.
func TestRule31_IntentsReplaced(t *testing.T) {
	b := newBox(t, Options{})
	before := len(lines(t, b, ""))
	err := stoppedAt(t, durable.OpCreate, ".mbox/tmp/x~", sendX(t, b), func() {
		data, err := os.ReadFile(home.IntentsPath(b.home))
		must(t, errors.Join(err, os.Remove(home.IntentsPath(b.home)), os.WriteFile(home.IntentsPath(b.home), data, 0o600)))
	})
	if !errors.Is(err, durable.ErrReplaced) || !errors.Is(err, ErrIntegrity) {
		t.Errorf("it was not refused: %v", err)
	}
	if now := len(lines(t, b, "")); now != before {
		t.Errorf("%d lines, there were %d", now, before)
	}
	opened(t, b.home, b.o)
	sent(t, b, "x")
}
