package task

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// TestSalvageCost salvages what it can of 1 MiB of members, where mbox does not know them
// and where they are free JSON that no task has room for. It takes less than 16 times
// as many bytes of memory, of which most are garbage at once.
func TestSalvageCost(t *testing.T) {
	var members strings.Builder
	for i := 0; members.Len() < MaxTask-200; i++ {
		fmt.Fprintf(&members, `"k%d":1,`, i)
	}
	for _, text := range []string{
		`{"task":{"title":"found",%s"type":"research"}}`, `{%s"task":{"title":"found","type":"research"}}`,
		`{"task":{"title":"found","context":{%s"z":1},"type":"research"}}`,
		`{"mbox":{"labels":{%s"z":1}},"task":{"title":"found","type":"research"}}`,
	} {
		data := fmt.Appendf(nil, text, members.String())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		found := Salvage("x", data)
		runtime.ReadMemStats(&after)
		if found.Task.Title != "found" || found.Task.Type != "research" || found.Task.Context != nil || found.Mbox.Labels != nil {
			t.Errorf("%.60s: found %q of type %q, context and labels of %d and %d bytes", text, found.Task.Title, found.Task.Type, len(found.Task.Context), len(found.Mbox.Labels))
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 16*MaxTask {
			t.Errorf("%.60s: it takes %d KiB", text, took>>10)
		}
	}
}
