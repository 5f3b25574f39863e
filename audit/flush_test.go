package audit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mbox/mailbox/durable"
)

// What several processes write while another one flushes is brought to the disk by
// one flush more.
func TestRule24_FlushesAreShared(t *testing.T) {
	needJournal(t)
	home := newLedger(t, nil).home
	var processes []*Ledger
	for range 4 {
		l := openLedger(t, home, nil)
		appendNote(t, l, "coder", "one")
		l.journal.took.Store(int64(time.Minute)) // so that nobody runs out of patience
		processes = append(processes, l)
	}
	var flushes atomic.Int64
	begun, written := make(chan bool), make(chan bool)
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		if op == durable.OpSync && strings.HasSuffix(path, "journal") && flushes.Add(1) == 1 {
			close(begun)
			<-written
		}
		return true, nil
	})
	defer remove()
	var wg sync.WaitGroup
	write := func(l *Ledger) {
		wg.Go(func() {
			if _, err := l.Append(context.Background(), note("coder", "two")); err != nil {
				t.Error(err)
			}
		})
	}
	write(processes[0])
	<-begun
	for _, l := range processes[1:] {
		write(l)
	}
	for head := (Head{}); head.Seq < 8; {
		var err error
		head, err = processes[0].seeHead()
		must(t, err)
		runtime.Gosched()
	}
	close(written)
	wg.Wait()
	if n := flushes.Load(); n != 2 {
		t.Errorf("%d flushes: the first, and one for the three lines that were written meanwhile, are 2", n)
	}
}

// Who leads publishes no more than a flush has covered, also where another goroutine has
// flushed its line before.
func TestRule24_PublishesWhatWasFlushed(t *testing.T) {
	needJournal(t)
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	other := openLedger(t, l.home, nil)
	appendNote(t, other, "coder", "two")
	write := func(l *Ledger, text string) ticket {
		_, line, err := l.write(context.Background(), note("coder", text), Payload{}, nil)
		must(t, err)
		return line
	}
	leader, err := durable.TryLock(l.sync.Path())
	must(t, err)
	first, second := write(l, "three"), write(l, "four")
	must(t, l.flush(second)) // without the leader, who is slow
	behind := write(other, "five")
	must(t, leader.Unlock())
	got := steps(t, l, func() { must(t, errors.Join(l.flush(first), other.flush(behind))) })
	sameSteps(t, "one flush for both", got, "writeat .mbox/locks/sync", "sync .mbox/journal", "writeat .mbox/locks/sync")
}

// Where the mailbox becomes read-only while it is flushed, nobody is answered that
// his line is on disk, and nothing is published.
func TestRule26_ReadOnlyMeanwhile(t *testing.T) {
	needJournal(t)
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	before := readFlushed(openRead(t, l))
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		if op == durable.OpSync && path == JournalPath(l.home) {
			writeFile(t, ReadOnlyPath(l.home), []byte("another flush failed"))
		}
		return true, nil
	})
	defer remove()
	if _, err := l.Append(context.Background(), note("coder", "two")); !errors.Is(err, ErrReadOnly) {
		t.Error(err)
	}
	if after := readFlushed(openRead(t, l)); after.to != before.to {
		t.Errorf("published: %+v, it was %+v", after, before)
	}
}

func openRead(t *testing.T, l *Ledger) *os.File {
	t.Helper()
	f, err := os.Open(filepath.Join(l.home, ".mbox", "locks", "sync"))
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// A leader who is stopped holds nobody up, and who flushes for himself publishes
// nothing.
func TestRule27_StoppedLeader(t *testing.T) {
	needJournal(t)
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	path := filepath.Join(l.home, ".mbox", "locks", "sync")
	leader, err := durable.TryLock(path)
	must(t, err)
	before := readFile(t, path)
	acknowledged := make(chan error, 1)
	flushed := false
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		flushed = flushed || op == durable.OpSync && path == JournalPath(l.home)
		return true, nil
	})
	defer remove()
	go func() {
		_, err := l.Append(context.Background(), note("coder", "two"))
		acknowledged <- err
	}()
	select {
	case err := <-acknowledged:
		must(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for the leader")
	}
	if !flushed || string(readFile(t, path)) != string(before) {
		t.Errorf("flushed %v, and the record is %q, it was %q", flushed, readFile(t, path), before)
	}
	must(t, leader.Unlock())
}

// A stopped leader may have been told of an error that a descriptor opened after it
// is not told of. So who has opened the journal behind what is known to be on disk
// acknowledges by a checkpoint; after that nobody needs another.
func TestRule27_StoppedLeaderKnowsOfAnError(t *testing.T) {
	needJournal(t)
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	generation := l.head.Journal.Generation
	_, hers, err := l.write(context.Background(), note("coder", "two"), Payload{}, nil)
	must(t, err)
	leader, err := durable.TryLock(filepath.Join(l.home, ".mbox", "locks", "sync"))
	must(t, err)
	late := openLedger(t, l.home, nil)
	got := steps(t, late, func() { appendNote(t, late, "coder", "three") })
	if !slices.Contains(got, "syncfs .mbox/journal") || late.head.Journal.Generation == generation {
		t.Errorf("generation %x as before, by\n  %s", generation, strings.Join(got, "\n  "))
	}
	got = steps(t, late, func() {
		appendNote(t, late, "coder", "four")
		appendNote(t, openLedger(t, l.home, nil), "coder", "five")
		must(t, l.flush(hers))
	})
	if n := strings.Count(strings.Join(got, "\n"), "syncfs"); n != 1 {
		t.Errorf("%d checkpoints: one for the process that is new, by\n  %s", n, strings.Join(got, "\n  "))
	}
	must(t, leader.Unlock())
}

// dieInFlush appends a line and is killed in the flush.
func dieInFlush(t *testing.T, l *Ledger) {
	t.Helper()
	killed := false
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		if killed = killed || op == durable.OpSync && path == JournalPath(l.home); killed {
			return false, errKilled
		}
		return true, nil
	})
	defer remove()
	if _, err := l.Append(context.Background(), note("coder", "killed")); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
}

// After a leader was killed in its flush there is one checkpoint, and the journal
// begins anew; a checkpoint that fails makes the mailbox read-only.
func TestRule28_FlushInDoubt(t *testing.T) {
	needJournal(t)
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	generation := l.head.Journal.Generation
	dieInFlush(t, l)
	next := openLedger(t, l.home, nil)
	checkpoints := 0
	remove := durable.SetFault(func(op durable.Op, _ string) (bool, error) {
		if op == durable.OpSyncFS {
			checkpoints++
		}
		return true, nil
	})
	defer remove()
	for range 3 {
		appendNote(t, next, "coder", "two")
	}
	if checkpoints != 1 || next.head.Journal.Generation == generation {
		t.Errorf("%d checkpoints, the generation is %x, it was %x", checkpoints, next.head.Journal.Generation, generation)
	}
	dieInFlush(t, next)
	last := openLedger(t, l.home, nil)
	remove = durable.SetFault(func(op durable.Op, _ string) (bool, error) {
		if op == durable.OpSyncFS {
			return true, errLost
		}
		return true, nil
	})
	defer remove()
	if _, err := last.Append(context.Background(), note("coder", "three")); !errors.Is(err, errLost) {
		t.Errorf("the checkpoint failed: %v", err)
	}
	if err := CheckWritable(l.home); !errors.Is(err, ErrReadOnly) {
		t.Errorf("afterwards: %v", err)
	}
}

// A process that has opened the journal only after a line was written would not be
// told of that line's write error. So it leads no flush: it waits for one who may,
// and whose flush is for both.
func TestRule28_LeaderVouchesForAll(t *testing.T) {
	needJournal(t)
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	_, hers, err := l.write(context.Background(), note("coder", "two"), Payload{}, nil)
	must(t, err)
	late := openLedger(t, l.home, nil)
	_, mine, err := late.write(context.Background(), note("coder", "three"), Payload{}, nil)
	must(t, err)
	file, err := late.sync.Acquire(t.Context(), 10*time.Second)
	must(t, err)
	if err := late.lead(mine, file); !errors.Is(err, errGap) {
		t.Errorf("leads: %v", err)
	}
	must(t, late.sync.Unlock())
	got := steps(t, l, func() { must(t, errors.Join(l.flush(hers), late.flush(mine))) })
	sameSteps(t, "one flush for both", got, "writeat .mbox/locks/sync", "sync .mbox/journal", "writeat .mbox/locks/sync")
	got = steps(t, l, func() { appendNote(t, late, "coder", "four") })
	if !slices.Contains(got, "sync .mbox/journal") || slices.Contains(got, "syncfs .mbox/journal") {
		t.Errorf("it may lead now:\n  %s", strings.Join(got, "\n  "))
	}
}

// A line of a generation that has ended is on disk by the checkpoint that ended it.
// While there is no other generation nobody knows whether that was made.
func TestRule25_EndedGeneration(t *testing.T) {
	needJournal(t)
	l := newLedger(t, nil)
	_, mine, err := l.write(context.Background(), note("coder", "one"), Payload{}, nil)
	must(t, err)
	mine.from.users.Add(1) // for the second flush
	other := openLedger(t, l.home, nil)
	unlock, err := other.lock(t.Context())
	must(t, err)
	must(t, other.ready())
	must(t, other.uncover(other.head.Journal.Ino))
	unlock()
	got := steps(t, l, func() { must(t, l.flush(mine)) })
	if !slices.Contains(got, "sync .mbox/journal") {
		t.Errorf("the checkpoint has yet to be made: %q", got)
	}
	appendNote(t, other, "coder", "two")
	record := readFile(t, l.sync.Path())
	mine.from.mu.Lock()
	mine.from.done = ticket{}
	mine.from.mu.Unlock()
	sameSteps(t, "ended", steps(t, l, func() { must(t, l.flush(mine)) }))
	if after := readFile(t, l.sync.Path()); string(after) != string(record) {
		t.Errorf("the record was %q, and is %q", record, after)
	}
}

// The writer of an earlier line was killed before it was flushed, and nobody else
// has the journal open: then it is one checkpoint, and the next ones lead again.
func TestRule28_WriterKilled(t *testing.T) {
	needJournal(t)
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	_, _, err := l.write(context.Background(), note("coder", "two"), Payload{}, nil)
	must(t, err)
	got := steps(t, l, func() {
		for range 3 {
			appendNote(t, openLedger(t, l.home, nil), "coder", "three")
		}
	})
	all := strings.Join(got, "\n")
	if n := strings.Count(all, "syncfs"); n != 1 {
		t.Errorf("%d checkpoints:\n%s", n, all)
	}
	if n := strings.Count(all, "sync .mbox/journal"); n != 3 {
		t.Errorf("%d flushes of the journal: nobody leads, so that it need not be known how long one takes\n%s", n, all)
	}
	if n := strings.Count(all, "writeat .mbox/locks/sync\nsync .mbox/journal\nwriteat .mbox/locks/sync"); n != 2 {
		t.Errorf("%d led flushes:\n%s", n, all)
	}
}

// Where a leader was killed in its flush, what the journal lacks may be lost as
// after a restart; where one is alive, nothing is.
func TestRule37_BlankedInDoubt(t *testing.T) {
	needJournal(t)
	for name, want := range map[string]int{"killed": 1, "alive": 2} {
		l := newLedger(t, nil)
		appendNote(t, l, "coder", "one")
		dieInFlush(t, l)
		journal := readFile(t, JournalPath(l.home))
		clear(journal[2*journalBlock:])
		writeFile(t, JournalPath(l.home), journal)
		if name == "alive" {
			leader, err := durable.TryLock(filepath.Join(l.home, ".mbox", "locks", "sync"))
			must(t, err)
			defer leader.Unlock()
		}
		if _, err := l.Replay(context.Background(), false); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(readFile(t, newestPath(t, l))), "\n"); n != want {
			t.Errorf("%s: %d lines", name, n)
		}
	}
}

// A ledger whose lock file for flushes is gone still acknowledges nothing that is
// not flushed.
func TestRule27_NoSyncFile(t *testing.T) {
	needJournal(t)
	l := newLedger(t, nil)
	must(t, os.Remove(filepath.Join(l.home, ".mbox", "locks", "sync")))
	got := steps(t, l, func() { appendNote(t, l, "coder", "one") })
	if !strings.Contains(strings.Join(got, "\n"), "writeat .mbox/locks/chain\nsync .mbox/journal") {
		t.Errorf("%q", got)
	}
}

// Where a recovery has taken back a line that a failed flush has lost, its writer, who
// stood still meanwhile, is not answered that it is on disk: neither by the end of its
// generation nor by a checkpoint.
func TestRule25_TakenBack(t *testing.T) {
	needJournal(t)
	for name, before := range map[string]func(l *Ledger){
		"ended":   func(l *Ledger) { appendNote(t, l, "coder", "three") },
		"retired": func(*Ledger) {},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t, nil)
			appendNote(t, l, "coder", "one")
			late := openLedger(t, l.home, nil)
			_, other, err := l.write(context.Background(), note("coder", "unflushed"), Payload{}, nil)
			must(t, err)
			other.from.release()
			_, mine, err := late.write(context.Background(), note("coder", "two"), Payload{}, nil)
			must(t, err)
			journal := readFile(t, JournalPath(l.home))
			clear(journal[2*journalBlock:])
			writeFile(t, JournalPath(l.home), journal)
			recovery := openLedger(t, l.home, nil)
			_, err = recovery.Replay(t.Context(), true)
			must(t, errors.Join(err, recovery.Renew(t.Context())))
			before(recovery)
			if err := late.flush(mine); !errors.Is(err, syscall.EIO) || errors.Is(err, ErrMoved) {
				t.Errorf("it is not in the ledger any more: %v", err)
			}
			if said := wholeChain(t, recovery); said[0] != "one" || slices.Contains(said, "two") {
				t.Errorf("%q", said)
			}
		})
	}
}

// A line that a recovery has named as no part of the chain is taken back as well, though
// its bytes stand where they stood.
func TestRule25_SetAside(t *testing.T) {
	needJournal(t)
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	late := openLedger(t, l.home, nil)
	lost, other, err := l.write(context.Background(), note("coder", "unflushed"), Payload{}, nil)
	must(t, err)
	other.from.release()
	_, mine, err := late.write(context.Background(), note("coder", "two"), Payload{}, nil)
	must(t, err)
	data := readFile(t, newestPath(t, l))
	copy(data[lost.At.Offset+20:], "garbage")
	writeFile(t, newestPath(t, l), data)
	recovery := openLedger(t, l.home, nil)
	if _, err := recovery.Replay(t.Context(), true); !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
	must(t, recovery.Renew(t.Context()))
	appendNote(t, recovery, "coder", "three")
	if err := late.flush(mine); !errors.Is(err, syscall.EIO) {
		t.Errorf("it is set aside: %v", err)
	}
}

// Whoever flushes for all under the ledger's lock, at midnight or for a backup, and would
// not be told of every error makes a checkpoint.
func TestRule28_AllByACheckpoint(t *testing.T) {
	needJournal(t)
	days := 0
	for name, do := range map[string]func(late *Ledger) error{
		"midnight": func(late *Ledger) error {
			late.now = func() time.Time { return time.Now().AddDate(0, 0, days) }
			_, err := late.Append(context.Background(), note("coder", "three"))
			return err
		},
		"backup": func(late *Ledger) error {
			return late.Frozen(context.Background(), func(Position) error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t, nil)
			appendNote(t, l, "coder", "one")
			_, hers, err := l.write(context.Background(), note("coder", "two"), Payload{}, nil)
			must(t, err)
			hers.from.release()
			days++
			got := steps(t, l, func() { must(t, do(openLedger(t, l.home, nil))) })
			if n := strings.Count(strings.Join(got, "\n"), "syncfs .mbox/journal"); n != 1 {
				t.Errorf("%d checkpoints by\n  %s", n, strings.Join(got, "\n  "))
			}
			days++
			got = steps(t, l, func() { must(t, do(openLedger(t, l.home, nil))) })
			if strings.Contains(strings.Join(got, "\n"), "syncfs") {
				t.Errorf("all is on disk:\n  %s", strings.Join(got, "\n  "))
			}
		})
	}
}

// A new process does not know how long a flush takes. On a slow disk it finds out, and
// does not take a leader who is at work for one who is stopped.
func TestRule27_NewProcessOnASlowDisk(t *testing.T) {
	needJournal(t)
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	_, hers, err := l.write(context.Background(), note("coder", "two"), Payload{}, nil)
	must(t, err)
	leads, err := l.sync.Acquire(t.Context(), time.Second)
	must(t, err)
	late := openLedger(t, l.home, nil)
	flushed, ended := make(chan bool), make(chan error, 1)
	var once sync.Once
	var checkpoints atomic.Int64
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		switch {
		case op == durable.OpSyncFS:
			checkpoints.Add(1)
		case op == durable.OpSync && path == JournalPath(l.home):
			time.Sleep(2 * gapPatience) // of a slow disk
			once.Do(func() { close(flushed) })
		}
		return true, nil
	})
	defer remove()
	go func() {
		_, err := late.Append(context.Background(), note("coder", "three"))
		ended <- err
	}()
	select {
	case <-flushed:
	case err := <-ended:
		t.Errorf("it did not look how long a flush takes: %v", err)
		ended <- err
	}
	led := l.lead(hers, leads) // with the lock in hand all the time: nobody finds that none leads
	l.sync.Unlock()
	hers.from.release()
	must(t, errors.Join(led, <-ended))
	if n := checkpoints.Load(); n != 0 {
		t.Errorf("%d checkpoints beside a leader at work", n)
	}
}
