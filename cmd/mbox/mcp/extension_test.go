package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"mbox/mailbox"
)

// liner is a client that writes and reads messages as they are on the wire.
type liner struct {
	t    *testing.T
	to   io.Writer
	from *bufio.Scanner
	n    int
}

func line(t *testing.T, s *Server) *liner {
	in, to := io.Pipe()
	from, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- s.Serve(t.Context(), in, out) }()
	t.Cleanup(func() {
		to.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	scanner := bufio.NewScanner(from)
	scanner.Buffer(nil, 1<<20)
	return &liner{t: t, to: to, from: scanner}
}

type reply struct {
	ID     int
	Result map[string]any
	Error  *struct {
		Code    int
		Message string
		Data    any
	}
}

const declaring = `"extensions":{"io.modelcontextprotocol/tasks":{}}`

// ask sends a request of revision 2026-07-28 with these capabilities.
func (l *liner) ask(method, params, capabilities string) reply {
	l.t.Helper()
	l.n++
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{` + capabilities + `}}`
	if _, err := fmt.Fprintf(l.to, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s,%s}}`+"\n", l.n, method, params, meta); err != nil {
		l.t.Fatal(err)
	}
	for l.from.Scan() {
		var r reply
		if err := json.Unmarshal(l.from.Bytes(), &r); err != nil {
			l.t.Fatalf("%v in %s", err, l.from.Bytes())
		}
		if r.ID == l.n {
			return r
		}
	}
	l.t.Fatal("no reply: ", l.from.Err())
	return reply{}
}

func (l *liner) status(id any) (string, reply) {
	l.t.Helper()
	r := l.ask("tasks/get", fmt.Sprintf(`"taskId":%q`, id), declaring)
	if r.Error != nil || r.Result["resultType"] != "complete" || r.Result["taskId"] != id {
		l.t.Fatalf("tasks/get %s: %+v", id, r)
	}
	status, _ := r.Result["status"].(string)
	return status, r
}

// A client that declares the extension gets the task, and sees it go through the states.
func TestExtension(t *testing.T) {
	t.Parallel()
	needs := func(t *mailbox.Task) string {
		if t.Mbox.Action != nil {
			return "its action needs one"
		}
		return ""
	}
	box := newBox(t, mailbox.Options{Approval: needs})
	l, coder := line(t, as(box, "")), connect(t, as(box, "coder"), nil)
	if caps := l.ask("server/discover", `"x":1`, "").Result["capabilities"]; !strings.Contains(fmt.Sprint(caps), tasksExtension) {
		t.Errorf("capabilities are %v", caps)
	}
	send := func(arguments string) any {
		r := l.ask("tools/call", `"name":"send_task","arguments":{`+arguments+`}`, declaring)
		if r.Error != nil || r.Result["resultType"] != "task" || r.Result["status"] == nil || r.Result["ttlMs"] != nil || r.Result["pollIntervalMs"] == nil {
			t.Fatalf("send_task %s: %+v", arguments, r)
		}
		return r.Result["taskId"]
	}

	id := send(`"title":"one","to":"coder"`)
	if status, _ := l.status(id); status != "working" {
		t.Errorf("pending is %s", status)
	}
	call[claimOutput](coder, "claim_task", nil)
	call[stateOutput](coder, "report_progress", args{"id": id, "percent": 50, "message": "half"})
	if status, r := l.status(id); status != "working" || r.Result["statusMessage"] != "50% half" {
		t.Errorf("in progress is %+v", r)
	}
	wait := l.ask("tools/call", fmt.Sprintf(`"name":"wait_for_task","arguments":{"id":%q,"timeout_seconds":300}`, id), declaring)
	if wait.Result["resultType"] != "task" || wait.Result["taskId"] != id {
		t.Errorf("wait_for_task answers %+v", wait)
	}
	call[stateOutput](coder, "complete_task", args{"id": id, "output": "all of it"})
	status, r := l.status(id)
	if result := fmt.Sprint(r.Result["result"]); status != "completed" || !strings.Contains(result, "all of it") || !strings.Contains(result, "isError:false") {
		t.Errorf("completed is %+v", r)
	}
	if wait := l.ask("tools/call", fmt.Sprintf(`"name":"wait_for_task","arguments":{"id":%q}`, id), declaring); wait.Result["resultType"] != "complete" {
		t.Errorf("of a task that has ended wait_for_task answers %+v", wait)
	}

	id = send(`"title":"two","to":"coder"`)
	call[claimOutput](coder, "claim_task", nil)
	call[stateOutput](coder, "fail_task", args{"id": id, "reason": "no disk", "final": true})
	if status, r := l.status(id); status != "completed" || !strings.Contains(fmt.Sprint(r.Result["result"]), "isError:true") || r.Result["error"] != nil {
		t.Errorf("failed is %+v", r)
	}

	id = send(`"title":"three","to":"coder","action":{"name":"write_file"}`)
	if status, r := l.status(id); status != "input_required" || fmt.Sprint(r.Result["inputRequests"]) != "map[]" || !strings.Contains(fmt.Sprint(r.Result["statusMessage"]), "mbox approve") {
		t.Errorf("to be approved is %+v", r)
	}
	for _, method := range []string{"tasks/update", "tasks/cancel"} {
		r := l.ask(method, fmt.Sprintf(`"taskId":%q,"inputResponses":{"approve":{"action":"accept"}}`, id), declaring)
		if r.Error != nil || r.Result["resultType"] != "complete" {
			t.Errorf("%s: %+v", method, r)
		}
	}
	if status, _ := l.status(id); status != "input_required" {
		t.Errorf("after tasks/update and tasks/cancel it is %s", status)
	}
	if err := box.Cancel(t.Context(), mailbox.ID(id.(string)), "human", "not now"); err != nil {
		t.Fatal(err)
	}
	if status, r := l.status(id); status != "cancelled" || r.Result["result"] != nil {
		t.Errorf("cancelled is %+v", r)
	}
}

// Nobody gets a task who did not ask for it, or may not see it.
func TestExtensionRefuses(t *testing.T) {
	t.Parallel()
	box := newBox(t, mailbox.Options{})
	l, other := line(t, as(box, "coder")), line(t, as(box, "other"))
	r := l.ask("tools/call", `"name":"send_task","arguments":{"title":"x","to":"coder"}`, "")
	structured, _ := r.Result["structuredContent"].(map[string]any)
	if r.Result["resultType"] != "complete" || structured["id"] == nil {
		t.Fatalf("without the capability: %+v", r)
	}
	id := fmt.Sprintf(`"taskId":%q`, structured["id"])
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		if r := l.ask(method, id, ""); r.Error == nil || r.Error.Code != -32021 || !strings.Contains(fmt.Sprint(r.Error.Data), tasksExtension) {
			t.Errorf("%s without the capability: %+v", method, r)
		}
		if r := other.ask(method, id, declaring); r.Error == nil || r.Error.Code != -32602 {
			t.Errorf("%s of a hidden task: %+v", method, r)
		}
		if r := l.ask(method, `"taskId":"nowhere"`, declaring); r.Error == nil || r.Error.Code != -32602 {
			t.Errorf("%s of no task: %+v", method, r)
		}
		if r := l.ask(method, `"x":1`, declaring); r.Error == nil || r.Error.Code != -32602 {
			t.Errorf("%s without an id: %+v", method, r)
		}
	}
	if r := l.ask("tools/call", `"name":"send_task","arguments":{}`, declaring); r.Result["isError"] != true {
		t.Errorf("a wrong call: %+v", r)
	}
	if r := l.ask("tasks/list", `"x":1`, declaring); r.Error == nil || r.Error.Code != -32601 {
		t.Errorf("tasks/list: %+v", r)
	}
}
