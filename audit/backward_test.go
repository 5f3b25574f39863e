package audit

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Whatever lengths lines have, all whole ones come, from the last to the first, with the
// place where they begin; and of those that are wanted none is passed over.
func TestLinesBackward(t *testing.T) {
	lengths := []int{0, 1, 700, 3000, MaxLine, leastBlock - 1, leastBlock + 1, mostBlock + 1}
	for seed := range uint64(60) {
		dice := rand.New(rand.NewPCG(seed, 1))
		var text []byte
		for range 1 + dice.IntN(40) {
			line := bytes.Repeat([]byte{'a' + byte(dice.IntN(4))}, dice.IntN(1+lengths[dice.IntN(len(lengths))]))
			if dice.IntN(5) == 0 {
				line = append(line, "named"...)
			}
			text = append(append(text, line...), '\n')
		}
		whole := slices.Clone(text)
		if dice.IntN(2) == 0 {
			text = append(text, bytes.Repeat([]byte("x"), dice.IntN(2*mostBlock))...) // a line that is being written
		}
		f, err := os.Create(filepath.Join(t.TempDir(), "day"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(text); err != nil {
			t.Fatal(err)
		}
		var want, got [][]byte
		var offsets, at []int64
		for offset := 0; offset < len(whole); {
			end := offset + bytes.IndexByte(whole[offset:], '\n')
			want, offsets = append(want, whole[offset:end]), append(offsets, int64(offset))
			offset = end + 1
		}
		slices.Reverse(want)
		slices.Reverse(offsets)
		for raw, offset := range linesBackward(f, int64(len(text)), anything, &err) {
			got, at = append(got, bytes.Clone(raw)), append(at, offset)
		}
		// A line that is longer than any may be left out, together with nothing else.
		for i := 0; i < len(want); i++ {
			if len(want[i]) > MaxLine && (i >= len(got) || !bytes.Equal(want[i], got[i])) {
				want, offsets = slices.Delete(want, i, i+1), slices.Delete(offsets, i, i+1)
				i--
			}
		}
		if err != nil || !slices.EqualFunc(got, want, bytes.Equal) || !slices.Equal(at, offsets) {
			t.Fatalf("seed %d: %d lines of %d, %v", seed, len(got), len(want), err)
		}
		named := func(b []byte) bool { return bytes.Contains(b, []byte("named")) }
		n := 0
		for raw := range linesBackward(f, int64(len(text)), named, &err) {
			if named(raw) {
				n++
			}
		}
		most := bytes.Count(whole, []byte("named"))
		for _, line := range bytes.Split(whole, []byte("\n")) {
			if len(line) > MaxLine && named(line) {
				most-- // which may be left out
			}
		}
		if n < most {
			t.Fatalf("seed %d: %d of %d wanted lines", seed, n, most)
		}
		f.Close()
	}
}
