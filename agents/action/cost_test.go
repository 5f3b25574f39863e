package action

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/schemas"
)

// mostTime is what a check may take of the processor's time: ten times what it
// does take at the most, for a machine that is slow or busy.
const mostTime = 2 * time.Second

// cheap fails if a check of a text takes much time, or much memory: 64 MiB and 128
// times the text.
func cheap(t testing.TB, text string, check func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begun := used(t)
	check()
	took := used(t) - begun
	runtime.ReadMemStats(&after)
	if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; took > mostTime || mb > 64+uint64(len(text))>>13 {
		t.Errorf("%d bytes took %v and %d MiB: %.200q", len(text), took, mb, text)
	}
}

// used is the processor's time of this process.
func used(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// What has more keys and values than any action is not read in full, however deep
// in delegations it lies.
func TestCrowdedParameters(t *testing.T) {
	keys := many(100_000, func(i int) string { return fmt.Sprintf(`"k%d":1,`, i) }) + `"k":1`
	for params, path := range map[string]string{
		`{` + keys + `}`: "params",
		`{"role":"a","task":"delegate","payload":{"role":"b","task":"delegate","payload":{"role":"c","task":"write_file","payload":{` + keys + `}}}}`: "params",
		`{"role":"a","title":"b","after":[` + strings.Repeat("1,", maxValues) + `1]}`:                                                                 "params",
		`{"role":"a","title":"b","after":[` + strings.Repeat("1,", maxValues/2) + `1]}`:                                                               "params.after[0]",
		strings.Repeat("[", 900_000): "params",
	} {
		var err error
		cheap(t, params, func() { _, err = Parse("delegate", jsontext.Value(params)) })
		var bad *schemas.Error
		if !errors.As(err, &bad) || bad.Path != path {
			t.Errorf("%.60s: %v, want a fault of %s", params, err, path)
		}
	}
}

// FuzzChecks: nothing that may stand in a task takes long to check, and who says
// no says it with a name.
func FuzzChecks(f *testing.F) {
	large := func(part string) string { return strings.Repeat(part, 900_000/len(part)) }
	for name, params := range map[string]string{
		"read_file":      `{"path":"` + large("a/") + `"}`,
		"file_check":     `{"path":"` + large("..%2f") + `"}`,
		"write_file":     `{"path":"a.md","content":"` + large(`\u0001`) + `"}`,
		"http_check":     `{"url":"http://` + large("a.") + `"}`,
		"delegate":       `{"role":"a","task":"delegate","payload":` + large("[") + large("]") + `}`,
		"deploy_compose": composeParams(f, ladder(100)),
		"unknown":        `{` + large(`"a":1,`) + `"b":2}`,
	} {
		f.Add(name, params)
		f.Add("read_file", params)
		f.Add("delegate", `{"role":"a","task":"`+name+`","payload":`+params+`}`)
	}
	env, _ := workspace(f)
	f.Fuzz(func(t *testing.T, name, params string) {
		cheap(t, params, func() {
			a, err := Parse(name, jsontext.Value(params))
			if err == nil {
				err = a.Validate(Limits{})
			}
			if err == nil {
				err = a.Permit(env.Policy)
			}
			if err != nil {
				_ = schemas.Sentence(err.Error(), 300)
			}
		})
	})
}
