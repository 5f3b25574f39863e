package record

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

// TestRecordCost holds what the longest and worst records cost to read.
func TestRecordCost(t *testing.T) {
	const big = 1 << 20
	for name, text := range map[string]string{
		"sections":     strings.Repeat("## Context\n", big/11),
		"options":      goodDecisionText + strings.Repeat("1. a: b\n", big/8),
		"fences":       goodDecisionText + strings.Repeat("```\n", big/4),
		"line breaks":  goodDecisionText + strings.Repeat("\n", big),
		"backslashes":  goodDecisionText + strings.Repeat("\\", big),
		"fields":       "# Decision: decision-2026-02-16-001\n\n" + strings.Repeat("**Agent:** a\n", big/13),
		"a long line":  goodChangeText + strings.Repeat("x", big),
		"bidi":         goodChangeText + strings.Repeat("\u202e", big/3),
		"carriage":     strings.ReplaceAll(goodChangeText, "\n", "\r\n") + strings.Repeat("\r", big),
		"many headers": strings.Repeat("# Decision: decision-2026-02-16-001\n", big/36),
	} {
		bounded(t, name, func() { _, _ = ParseDecision([]byte(text)) })
		bounded(t, name, func() { _, _ = ParseChange([]byte(text)) })
	}
}
