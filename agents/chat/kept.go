package chat

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

// outPlace is what a delivery keeps, in .mbox/bridges/<name>.out: what the ledger told
// up to a line. It saves reading the ledger from its beginning, and nothing else:
// where it is lost, or the ledger has another line there, that is done.
type outPlace struct {
	Format int            `json:"format"` // 1
	At     audit.Position `json:"at"`
	Open   []*Result      `json:"open"`
	Sent   []message      `json:"sent"`
}

const maxOutPlace = 64 << 20

func outPath(box *mailbox.Box, name string) string {
	return filepath.Join(folder(box.Home()), name+".out")
}

// restore takes up the place that was kept.
func (d *Delivery) restore() {
	data, err := durable.Read(outPath(d.o.Box, d.o.Name), maxOutPlace)
	var p outPlace
	if err == nil {
		err = schemas.Decode(data, &p)
	}
	if err != nil || p.Format != 1 {
		if !errors.Is(err, fs.ErrNotExist) {
			d.o.Log("%s: the kept place cannot be read, the ledger is read from its beginning: %v", d.agent, err)
		}
		return
	}
	d.out.at = p.At
	for _, r := range p.Open {
		d.out.open[r.ID] = r
	}
	d.out.sent.all = p.Sent
}

// save keeps the place, unless that was done a moment ago. Only flushed lines may
// stand before it.
func (d *Delivery) save(ctx context.Context, every time.Duration) {
	if d.out.at == d.savedAt || time.Since(d.saved) < every {
		return
	}
	p := outPlace{Format: 1, At: d.out.at, Open: []*Result{}, Sent: d.out.sent.list()}
	for _, r := range d.out.open {
		p.Open = append(p.Open, r)
	}
	path := outPath(d.o.Box, d.o.Name)
	mode := d.o.Box.Options().Sync
	data, err := schemas.Encode(p)
	if err == nil {
		err = d.o.Box.Ledger().Flushed(ctx)
	}
	if err == nil {
		err = durable.MkdirAll(filepath.Dir(path), mode)
	}
	if err == nil {
		err = durable.Replace(path, data, mode)
	}
	if d.saved = time.Now(); err != nil {
		d.o.Log("%s: its place in the ledger cannot be kept: %v", d.agent, err)
		return
	}
	d.savedAt = p.At
}
