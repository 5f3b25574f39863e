package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mbox/mailbox/durable"
)

// The model of rules 24 to 28: some processes append to one ledger, each with its
// own Ledger and descriptors, and are killed and stopped at any step, while a disk
// that the test plays knows what has reached it. It may lose what it was given, and
// then tells that once to each descriptor that was open. Whenever a line is
// acknowledged, it must be found on that disk as a power cut would leave it.
//
// A process is known by the path that it uses: a symlink to the home for each.
// Whoever is killed comes through no step any more, and loses its locks at once. Who
// is told of an error may be stopped before he marks the mailbox read-only.

var errLost = errors.New("input/output error")

type model struct {
	t    *testing.T
	dir  string // with the home in it, and a symlink to it for each process
	mu   sync.Mutex
	rand *rand.Rand
	all  map[string]*process
	acks int

	flushes, kills int
	begun          int // flushes so far
	journal        onDisk
	ledger         onDisk
	lost           map[int][]byte // blocks of the journal whose write failed
	untold         bool           // by syncfs
}

// onDisk is what a power cut leaves of a file, and by which flush.
type onDisk struct {
	data []byte
	by   int
}

type process struct {
	*Ledger
	killed, opened, untold, renews bool
}

func (m *model) chance(n int) bool { return m.rand.IntN(n) == 0 }

// step is the fault hook.
func (m *model) step(op durable.Op, path string) (bool, error) {
	name, file, _ := strings.Cut(strings.TrimPrefix(path, m.dir+"/"), "/")
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.all[name]
	if p == nil {
		return true, nil
	}
	if p.killed {
		return false, errKilled
	}
	flushes := op == durable.OpSync || op == durable.OpSyncDir || op == durable.OpSyncFS
	var err error
	switch {
	case op == durable.OpSync && file == ".mbox/journal":
		err = m.flush(p)
	case op == durable.OpSync && strings.HasSuffix(file, ".jsonl"):
		m.ledger = onDisk{data: m.read(file)}
	case op == durable.OpSyncFS:
		p.renews = true
		err = m.checkpoint()
	case op == durable.OpWriteAt && file == ".mbox/journal":
		p.opened = true
		if p.renews { // the base, which may be the same again
			p.renews = false
			delete(m.lost, 0)
		}
	}
	if err == nil && m.chance(60) {
		return m.chance(2) && !flushes, m.kill(p)
	}
	return !flushes && err == nil, err // the true disk is spared
}

func (m *model) kill(p *process) error {
	p.killed = true
	m.kills++
	return errKilled
}

func (m *model) read(file string) []byte {
	data, err := os.ReadFile(filepath.Join(m.dir, "home", file))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		m.t.Error(err)
	}
	return data
}

// flush is one of the journal: what was written before it began is on disk when
// it has ended. Others go on meanwhile, for longer if the process is stopped.
func (m *model) flush(p *process) error {
	m.begun++
	m.flushes++
	number, data := m.begun, m.read(".mbox/journal")
	pause := time.Duration(m.rand.IntN(300)) * time.Microsecond
	if m.chance(40) {
		pause = leaderPatience * 3 / 2
	}
	died := m.chance(15)
	m.mu.Unlock()
	time.Sleep(pause) // that of a disk
	m.mu.Lock()
	if died {
		return m.kill(p)
	}
	if !p.untold && m.chance(60) {
		m.lose(data)
	}
	if p.untold {
		p.untold = false
		switch {
		case m.chance(2):
			return m.kill(p)
		case m.chance(2):
			m.mu.Unlock()
			time.Sleep(leaderPatience * 3 / 2)
			m.mu.Lock()
		}
		return errLost
	}
	if number > m.journal.by {
		m.journal = onDisk{m.kept(data), number}
	}
	return nil
}

// lose makes the disk fail: what is not on it yet of these bytes never will be, and
// who has the journal open is told.
func (m *model) lose(data []byte) {
	for i, block := range m.blocks(data) {
		if i*journalBlock >= len(m.journal.data) || !bytes.Equal(block, m.journal.data[i*journalBlock:][:journalBlock]) {
			m.lost[i] = slices.Clone(block)
		}
	}
	m.untold = true
	for _, p := range m.all {
		p.untold = p.opened
	}
}

func (m *model) blocks(data []byte) [][]byte {
	return slices.Collect(slices.Chunk(data[:len(data)/journalBlock*journalBlock], journalBlock))
}

// kept is what of these bytes the disk takes.
func (m *model) kept(data []byte) []byte {
	kept := make([]byte, 0, len(data))
	for i, block := range m.blocks(data) {
		if bytes.Equal(m.lost[i], block) {
			block = make([]byte, journalBlock)
		}
		kept = append(kept, block...)
	}
	return kept
}

func (m *model) checkpoint() error {
	m.begun++
	m.journal = onDisk{m.kept(m.read(".mbox/journal")), m.begun}
	days, err := dayFiles(filepath.Join(m.dir, "home", "audit", "shared"))
	if err != nil || len(days) > 1 {
		return errors.Join(err, fmt.Errorf("%d days", len(days)))
	}
	if len(days) == 1 {
		m.ledger = onDisk{data: m.read("audit/shared/" + days[0])}
	}
	if m.untold {
		m.untold = false
		return errLost
	}
	return nil
}

// holds tells whether a line is there after a power cut: what the ledger has behind
// the journal's end is blanked.
func (m *model) holds(line Line) bool {
	read := parseJournal(m.journal.data)
	if read == nil || read.base.Offset > int64(len(m.ledger.data)) || line.At.Offset < read.base.Offset {
		return has(m.ledger.data, line.At.Offset, line.Raw)
	}
	return slices.ContainsFunc(read.records, func(j Journaled) bool {
		return j.Seq == line.Seq && j.sum == line.Checksum
	})
}

func has(data []byte, at int64, raw []byte) bool {
	return at <= int64(len(data)) && bytes.HasPrefix(data[at:], raw)
}

// start is a process that begins to run.
func (m *model) start(i int) *process {
	m.mu.Lock()
	name := fmt.Sprintf("p%d-%d", i, len(m.all))
	p := &process{}
	m.all[name] = p
	m.mu.Unlock()
	if err := os.Symlink("home", filepath.Join(m.dir, name)); err != nil {
		m.t.Error(err)
	}
	l, err := Open(filepath.Join(m.dir, name), testMailbox, Options{Wait: time.Minute, Now: func() time.Time {
		return time.Date(2026, 2, 16, 12, 0, 0, 0, time.UTC)
	}})
	if err != nil {
		m.t.Error(err)
	}
	p.Ledger = l
	return p
}

// live runs processes one after the other, until enough is acknowledged or the
// mailbox is read-only: where one is killed, another one takes its place.
func (m *model) live(i, enough int) {
	for again := true; again; {
		p := m.start(i)
		m.mu.Lock()
		goroutines := 1 + m.rand.IntN(3)
		m.mu.Unlock()
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() { m.appends(p, enough) })
		}
		wg.Wait()
		p.Close()
		m.mu.Lock()
		again = p.killed && m.acks < enough && !m.t.Failed()
		m.mu.Unlock()
	}
}

// appends is one goroutine of a process.
func (m *model) appends(p *process, enough int) {
	for {
		line, err := p.Append(context.Background(), note("coder", "said"))
		m.mu.Lock()
		killed, acks := p.killed, m.acks
		if err == nil && !killed {
			m.acks++
			if !m.holds(line) {
				m.t.Errorf("seq %d was acknowledged and is not on disk", line.Seq)
			}
		}
		m.mu.Unlock()
		switch {
		case killed || acks >= enough || m.t.Failed() || errors.Is(err, ErrReadOnly):
			return
		case err != nil && !errors.Is(err, errLost):
			m.t.Error(err)
			return
		}
	}
}

func TestRule24_FlushModel(t *testing.T) {
	needJournal(t)
	runs := 40
	switch {
	case os.Getenv("MBOX_TORTURE") != "":
		runs = 6000
	case testing.Short():
		runs = 15
	}
	acks, flushes, kills := 0, 0, 0
	dir := t.TempDir()
	for seed := range runs {
		m := &model{
			t: t, dir: filepath.Join(dir, fmt.Sprint(seed)), rand: rand.New(rand.NewPCG(uint64(seed), 24)),
			all: map[string]*process{}, lost: map[int][]byte{},
		}
		makeHome(t, filepath.Join(m.dir, "home"))
		remove := durable.SetFault(m.step)
		var wg sync.WaitGroup
		for i := range 1 + seed%5 {
			wg.Go(func() { m.live(i, 60) })
		}
		wg.Wait()
		remove()
		if t.Failed() {
			t.Fatalf("run %d", seed)
		}
		acks, flushes, kills = acks+m.acks, flushes+m.flushes, kills+m.kills
		must(t, os.RemoveAll(m.dir))
	}
	t.Logf("%d acknowledged, %d flushes, %d killed", acks, flushes, kills)
	if flushes >= acks+kills || kills < runs {
		t.Error("nothing was shared, or hardly anybody killed")
	}
}
