package audit

import (
	"strings"
	"testing"
)

// TestDecodeStrictly changes one thing in the body of a good line, whose
// checksum is right again afterwards: what a Reader, recovery and the commands
// decode has to be as strict as what verify proves.
func TestDecodeStrictly(t *testing.T) {
	const body = `{"action":"a","agent":"coder","details":{"session":null,"task_id":null},"event":"error","prev":"sha256:0","seq":7,"session":null,"task_id":"t1","ts":"2026-02-16T10:30:00.123Z","v":1}`
	if e, err := (Line{Raw: closed([]byte(body))}).Decode(); err != nil || e.Seq != 7 || e.Task() != "t1" || e.Session != nil {
		t.Fatalf("%+v: %v", e, err)
	}
	for _, row := range []struct{ name, old, text string }{
		{"no action", `"action":"a",`, ``},
		{"no agent", `"agent":"coder",`, ``},
		{"no details", `"details":{"session":null,"task_id":null},`, ``},
		{"details are a list", `{"session":null,"task_id":null}`, `[]`},
		{"no event", `"event":"error",`, ``},
		{"no prev", `"prev":"sha256:0",`, ``},
		{"no seq", `"seq":7,`, ``},
		{"seq 0", `"seq":7`, `"seq":0`},
		{"no session", `"seq":7,"session":null,`, `"seq":7,`},
		{"no task", `"task_id":"t1",`, ``},
		{"no ts", `"ts":"2026-02-16T10:30:00.123Z",`, ``},
		{"no v", `,"v":1`, ``},
		{"v 2", `"v":1`, `"v":2`},
		{"an unknown field", `"v":1`, `"v":1,"w":1`},
		{"a field twice", `"seq":7`, `"seq":7,"seq":7`},
		{"an hour of one digit", `T10:`, `T1:`},
		{"a comma in the time", `00.123Z`, `00,123Z`},
		{"no decimals", `00.123Z`, `00Z`},
		{"two decimals", `00.123Z`, `00.12Z`},
		{"four decimals", `00.123Z`, `00.1234Z`},
		{"an offset", `00.123Z`, `00.123+00:00`},
		{"a small z", `00.123Z`, `00.123z`},
		{"a day that is none", `02-16T`, `02-30T`},
		{"the 60th second", `30:00.`, `30:60.`},
		{"the 24th hour", `T10:`, `T24:`},
	} {
		changed := strings.Replace(body, row.old, row.text, 1)
		if changed == body {
			t.Fatalf("%s: nothing to change", row.name)
		}
		if e, err := (Line{Raw: closed([]byte(changed))}).Decode(); err == nil {
			t.Errorf("%s: taken as %+v", row.name, e)
		}
	}
	// Text from outside that looks like the missing field does not stand for it.
	for _, text := range []string{`x,"session":null,`, `,\"session\":null,`} {
		bad := strings.Replace(body, `"seq":7,"session":null,`, `"seq":7,`, 1)
		bad = strings.Replace(bad, `"action":"a"`, `"action":"`+strings.ReplaceAll(text, `"`, `\"`)+`"`, 1)
		if _, err := (Line{Raw: closed([]byte(bad))}).Decode(); err == nil {
			t.Errorf("taken: %s", bad)
		}
	}
}
