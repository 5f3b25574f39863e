package audit

import (
	"runtime/metrics"
	"strings"
	"testing"
)

// bounded fails if do allocates more than 32 MiB, freed again or not. It stands
// for the time as well, which no test measures.
func bounded(t testing.TB, what string, do func()) {
	t.Helper()
	const most = 32 << 20
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	do()
	metrics.Read(sample)
	if n := sample[0].Value.Uint64() - before; n > most && !raced {
		t.Errorf("%s: %d MiB are allocated, at most %d are allowed", what, n>>20, most>>20)
	}
}

// TestCost holds what the longest and worst lines cost to read.
func TestCost(t *testing.T) {
	line := func(details string) []byte {
		return closed([]byte(`{"action":"a","agent":"coder","details":` + details + `,"event":"error","prev":"sha256:` + strings.Repeat("0", 64) + `","seq":7,"session":null,"task_id":null,"ts":"2026-02-16T10:30:00.123Z","v":1}`))
	}
	const room = MaxLine - 500
	for name, raw := range map[string][]byte{
		"small values": line("{\"a\":[" + strings.Repeat("1,", room/2) + "1]}"),
		"brackets":     line("{\"a\":" + strings.Repeat("[", room/2) + strings.Repeat("]", room/2) + "}"),
		"prevs":        line("{\"a\":\"" + strings.Repeat(`\",\"prev\":\"`, room/14) + "\"}"),
		"escapes":      line("{\"a\":\"" + strings.Repeat(`\u0001`, room/6) + "\"}"),
		"quotes":       []byte(strings.Repeat(`"`, MaxLine)),
		"suffixes":     []byte(strings.Repeat(suffixKey, MaxLine/len(suffixKey))),
	} {
		if len(raw) > MaxLine+1 {
			t.Fatalf("%s: %d bytes", name, len(raw))
		}
		bounded(t, name, func() { check(t, raw) })
	}
}
