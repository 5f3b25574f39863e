package audit

import (
	"os"
	"path/filepath"
	"testing"
)

// A line whose writer was killed before its head record stands behind the end that
// the record tells. What the reader saw of the file's end before it asked for that
// end does not hide it.
func TestRule09_ReachedLooksAnew(t *testing.T) {
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	r := l.Read(Position{})
	defer r.Close()
	_, err := r.Next()
	must(t, err)
	end, seen := l.Seen()
	if !seen || !r.Reached(end, true) || !r.Reached(end, false) {
		t.Fatalf("%+v is not reached: %v", end, seen)
	}
	f, err := os.OpenFile(filepath.Join(sharedDir(l.home), end.File), os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = f.WriteString("{")
	must(t, err)
	must(t, f.Close())
	if r.Reached(end, false) {
		t.Error("what stands behind is not seen")
	}
}
