package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func init() { droppedFiles = append(droppedFiles, moreDroppedFiles()...) }

// moreDroppedFiles are what else can be dropped: every field that only mbox may
// set, names with every kind of hidden character, modes, numbers, ids in use.
func moreDroppedFiles() []dropped {
	rows := []dropped{
		{name: "comment behind it", text: titled("") + " // done", ends: quarantined("trailing_data")},
		{name: "hash comment", text: "# a task\n" + titled(""), ends: quarantined("not_json")},
		{name: "two values on two lines", text: titled("") + "\n" + titled(""), ends: quarantined("trailing_data")},
		{name: "number", text: "7", ends: quarantined("wrong_type")},
		{name: "a NUL in a text", text: "{\"task\":{\"title\":\"a\x00b\"}}", ends: quarantined("not_json")},
		{name: "an escaped NUL in a text", text: `{"task":{"title":"a\u0000b"}}`, ends: admitted()},
		{name: "a raw line break in a text", text: "{\"task\":{\"title\":\"a\nb\"}}", ends: quarantined("not_json")},
		{name: "lone surrogate in a key", text: inContext(`{"\udfff":1}`), ends: quarantined("invalid_utf8")},
		{name: "bytes of a surrogate", text: inContext("\"\xed\xa0\x80\""), ends: quarantined("invalid_utf8")},
		{name: "duplicate key at depth, in mbox", text: meta(`"labels":{"a":{"b":1,"b":2}}`), ends: quarantined("duplicate_key")},
		{name: "wrong-case key at depth", text: meta(`"Depends_on":["a"]`), ends: rejected("mbox.Depends_on", "wrong_case")},
		{name: "wrong-case key in an action", text: meta(`"action":{"Name":"write_file"}`), ends: rejected("mbox.action.Name", "wrong_case")},
		{name: "depth 33", text: inContext(deep(30)), ends: quarantined("too_deep")},
		{name: "depth 33, objects", text: inContext(strings.Repeat(`{"a":`, 30) + "1" + strings.Repeat("}", 30)), ends: quarantined("too_deep")},
		{name: "a number of 100,000 digits", text: inContext(strings.Repeat("9", 100_000)), ends: rejected("task.context.a", "bad_value")},
		{name: "a number with an exponent of 100,000 digits", text: inContext("1e" + strings.Repeat("9", 100_000)), ends: rejected("task.context.a", "bad_value")},
		{name: "attempts beyond 64 bits", text: meta(`"max_attempts":99999999999999999999`), ends: rejected("mbox.max_attempts", "bad_value")},
		{name: "attempts that are no whole number", text: meta(`"max_attempts":1.5`), ends: rejected("mbox.max_attempts", "bad_value")},
		{name: "an action that is a path", text: meta(`"action":{"name":"../x"}`), ends: rejected("mbox.action.name", "bad_value")},
		{name: "labels are a list", text: meta(`"labels":[]`), ends: rejected("mbox.labels", "wrong_type")},

		{name: "2 GiB, sparse", make: sized(2 << 30), ends: quarantined("too_large")},
		{name: "symlink to a pipe", make: func(b *Box, path string) error {
			pipe := b.home + ".pipe"
			return errors.Join(unix.Mkfifo(pipe, 0o600), os.Symlink(pipe, path))
		}, ends: quarantined("not_regular")},
		{name: "character device", make: device(unix.S_IFCHR, 1, 5), ends: quarantined("not_regular")}, // /dev/zero
		{name: "block device", make: device(unix.S_IFBLK, 7, 0), ends: quarantined("not_regular")},
		{name: "device, no .json", file: "zero", make: device(unix.S_IFCHR, 1, 5), ends: quarantined("not_regular")},
		{name: "mode 0777", make: moded(0o777), ends: admitted()},
		{name: "setuid and setgid", make: moded(0o600 | fs.ModeSetuid | fs.ModeSetgid), ends: admitted()},
		{name: "may not be written", make: moded(0o400), ends: admitted()},

		{name: "id used, in progress", file: "used.json", make: earlier("Used", taken, titled("")), ends: quarantined("id_taken")},
		{name: "id used, completed", file: "used.json", make: earlier("USED", completed, titled("")), ends: quarantined("id_taken")},
		{name: "id used, completed, without .json of its case", file: "uSED.json", make: earlier("used", completed, titled(`,"id":"uSED"`)), ends: quarantined("id_taken")},
	}
	for path, field := range map[string]string{
		"mbox.revision": `"revision":1`, "mbox.attempt": `"attempt":1`, "mbox.trigger": `"trigger":"t"`,
		"mbox.progress": `"progress":{"at":"2020-01-01T00:00:00Z","message":"m"}`,
		"mbox.root_id":  `"root_id":"r"`, "mbox.depth": `"depth":1`, "mbox.waits_for": `"waits_for":["a"]`,
	} {
		rows = append(rows, dropped{name: "forged " + path, text: meta(field), ends: rejected(path, "not_yours")})
	}
	for path, field := range map[string]string{
		"result.status":            `"result":{"status":"in-progress"}`,
		"result.artifacts":         `"result":{"artifacts":[{"path":"p","size":1,"sha256":"s"}]}`,
		"assignment.picked_up_at":  `"assignment":{"picked_up_at":"2020-01-01T00:00:00Z"}`,
		"assignment.picked_up_by":  `"assignment":{"picked_up_by":""}`,
		"source.agent":             `"source":{"agent":"shared"}`,
		"assignment.target_agent ": `"assignment":{"target_agent":"human"}`,
	} {
		path, code := strings.TrimSpace(path), "not_yours"
		if strings.HasSuffix(path, "agent") {
			code = "bad_value"
		}
		rows = append(rows, dropped{name: "forged " + field, text: titled("," + field), ends: rejected(path, code)})
	}
	for i, hidden := range []string{"\t", "\r", "\b", "\x7f", "\u0085", "\u009b", "\u200b", "\u2028", "\u2066", "\u2069", "\ufeff", "\U000e0041", "\xc3\x28", "\u0430"} {
		rows = append(
			rows,
			dropped{name: fmt.Sprintf("name with %+q", hidden), file: "a" + hidden + "b.json", text: titled(""), ends: admittedAs()},
			dropped{name: fmt.Sprintf("name with %+q, no task", hidden), file: hidden + fmt.Sprint(i) + ".json", text: "[]", ends: quarantined("wrong_type")},
		)
	}
	return rows
}

func device(kind uint32, major, minor uint32) func(*Box, string) error {
	return func(_ *Box, path string) error {
		return unix.Mknod(path, kind|0o600, int(unix.Mkdev(major, minor)))
	}
}

// lacksRoot skips a row that makes a device, which only root may.
func (d *dropped) lacksRoot(t *testing.T) {
	t.Helper()
	if !strings.Contains(d.name, "device") || strings.Contains(d.name, "symlink") {
		return
	}
	probe := t.TempDir() + "/device"
	if err := unix.Mknod(probe, syscall.S_IFCHR|0o600, int(unix.Mkdev(1, 5))); err != nil {
		t.Skipf("root that may make devices is missing: %v", err)
	}
	_ = os.Remove(probe)
}

func taken(b *Box) error {
	_, err := b.Claim(context.Background(), ClaimRequest{Agent: "coder"})
	return err
}

func completed(b *Box) error {
	c, err := b.Claim(context.Background(), ClaimRequest{Agent: "coder"})
	if err != nil {
		return err
	}
	return c.Complete(context.Background(), Result{})
}

// Recover counts what it mended: no drop that was put away long ago.
func TestRecoverCountsWhatWasMended(t *testing.T) {
	b := newBox(t, Options{})
	const good = `{"task":{"title":"x"}}`
	b.drop(t, "my task.json", good)
	b.drop(t, "bad.json", `{"task":{}}`)
	must(t, scanNow(b))
	recovers := func() int {
		out, err := Recover(t.Context(), b.home, b.o, RecoverOptions{})
		must(t, err)
		return out.Mended
	}
	if n := recovers(); n != 0 {
		t.Errorf("without a fault %d are mended", n)
	}
	b.drop(t, "my task.json", good) // as if a crash had come before it was removed
	if n := recovers(); n != 1 {
		t.Errorf("%d are mended, want the one", n)
	}
	if n := recovers(); n != 0 {
		t.Errorf("then %d are mended", n)
	}
}
