package audit

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// allocated is how many bytes do asks the memory for, freed again or not.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// walk reads the ledger from its beginning, forwards, and returns the seqs.
func walk(t *testing.T, l *Ledger) (seqs []int64, broken *Broken) {
	t.Helper()
	r := newReader(l.home, l.genesis, Position{})
	defer r.Close()
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			if r.day != nil && cap(r.day.buf) > 1<<20 {
				t.Errorf("the reader holds %d bytes", cap(r.day.buf))
			}
			return seqs, r.Broken()
		}
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, line.Seq)
	}
}

// TestMuchJunk writes more junk into a ledger than a reader may hold. Whether an
// audit_repaired line names it, as one line or as many, whether somebody still
// has to: reading it takes a bounded amount of memory, in both directions.
func TestMuchJunk(t *testing.T) {
	const size = 24 << 20
	for _, row := range []struct {
		name, junk string
		mended     bool
		younger    bool // a file of the day after follows
		lines      int  // that are read
		broken     bool
	}{
		{"one line, mended", strings.Repeat("x", size), true, false, 4, false},
		{"many lines, mended", strings.Repeat(strings.Repeat("y", 999)+"\n", size/1000), true, false, 4, false},
		{"lines too long, mended", strings.Repeat(strings.Repeat("z", MaxLine+1)+"\n", size/MaxLine), true, false, 4, false},
		{"one line", strings.Repeat("x", size), false, false, 2, false},
		{"one line with its newline", strings.Repeat("x", size) + "\n", false, false, 2, true},
		{"many lines", strings.Repeat(strings.Repeat("y", 999)+"\n", size/1000), false, false, 2, true},
		{"one line, and a younger file", strings.Repeat("x", size), false, true, 2, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := &clock{time.Date(2026, 2, 16, 10, 0, 0, 0, time.UTC)}
			l := newLedger(t, c)
			appendNote(t, l, "coder", "one")
			appendNote(t, l, "coder", "two")
			addBytes(t, newestPath(t, l), row.junk)
			if row.mended {
				appendNote(t, l, "coder", "three")
			}
			if row.younger {
				next := strings.Replace(newestPath(t, l), "-16.", "-17.", 1)
				if err := os.WriteFile(next, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			row.junk = ""
			var seqs []int64
			var broken *Broken
			if n := allocated(func() { seqs, broken = walk(t, l) }); n > size/3 {
				t.Errorf("reading took %d bytes", n)
			}
			if len(seqs) != row.lines || (broken != nil) != row.broken {
				t.Errorf("read %v, broken %v", seqs, broken)
			}
			back := 0
			n := allocated(func() {
				for line, err := range l.Backward() {
					if err != nil {
						t.Fatal(err)
					}
					if back++; bytes.Contains(line.Raw, []byte("xxx")) {
						t.Errorf("seq %d is junk", line.Seq)
					}
				}
			})
			if n > 3*size || back != row.lines {
				t.Errorf("backwards %d lines took %d bytes", back, n)
			}
		})
	}
}
