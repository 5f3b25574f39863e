package gateway

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"mbox/audit"
	"mbox/mailbox"
)

// feed is the ledger as it grows, read once for all who watch it. It keeps the last
// lines; who is slower than that reads what he has missed from the ledger itself, so
// nobody waits for anybody.
type feed struct {
	mu      sync.Mutex
	last    [kept]frame   // a ring: the line with seq n at n mod kept
	end     int64         // seq of the newest line
	ready   chan struct{} // closed when it knows the ledger's end, or that it cannot
	begun   sync.Once
	grown   chan struct{}
	waiting map[mailbox.ID]map[chan struct{}]bool // by case-folded id
	broken  error                                 // why it does not follow any more
	tally   tally
}

// kept is how many lines a feed keeps.
const kept = 1024

// frame is a line of the ledger for whoever watches.
type frame struct {
	seq                int64
	raw                []byte // never changed
	agent, task, event string
}

func newFeed() *feed {
	return &feed{ready: make(chan struct{}), grown: make(chan struct{}), waiting: map[mailbox.ID]map[chan struct{}]bool{}, tally: newTally()}
}

// feedPause is how long a feed waits that could not follow.
const feedPause = 5 * time.Second

// follow feeds until the context ends.
func (f *feed) follow(ctx context.Context, box *mailbox.Box) {
	for ctx.Err() == nil {
		err := f.run(ctx, box)
		f.mu.Lock()
		f.broken = err
		f.begun.Do(func() { close(f.ready) })
		f.mu.Unlock()
		select {
		case <-time.After(feedPause):
		case <-ctx.Done():
		}
	}
}

// run reads on from the ledger's end. What Follow yields only says that there is
// something; the reader has the bytes.
func (f *feed) run(ctx context.Context, box *mailbox.Box) error {
	from, err := box.Ledger().Newest()
	if err != nil {
		return err
	}
	r := box.Ledger().Read(from)
	defer r.Close()
	f.begin(from.Seq)
	for _, err := range box.Follow(ctx, from) {
		if err == nil {
			err = f.catchUp(r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// begin is where the feed follows from: the first time, or after it could not. Lines
// before may have been missed, so all who wait have to look.
func (f *feed) begin(seq int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end, f.broken = seq, nil
	f.begun.Do(func() { close(f.ready) })
	f.last = [kept]frame{}
	f.wake()
	for _, channels := range f.waiting {
		tell(channels)
	}
}

func tell(channels map[chan struct{}]bool) {
	for ch := range channels {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

func (f *feed) catchUp(r *audit.Reader) error {
	grew := false
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		f.put(line)
		grew = true
	}
	if grew {
		f.mu.Lock()
		f.wake()
		f.mu.Unlock()
	}
	if broken := r.Broken(); broken != nil {
		return broken
	}
	return nil
}

func frameOf(line audit.Line) frame {
	return frame{line.Seq, append([]byte(nil), line.Raw...), line.Agent(), line.Task(), string(line.Event())}
}

func (f *feed) put(line audit.Line) {
	fr := frameOf(line)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tally.add(line)
	f.last[fr.seq%kept], f.end = fr, fr.seq
	tell(f.waiting[mailbox.ID(mailbox.ID(fr.task).Fold())])
}

// wake tells all who wait for the ledger to grow. The lock is held.
func (f *feed) wake() {
	close(f.grown)
	f.grown = make(chan struct{})
}

// watch tells of lines about a task, until forget is called.
func (f *feed) watch(id mailbox.ID) (changed <-chan struct{}, forget func()) {
	key, ch := mailbox.ID(id.Fold()), make(chan struct{}, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waiting[key] == nil {
		f.waiting[key] = map[chan struct{}]bool{}
	}
	f.waiting[key][ch] = true
	return ch, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.waiting[key], ch)
		if len(f.waiting[key]) == 0 {
			delete(f.waiting, key)
		}
	}
}

// since are the kept lines behind seq, oldest first; ok is false where the feed does
// not keep all of them any more. grown is closed when there is more.
func (f *feed) since(seq int64) (lines []frame, grown <-chan struct{}, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if seq >= f.end {
		return nil, f.grown, true
	}
	if seq < f.end-kept || f.last[(seq+1)%kept].seq != seq+1 {
		return nil, f.grown, false
	}
	for n := seq + 1; n <= f.end; n++ {
		lines = append(lines, f.last[n%kept])
	}
	return lines, f.grown, true
}

// reached is the seq of the last line that was read; 0 before there is one.
func (f *feed) reached() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.end
}

// newest is the seq of the last line that was read, as soon as there is one.
func (f *feed) newest(ctx context.Context) (seq int64, broken error) {
	select {
	case <-f.ready:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.end, f.broken
}
