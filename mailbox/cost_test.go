package mailbox

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox/task"
	"mbox/schemas"
)

// mostAllocated is what any one input of a fuzz target may make mbox allocate,
// freed again or not. It stands for the time as well, which no test measures:
// what is copied and parsed again and again shows here first.
const mostAllocated = 32 << 20

// mostForLargest is the same for the worst files of 1 MiB, which are read a
// handful of times. Never is more than a part of it in use: what a process ever
// has resident is measured with mbox up, by a test of the command.
const mostForLargest = 4 * mostAllocated

// bounded fails if do allocates more than most.
func bounded(t testing.TB, what string, most uint64, do func()) uint64 {
	t.Helper()
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	do()
	metrics.Read(sample)
	n := sample[0].Value.Uint64() - before
	if n > most {
		t.Errorf("%s allocates %d MiB, at most %d are allowed", what, n>>20, most>>20)
	}
	return n
}

// repeated is about n bytes of JSON members or elements, each made by part.
func repeated(n int, part func(i int) string) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(part(i))
	}
	return b.String()
}

// costly are texts of nearly n bytes that are as hard as can be to read, to
// refuse, or to save something of.
func costly(n int) map[string]string {
	key := func(format string) func(int) string { return func(i int) string { return fmt.Sprintf(format, i) } }
	same := func(text string) func(int) string { return func(int) string { return text } }
	n -= 1000
	return map[string]string{
		"unknown keys on top":        `{` + repeated(n, key(`"k%d":1`)) + `}`,
		"unknown keys in task":       `{"task":{` + repeated(n, key(`"k%d":1`)) + `}}`,
		"unknown keys in mbox":       `{"task":{"title":"x"},"mbox":{` + repeated(n, key(`"k%d":1`)) + `}}`,
		"unknown sections":           `{` + repeated(n, key(`"k%d":{"a":1}`)) + `}`,
		"keys in the context":        inContext(`{` + repeated(n, key(`"k%d":1`)) + `}`),
		"keys in labels":             meta(`"labels":{` + repeated(n, key(`"k%d":1`)) + `}`),
		"keys in labels, no title":   `{"task":{},"mbox":{"labels":{` + repeated(n, key(`"k%d":1`)) + `}}}`,
		"small values":               inContext(`[` + repeated(n, same(`1`)) + `]`),
		"small texts":                inContext(`[` + repeated(n, same(`""`)) + `]`),
		"empty objects":              inContext(`[` + repeated(n, same(`{}`)) + `]`),
		"nested lists":               inContext(`[` + repeated(n, same(deep(25))) + `]`),
		"brackets":                   strings.Repeat("[", n),
		"open objects":               strings.Repeat(`{"a":`, n/5),
		"one long text":              inContext(`"` + strings.Repeat("t", n) + `"`),
		"escapes":                    inContext(`"` + strings.Repeat(`\u0001`, n/6) + `"`),
		"an unfinished text":         `{"task":{"title":"` + strings.Repeat("t", n),
		"a long key":                 `{"` + strings.Repeat("k", n) + `":1}`,
		"a long title":               `{"task":{"title":"` + strings.Repeat("t", n) + `"}}`,
		"a long number":              inContext(strings.Repeat("9", n)),
		"dependencies":               meta(`"depends_on":[` + repeated(n, key(`"t%d"`)) + `]`),
		"dependencies on one":        meta(`"depends_on":[` + repeated(n, same(`"t"`)) + `]`),
		"state changes":              titled(`,"audit":{"state_changes":[` + repeated(n, same(`{"from":"pending","to":"failed","by":"a","at":"2020-01-01T00:00:00Z","reason":"r"}`)) + `]}`),
		"artifacts":                  titled(`,"result":{"artifacts":[` + repeated(n, same(`{"path":"p","size":1,"sha256":"s"}`)) + `]}`),
		"a duplicate key at the end": inContext(`{` + repeated(n, key(`"k%d":1`)) + `,"k0":2}`),
		"white space":                strings.Repeat(" ", n) + titled(""),
		"line breaks":                strings.Repeat("\n", n) + `{"task":1}`,
		"bidi":                       `{"task":{"title":"x","priority":"` + strings.Repeat(bidi, n/3) + `"}}`,
		"invalid UTF-8 at the end":   inContext(`"` + strings.Repeat("é", n/2) + "\xff\""),
	}
}

// taskCost does with a text what is done with a drop and with a task's file.
func taskCost(data []byte) {
	if t, err := task.ParseDrop("drop.json", data); err != nil {
		_ = err.Error()
	} else if err := t.Validate(); err != nil {
		_ = err.Error()
	} else if text, err := schemas.Encode(t); err == nil {
		_ = schemas.Decode(text, new(Task))
	}
}

// TestTaskCost holds what the largest and worst files cost, to read and to save
// something of, and that twice as much costs about twice as much.
func TestTaskCost(t *testing.T) {
	size := MaxTask / amount(8, 1, 1)
	half := costly(size / 2)
	for name, text := range costly(size) {
		if len(text) > MaxTask {
			t.Fatalf("%s: %d bytes", name, len(text))
		}
		for what, do := range map[string]func([]byte){
			"reading": taskCost,
			"saving":  func(data []byte) { task.Salvage("drop", data) },
		} {
			runtime.GC() // what others left is not counted, but pools are filled anew
			small := bounded(t, what+" half of "+name, mostForLargest, func() { do([]byte(half[name])) })
			large := bounded(t, what+" "+name, mostForLargest, func() { do([]byte(text)) })
			if large > 4*small+4<<20 {
				t.Errorf("%s %s takes %d KiB, half of it %d KiB: more than in proportion", what, name, large>>10, small>>10)
			}
		}
	}
}

// BenchmarkTaskCost tells how long the worst files take: 50 ms is the aim.
func BenchmarkTaskCost(b *testing.B) {
	for name, text := range costly(MaxTask) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				taskCost([]byte(text))
				task.Salvage("drop", []byte(text))
			}
		})
	}
}

// TestIndents: what indenting adds is never told too high, or a task that fits
// would be refused; and for deep lists it is told nearly right.
func TestIndents(t *testing.T) {
	for name, text := range costly(20_000) {
		v := jsontext.Value(text)
		if !v.IsValid() {
			continue
		}
		whole, err := schemas.Encode(v)
		must(t, err)
		must(t, v.Compact())
		if n := task.Indents(v); n > len(whole)-len(v) {
			t.Errorf("%s: indenting adds %d bytes, told are %d", name, len(whole)-len(v), n)
		} else if name == "nested lists" && n < (len(whole)-len(v))/2 {
			t.Errorf("%s: indenting adds %d bytes, told are only %d", name, len(whole)-len(v), n)
		}
	}
	for _, text := range []string{"[ ]", "{\n}", `{"a":[ ],"b":{}}`, `["]",",","\\\"["]`, "1", `"[,]"`} {
		v := jsontext.Value(text)
		whole, err := schemas.Encode(v)
		must(t, err)
		must(t, v.Compact())
		if n := task.Indents(v); n > len(whole)-len(v) {
			t.Errorf("%s: indenting adds %d bytes, told are %d", text, len(whole)-len(v), n)
		}
	}
}
