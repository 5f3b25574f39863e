package config

import (
	"bytes"
	"runtime/metrics"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

// bounded fails if do allocates more than 32 MiB, freed again or not.
func bounded(t testing.TB, do func()) {
	t.Helper()
	const most = 32 << 20
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	do()
	metrics.Read(sample)
	if n := sample[0].Value.Uint64() - before; n > most {
		t.Errorf("%d MiB are allocated, at most %d are allowed", n>>20, most>>20)
	}
}

// checkRoundTrip writes what was read, and reads it again.
func checkRoundTrip(t *testing.T, c *File) {
	t.Helper()
	text, err := toml.Marshal(c)
	if err != nil {
		t.Fatalf("was read but is not written: %v", err)
	}
	again, err := Parse(Name, text)
	if err != nil {
		t.Fatalf("its own encoding is refused: %v\n%s", err, text)
	}
	if second, err := toml.Marshal(again); err != nil || !bytes.Equal(text, second) {
		t.Errorf("read again it is another (%v):\n%s\n%s", err, text, second)
	}
}
