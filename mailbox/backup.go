package mailbox

import (
	"context"
	"io"
	"slices"

	"mbox/audit"
	"mbox/mailbox/backup"
	"mbox/mailbox/home"
)

// Backup writes the mailbox, as it is at one moment, while everything runs: see
// [backup.Write]. Instead and texts are those of [backup.Source].
func (b *Box) Backup(ctx context.Context, w io.Writer, instead map[string]string, texts map[string][]byte) (backup.Report, error) {
	return backup.Write(ctx, w, backup.Source{Home: b.home, ID: b.id, Now: b.now, Progress: b.o.Progress, Still: b.still, Instead: instead, Texts: texts})
}

// still calls do while nothing changes: all shards are locked in ascending order,
// each settled, then the ledger, of which most is on disk by then.
func (b *Box) still(ctx context.Context, do func(end audit.Position) error) error {
	if err := b.ledger.Flushed(ctx); err != nil {
		return err
	}
	var locked []*shard
	defer func() {
		for _, s := range slices.Backward(locked) {
			s.unlock()
		}
	}()
	for n := range home.Shards {
		s, err := b.lockShardNumber(ctx, n)
		if err != nil {
			return err
		}
		locked = append(locked, s)
	}
	return b.ledger.Frozen(ctx, do)
}
