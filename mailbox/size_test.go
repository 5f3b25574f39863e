package mailbox

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// amount is how much a test does: with -short, normally, or with MBOX_TORTURE set.
func amount(short, normal, long int) int {
	switch {
	case os.Getenv("MBOX_TORTURE") != "":
		return long
	case testing.Short():
		return short
	}
	return normal
}

// stride is how far apart the writes are at which a sweep lets something happen. The
// short form, which runs again under the race detector what ran without, leaves most out.
func stride() int { return amount(3, 1, 1) }

// seedOf is where a test begins to draw: the same for everybody, so that what is
// red for one is red for all; another one in each long run; MBOX_SEED, if set.
func seedOf(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(1)
	if amount(0, 0, 1) == 1 {
		seed = rand.Uint64()
	}
	if text := os.Getenv("MBOX_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("MBOX_SEED: %v", err)
		}
	}
	t.Logf("MBOX_SEED=%d draws the same again", seed)
	return seed
}
