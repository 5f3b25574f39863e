package tree

import (
	"slices"
	"testing"
)

// A way is found wherever it begins and however long it is, and each place is
// looked at once.
func TestTreeWay(t *testing.T) {
	steps := map[int][]int{1: {2, 3}, 2: {2, 1}, 3: {4, 5}, 4: {5}, 5: {6}, 6: {3}}
	for _, c := range []struct {
		from, to, looks int
		way             []int
	}{
		{1, 1, 2, []int{1, 2, 1}},
		{1, 6, 5, []int{1, 3, 4, 5, 6}},
		{3, 3, 4, []int{3, 4, 5, 6, 3}},
		{4, 1, 4, nil},
		{7, 7, 1, nil},
	} {
		looks := 0
		way := Way(c.from, func(at int) bool { return at == c.to }, func(at int) []int { looks++; return steps[at] })
		if !slices.Equal(way, c.way) || looks != c.looks {
			t.Errorf("from %d to %d: %v at %d looks", c.from, c.to, way, looks)
		}
	}
}
