package mailbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"mbox/audit"
)

// snapshotLines is how many lines may have to be folded before a new snapshot
// is written; with many live tasks a fiftieth of their number. Tests make it small.
var snapshotLines = 2000

// refresh folds what the ledger has that the index has not, for who needs the queue
// or not. It returns a draft where a new snapshot is due. With b.mu held.
func (b *Box) refresh(queue bool) (*draft, error) {
	x := b.index
	if x.reader == nil || queue && x.names {
		x.close()
		if err := b.loadIndex(queue); err != nil {
			return nil, err
		}
		x = b.index
	}
	end, seen := b.ledger.Seen()
	for stepped := false; !seen || !x.reader.Reached(end, stepped); stepped = true {
		line, err := x.reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, audit.ErrMoved) {
			x.close()
			b.index = newIndex()
			return b.refresh(queue)
		}
		if errors.Is(err, audit.ErrDamaged) {
			return nil, b.ledger.Stop(err)
		}
		if err != nil {
			return nil, err
		}
		if err := damagedAt(line); err != nil {
			return nil, b.ledger.Stop(err)
		}
		x.fold(line)
		x.at = line.End
		if x.folded++; x.folded%4096 == 0 {
			b.o.Progress("reading the ledger", line.Seq, 0)
		}
	}
	size := len(x.live)
	if x.base != nil {
		size += int(x.base.head.Ready) - len(x.gone)
	}
	if x.base != nil {
		size += int(x.base.head.Specials) / 8
	}
	if x.folded < max(snapshotLines, size/50) {
		return nil, nil
	}
	if x.names {
		return b.refresh(true) // from the newest snapshot, which somebody else may have written
	}
	x.folded = 0
	return x.draft(), nil
}

// loadIndex begins the index with the snapshot, or with nothing.
func (b *Box) loadIndex(queue bool) error {
	if !b.looks {
		if err := b.ledger.CheckJournal(); err != nil {
			return err
		}
	}
	x := newIndex()
	x.names = !queue
	s, err := b.openSnapshot()
	switch {
	case errors.Is(err, errNoSnapshot):
	case err != nil:
		return err
	default:
		others, err := s.others()
		if err != nil {
			s.close()
			break
		}
		x.base, x.at = s, s.head.At
		if x.names {
			break
		}
		for i, set := range s.head.Sets {
			x.sets[i] = idSet{int64(set[0]), set[1]}
		}
		for _, r := range others {
			r.calls = int(x.at.Seq) // no look of before it was loaded settles it
			x.live[r.id] = r
			x.adopt(r)
			if r.state == Pending {
				x.enqueue(r, b.now())
			}
		}
	}
	x.reader = b.ledger.Read(x.at)
	b.index = x
	return nil
}

// update refreshes the index and writes a snapshot where one is due.
func (b *Box) update() error { return b.follow(true) }

// hear is update for who only asks what was ever heard of: before anything else
// was asked, the index is without the queue, which most senders never need.
func (b *Box) hear() error { return b.follow(false) }

func (b *Box) follow(queue bool) error {
	b.mu.Lock()
	b.queued = b.queued || queue
	first, names := b.index.reader == nil, b.index.names
	d, err := b.refresh(b.queued)
	// After the first fold of a long ledger go on from the file, not from memory;
	// and without the queue, if it was folded for the sake of the snapshot.
	anew := first && d != nil || (first || names) && !b.index.names && !b.queued
	b.mu.Unlock()
	if err != nil || b.looks {
		return err
	}
	if d != nil {
		if err := b.writeSnapshot(d); err != nil && !errors.Is(err, fs.ErrClosed) { // somebody has begun anew meanwhile
			return fmt.Errorf("writing the index: %w", err)
		}
	}
	if !anew {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.index.close()
	b.index = newIndex()
	_, err = b.refresh(b.queued)
	return err
}
