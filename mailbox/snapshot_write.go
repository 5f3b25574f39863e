package mailbox

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
)

// encode appends the record's binary form.
func (r *record) encode(b []byte) []byte {
	str := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	num := func(v int64) { b = binary.AppendVarint(b, v) }
	str(string(r.id))
	str(string(r.state))
	str(r.class.target)
	str(r.class.typ)
	str(r.class.action)
	str(r.claimant)
	for _, v := range []int64{int64(r.priority), r.created, r.notBefore, r.deadline, r.until, r.since, r.revision, r.epoch, r.attempt, r.max} {
		num(v)
	}
	b = append(append(append(b, r.after[:]...), r.asked[:]...), r.claim[:]...)
	flags := int64(0)
	if r.blocked {
		flags |= 1
	}
	if r.check {
		flags |= 2
	}
	if r.alarmed {
		flags |= 4
	}
	num(flags)
	ids := func(list []ID) {
		num(int64(len(list)))
		for _, id := range list {
			str(string(id))
		}
	}
	ids(r.dependsOn)
	str(string(r.parent))
	num(r.born)
	str(r.join)
	ids(r.waitsFor)
	return b
}

// queued tells whether the record can be in a run. A child of a delegation is
// in none, so that it is always in memory and known when its parent ends; nor is
// a task with a deadline, which has to be looked at when that passes.
func (r *record) queued(now int64) bool {
	return r.state == Pending && !r.blocked && r.notBefore <= now && r.parent == "" && r.expires() == 0
}

func (r *record) order(o *record) int {
	return cmp.Or(
		cmp.Compare(r.class.target, o.class.target), cmp.Compare(r.class.typ, o.class.typ), cmp.Compare(r.class.action, o.class.action),
		cmp.Compare(r.priority, o.priority), cmp.Compare(r.created, o.created), cmp.Compare(r.id, o.id),
	)
}

// draft is what a snapshot is written from: a copy, so that the index can go on
// changing while the file is written.
type draft struct {
	at      audit.Position
	sets    [4]idSet
	records []*record // copies of those in memory
	base    *snapshot
	gone    map[uint32]bool
	special []uint64

	oldSpecial []uint64 // of the base
}

func (x *index) draft() *draft {
	d := &draft{at: x.at, sets: x.sets, base: x.base, gone: maps.Clone(x.gone), special: slices.Collect(maps.Keys(x.special))}
	for _, r := range x.live {
		c := *r
		d.records = append(d.records, &c)
	}
	return d
}

// writeSnapshot writes a draft to .mbox/index. It is not flushed: after a power
// cut the boot id differs, and the file counts for nothing. One process at a
// time writes; the others go without, and so does who finds one that is new.
func (b *Box) writeSnapshot(d *draft) error {
	lock, err := durable.TryLock(home.LockPath(b.home, "snapshot"))
	if errors.Is(err, durable.ErrBusy) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if s, err := b.openSnapshot(); err == nil {
		s.close()
		if d.at.Seq-s.head.At.Seq < int64(snapshotLines/2) {
			return nil
		}
	}
	if d.base != nil {
		old, special, err := d.base.ready(d.gone)
		if err != nil {
			return err
		}
		d.records, d.oldSpecial = append(d.records, old...), special
	}
	temp := b.snapshotPath() + ".new"
	if err := durable.RemoveIfThere(temp); err != nil {
		return err
	}
	f, err := durable.Create(temp)
	if err != nil {
		return err
	}
	defer f.Close()
	w := &snapshotWriter{w: bufio.NewWriterSize(f, 1<<20)}
	w.write(b, d, b.now().UnixMilli())
	if err := errors.Join(w.err, w.w.Flush()); err != nil {
		return errors.Join(err, durable.RemoveIfThere(temp))
	}
	return durable.Rename(temp, b.snapshotPath())
}

type snapshotWriter struct {
	w   *bufio.Writer
	at  int64
	err error
}

func (w *snapshotWriter) put(data []byte) {
	if w.err == nil {
		_, w.err = w.w.Write(data)
		w.at += int64(len(data))
	}
}

func (w *snapshotWriter) write(b *Box, d *draft, now int64) {
	records := d.records
	slices.SortFunc(records, func(r, o *record) int {
		if rq, oq := r.queued(now), o.queued(now); rq != oq {
			if rq {
				return -1
			}
			return 1
		}
		return r.order(o)
	})
	head := snapshotHead{V: home.SnapshotVersion, Mailbox: b.id, Boot: b.boot, At: d.at, Records: uint32(len(records))}
	for i, s := range d.sets {
		head.Sets[i] = [2]uint64{uint64(s.count), s.sum}
	}
	offsets := make([]byte, 0, 8*len(records)+8)
	var buf []byte
	for i, r := range records {
		offsets = binary.LittleEndian.AppendUint64(offsets, uint64(w.at))
		if r.queued(now) {
			head.addToRun(r, uint32(i))
		}
		buf = r.encode(buf[:0])
		w.put(buf)
	}
	offsets = binary.LittleEndian.AppendUint64(offsets, uint64(w.at))
	head.Offsets = w.at
	w.put(offsets)
	head.Order = w.at
	w.put(idOrder(records))
	head.Special = w.at
	specials := d.specials()
	head.Specials = int64(len(specials) / 8)
	w.put(specials)
	text, err := json.Marshal(head)
	if err != nil {
		w.err = fmt.Errorf("snapshot head: %w", err)
		return
	}
	w.put(text)
	w.put(binary.LittleEndian.AppendUint32(nil, uint32(len(text))))
}

func (h *snapshotHead) addToRun(r *record, n uint32) {
	h.Ready = n + 1
	if last := len(h.Runs) - 1; last >= 0 && h.Runs[last].class() == r.class && h.Runs[last].Priority == r.priority {
		h.Runs[last].End = n + 1
		return
	}
	h.Runs = append(h.Runs, run{r.class.target, r.class.typ, r.class.action, r.priority, n, n + 1})
}

func idOrder(records []*record) []byte {
	order := make([]uint32, len(records))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int { return cmp.Compare(records[a].id, records[b].id) })
	out := make([]byte, 0, 4*len(order))
	for _, n := range order {
		out = binary.LittleEndian.AppendUint32(out, n)
	}
	return out
}

// specials is the sorted table of the special hashes, old and new.
func (d *draft) specials() []byte {
	all := append(d.special, d.oldSpecial...)
	slices.Sort(all)
	all = slices.Compact(all)
	out := make([]byte, 0, 8*len(all))
	for _, h := range all {
		out = binary.LittleEndian.AppendUint64(out, h)
	}
	return out
}
