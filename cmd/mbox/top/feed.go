package top

import (
	"context"
	"slices"
	"time"

	"mbox/audit"
	"mbox/mailbox"
)

// How many lines of the ledger are kept, how many are handed over at once, and how long
// after an error it is tried again.
const (
	mostLines = 500
	mostAtOne = 200
	feedAgain = 5 * time.Second
)

// news are lines that have come. An error says why no more come for now.
type news struct {
	entries []audit.Entry
	err     error
}

// follow sends the ledger's last lines and then every new one, until the context ends.
// What it waits for to be taken is never more than the channel holds.
func follow(ctx context.Context, box *mailbox.Box, to chan<- news) {
	seen := int64(0)
	send := func(n news) bool {
		select {
		case to <- n:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for ctx.Err() == nil {
		entries, end, err := last(box.Ledger(), mostLines)
		if err == nil {
			if end.Seq < seen {
				seen = 0 // another ledger took its place
			}
			entries = slices.DeleteFunc(entries, func(e audit.Entry) bool { return e.Seq <= seen })
			if !send(news{entries: entries}) {
				return
			}
			seen = end.Seq
			for e, failed := range box.Follow(ctx, end) {
				if err = failed; err != nil || !send(news{entries: []audit.Entry{e}}) {
					break
				}
				seen = e.Seq
			}
		}
		if err != nil && !send(news{err: err}) {
			return
		}
		sleep(ctx, feedAgain)
	}
}

// sleep waits so long, or until the context ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// last are the ledger's last lines, and its end.
func last(l *audit.Ledger, most int) (entries []audit.Entry, end audit.Position, err error) {
	for line, err := range l.Backward() {
		if err != nil {
			return nil, end, err
		}
		if len(entries) == 0 {
			end = line.End
		}
		e, err := line.Decode()
		if err != nil {
			return nil, end, err
		}
		if entries = append(entries, e); len(entries) == most {
			break
		}
	}
	slices.Reverse(entries)
	return entries, end, nil
}

// take waits for news and takes with it what is there already.
func take(ctx context.Context, from <-chan news) (n news, ok bool) {
	select {
	case n = <-from:
	case <-ctx.Done():
		return n, false
	}
	for n.err == nil && len(n.entries) < mostAtOne {
		select {
		case more := <-from:
			n.entries, n.err = append(n.entries, more.entries...), more.err
		default:
			return n, true
		}
	}
	return n, true
}
