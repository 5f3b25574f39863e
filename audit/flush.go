package audit

import (
	"errors"
	"os"
	"sync"

	"mbox/mailbox/durable"
)

// flusher shares one file's flushes among the goroutines of a process:
// while one flush runs, those who come wait for the next, and that one serves
// them all. A flush counts only for what was written to this file before it
// began.
type flusher struct {
	file     *os.File
	name     string
	dev, ino uint64

	mu      sync.Mutex
	done    *sync.Cond
	next    uint64 // the number that the next flush to begin will have
	ended   uint64 // the highest number that has ended
	running bool
	waiting int
	retired bool  // closed once nobody waits
	failed  error // after an error the descriptor is never flushed again
}

// ticket is what a line's writer waits with: the first flush that begins after
// its write.
type ticket struct {
	from   *flusher
	number uint64
}

// newFlusher takes the file over: on an error it is closed.
func newFlusher(f *os.File, name string) (*flusher, error) {
	st, err := durable.Fstat(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	fl := &flusher{file: f, name: name, dev: uint64(st.Dev), ino: st.Ino, next: 1}
	fl.done = sync.NewCond(&fl.mu)
	return fl, nil
}

func (f *flusher) ticket() ticket {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting++
	return ticket{f, f.next}
}

// retire closes the file when the last ticket has been served.
func (f *flusher) retire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.retired = true
	f.closeIdle()
}

func (f *flusher) closeIdle() {
	if f.retired && f.waiting == 0 && !f.running {
		f.file.Close()
	}
}

// wait returns when flush number n, or a later one, has ended.
func (f *flusher) wait(n uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.ended < n && f.failed == nil {
		if f.running {
			f.done.Wait()
			continue
		}
		f.run()
	}
	f.waiting--
	f.closeIdle()
	return f.failed
}

// run performs one flush. The mutex is released while it lasts.
func (f *flusher) run() {
	number := f.next
	f.next++
	f.running = true
	f.mu.Unlock()
	err := durable.Flush(f.file)
	f.mu.Lock()
	f.running = false
	if err != nil {
		f.failed = err
	} else {
		f.ended = number
	}
	f.done.Broadcast()
}

// syncNow flushes whatever was written until now.
func (f *flusher) syncNow() error {
	return f.wait(f.ticket().number)
}

// flush waits until the ticket's line is on disk. If the flush fails the
// mailbox is made read-only first, and then every waiter gets the error.
func (l *Ledger) flush(t ticket) error {
	if l.mode == durable.None {
		t.from.mu.Lock()
		defer t.from.mu.Unlock()
		t.from.waiting--
		t.from.closeIdle()
		return nil
	}
	if err := t.from.wait(t.number); err != nil {
		return errors.Join(err, l.setReadOnly("flushing "+t.from.name+" failed: "+err.Error()))
	}
	return nil
}

// syncOpen flushes the newest file. Under the lock.
func (l *Ledger) syncOpen() error {
	if l.open == nil || l.mode == durable.None {
		return nil
	}
	if err := l.open.syncNow(); err != nil {
		return errors.Join(err, l.setReadOnly("flushing "+l.open.name+" failed: "+err.Error()))
	}
	return nil
}

// forgetOpen lets go of the newest file, which another one has taken the place of.
func (l *Ledger) forgetOpen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open != nil {
		l.open.retire()
		l.open = nil
	}
}
