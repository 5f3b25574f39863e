package main

import (
	"math/rand/v2"
	"slices"
	"sync"
)

// blockSize is what is written whole or not at all: a write of many blocks may
// be torn between two of them.
const blockSize = 4096

// A record is one write, or one flush, in the order in which the disk served
// them.
type record struct {
	flush bool
	at    int64  // first byte
	data  []byte // of a write; nil for a flush
}

// disk is a disk whose cache is written through to nothing: every write and
// flush is in the log, and what a power cut leaves is computed from it. A nil
// block holds zeros.
type disk struct {
	size int64

	mu     sync.Mutex
	base   map[int64][]byte // by number; never changed, shared with what was cut from it
	blocks map[int64][]byte // as a reader sees it now
	log    []record
}

func newDisk(size int64, base map[int64][]byte) *disk {
	d := &disk{size: size, base: base, blocks: make(map[int64][]byte, len(base))}
	for n, b := range base {
		d.blocks[n] = b
	}
	return d
}

func (d *disk) read(p []byte, at int64) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	done := 0
	for done < len(p) && at+int64(done) < d.size {
		n, in := (at+int64(done))/blockSize, (at+int64(done))%blockSize
		part := p[done:min(len(p), done+int(blockSize-in))]
		if b := d.blocks[n]; b != nil {
			copy(part, b[in:])
		} else {
			clear(part)
		}
		done += len(part)
	}
	return done
}

func (d *disk) write(p []byte, at int64) {
	r := record{at: at, data: slices.Clone(p)}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, r)
	for _, piece := range r.pieces() {
		piece.apply(d.blocks)
	}
}

func (d *disk) flush() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, record{flush: true})
}

// mark is how many records the log has.
func (d *disk) mark() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.log)
}

// restart makes what is on the disk now its base, and empties the log.
func (d *disk) restart() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.base, d.log = make(map[int64][]byte, len(d.blocks)), nil
	for n, b := range d.blocks {
		d.base[n] = b
	}
}

// flushes are the places of the flushes in the log.
func (d *disk) flushes() (places []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, r := range d.log {
		if r.flush {
			places = append(places, i)
		}
	}
	return places
}

// A cut is a moment at which the power fails, and what the disk's cache saved of
// the writes since the last flush.
type cut struct {
	Durable int     // records before this one are on the disk
	Until   int     // records before this one had been served when the power failed
	Keep    float64 // the share of the blocks written between the two that is on the disk as well
	Seed    uint64  // which of them
}

// after is what a disk holds after the power cut.
func (d *disk) after(c cut) *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	random := rand.New(rand.NewPCG(c.Seed, uint64(c.Durable)))
	blocks := make(map[int64][]byte, len(d.blocks))
	for n, b := range d.base {
		blocks[n] = b
	}
	for i, r := range d.log[:c.Until] {
		for _, piece := range r.pieces() {
			if i < c.Durable || c.Keep == 1 || random.Float64() < c.Keep {
				piece.apply(blocks)
			}
		}
	}
	return newDisk(d.size, blocks)
}

// piece is the part of a write that lies in one block.
type piece struct {
	block, in int64
	data      []byte
}

func (r record) pieces() (parts []piece) {
	for at, data := r.at, r.data; len(data) > 0; {
		in := at % blockSize
		n := min(int64(len(data)), blockSize-in)
		parts = append(parts, piece{at / blockSize, in, data[:n]})
		at, data = at+n, data[n:]
	}
	return parts
}

// apply puts the piece into the blocks. Blocks are shared, so one that is
// written in part is copied first.
func (p piece) apply(blocks map[int64][]byte) {
	if len(p.data) == blockSize {
		blocks[p.block] = p.data
		return
	}
	b := make([]byte, blockSize)
	copy(b, blocks[p.block])
	copy(b[p.in:], p.data)
	blocks[p.block] = b
}
