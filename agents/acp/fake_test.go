package acp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// peer is a program that speaks the protocol as a test wants it.
type peer struct {
	pipe *bufio.Reader
	in   *bufio.Scanner
	next int
}

func (p *peer) send(m map[string]any) {
	m["jsonrpc"] = "2.0"
	data, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", data)
}

// read is the next message; it ends the program where there is none.
func (p *peer) read() map[string]any {
	if !p.in.Scan() {
		os.Exit(0)
	}
	var m map[string]any
	if err := json.Unmarshal(p.in.Bytes(), &m); err != nil {
		panic(err)
	}
	return m
}

// ask sends a request to the client, and returns its result, or its error's message.
func (p *peer) ask(method string, params map[string]any) (map[string]any, string) {
	p.next++
	params["sessionId"] = "s1"
	p.send(map[string]any{"id": p.next, "method": method, "params": params})
	for {
		m := p.read()
		if id, _ := m["id"].(float64); m["method"] == nil && int(id) == p.next {
			if e, bad := m["error"].(map[string]any); bad {
				return nil, e["message"].(string)
			}
			result, _ := m["result"].(map[string]any)
			return result, ""
		}
	}
}

func (p *peer) update(update map[string]any) {
	p.send(map[string]any{"method": "session/update", "params": map[string]any{"sessionId": "s1", "update": update}})
}

func (p *peer) say(text string) {
	p.update(map[string]any{"sessionUpdate": "agent_message_chunk", "content": map[string]any{"type": "text", "text": text}})
}

func forever() {
	for {
		time.Sleep(time.Hour)
	}
}

// play is the whole program: it says hello as everybody does, and does its act when
// the prompt comes.
func play(as string) {
	p := &peer{pipe: bufio.NewReader(os.Stdin), next: 1000}
	p.in = bufio.NewScanner(p.pipe)
	p.in.Buffer(nil, 16<<20)
	if as == "garbage" {
		for range 100_000 {
			fmt.Println("no JSON at all")
		}
	}
	for {
		m := p.read()
		result := map[string]any{}
		switch m["method"] {
		case "initialize":
			if as == "mute" {
				forever()
			}
			if as == "unread" {
				p.fillStdin()
			}
			result["protocolVersion"] = map[bool]int{true: 9}[as == "newer"] + 1
			fmt.Println("Welcome! This is no JSON.")
		case "session/new":
			if as == "login" {
				p.send(map[string]any{"id": m["id"], "error": map[string]any{"code": -32000, "message": "Authentication required"}})
				continue
			}
			result["sessionId"] = "s1"
		case "session/prompt":
			text := m["params"].(map[string]any)["prompt"].([]any)[0].(map[string]any)["text"].(string)
			result["stopReason"] = p.act(as, text)
			if as == "spent" {
				p.send(map[string]any{"id": m["id"], "error": map[string]any{"code": -32603, "message": "usage limit reached|4000000000"}})
				continue
			}
		default:
			continue
		}
		p.send(map[string]any{"id": m["id"], "result": result})
		if as == "unread" {
			forever()
		}
	}
}

// fillStdin asks for more than its stdin holds, and returns when that is being written.
func (p *peer) fillStdin() {
	if err := os.WriteFile("big.md", []byte(strings.Repeat("x", 90_000)), 0o600); err != nil {
		panic(err)
	}
	p.send(map[string]any{"id": 1, "method": "fs/read_text_file", "params": map[string]any{"sessionId": "s1", "path": "big.md"}})
	_, _ = p.pipe.Peek(1)
}

func (p *peer) act(as, prompt string) (stop string) {
	switch as {
	case "good":
		p.good(prompt)
	case "permission":
		return p.permission()
	case "guarded":
		p.guarded()
	case "busy":
		p.busy()
	case "spent":
		return "spent"
	case "speaks of quotas":
		p.say("usage limit reached|4000000000")
	case "twin":
		return p.twin()
	case "windy":
		p.send(map[string]any{"id": 1, "result": strings.Repeat("x", 2<<20)})
		forever()
	case "named":
		p.send(map[string]any{"id": strings.Repeat("x", 1000), "method": "terminal/output", "params": map[string]any{}})
		forever()
	case "giant":
		fmt.Println(strings.Repeat("x", 5<<20))
		forever()
	case "hang":
		signal.Ignore(syscall.SIGTERM)
		forever()
	case "deaf": // it asks and asks, and reads nothing
		for i := range 1_000_000 {
			p.send(map[string]any{"id": i, "method": "fs/read_text_file", "params": map[string]any{"sessionId": "s1", "path": "x"}})
		}
	case "leaves": // more questions than are answered at once, none of which will be
		made, failed := p.ask("terminal/create", map[string]any{"command": "sleep", "args": []string{"600"}})
		if failed != "" {
			return failed
		}
		for i := range 2 * maxRequests {
			p.send(map[string]any{"id": i, "method": "terminal/wait_for_exit", "params": map[string]any{"sessionId": "s1", "terminalId": made["terminalId"]}})
		}
		os.Exit(3)
	case "dies":
		fmt.Fprintln(os.Stderr, "out of memory")
		os.Exit(3)
	case "flood":
		for range 5000 {
			p.say("x")
		}
	case "refuses":
		p.say("I will not: usage limit reached|4000000000")
		return "refusal"
	}
	return "end_turn"
}

// good does what an honest agent does, and a little more.
func (p *peer) good(prompt string) {
	p.say("I look around.")
	p.update(map[string]any{"sessionUpdate": "plan", "entries": []any{
		map[string]any{"content": "look", "status": "completed"}, map[string]any{"content": "write it all down", "status": "in_progress"},
	}})
	here, _ := os.Getwd()
	var told []string
	tell := func(what string, result map[string]any, failed string) map[string]any {
		if failed != "" {
			what += " refused (" + failed + ")"
		}
		told = append(told, what)
		return result
	}
	try := func(what, method string, params map[string]any) map[string]any {
		result, failed := p.ask(method, params)
		return tell(what, result, failed)
	}
	try("write", "fs/write_text_file", map[string]any{"path": here + "/a.md", "content": "one\ntwo\nthree\n"})
	read := try("read", "fs/read_text_file", map[string]any{"path": here + "/a.md", "line": 2, "limit": 1})
	told = append(told, fmt.Sprintf("%q", read["content"]))
	try("read outside", "fs/read_text_file", map[string]any{"path": os.Getenv("ACP_CANARY")})
	try("write outside", "fs/write_text_file", map[string]any{"path": os.Getenv("ACP_CANARY"), "content": "x"})
	try("write up", "fs/write_text_file", map[string]any{"path": here + "/../b.md", "content": "x"})
	made := try("run", "terminal/create", map[string]any{"command": "echo", "args": []string{"it's", "$HOME"}, "env": []any{map[string]any{"name": "X", "value": "1"}}})
	ended := try("wait", "terminal/wait_for_exit", map[string]any{"terminalId": made["terminalId"]})
	screen := try("output", "terminal/output", map[string]any{"terminalId": made["terminalId"]})
	told = append(told, fmt.Sprintf("%v %q", ended["exitCode"], screen["output"]))
	try("release", "terminal/release", map[string]any{"terminalId": made["terminalId"]})
	try("released", "terminal/output", map[string]any{"terminalId": made["terminalId"]})
	try("forbidden", "terminal/create", map[string]any{"command": "curl", "args": []string{"http://127.0.0.1:1/"}})
	try("hidden", "terminal/create", map[string]any{"command": "echo $(nc 127.0.0.1 1)"})
	try("preload", "terminal/create", map[string]any{"command": "echo", "args": []string{"x"}, "env": []any{map[string]any{"name": "LD_PRELOAD", "value": "x"}}})
	try("unknown", "fs/delete_everything", map[string]any{})
	p.update(map[string]any{"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Edit b.md", "kind": "edit", "locations": []any{map[string]any{"path": here + "/b.md"}}})
	p.update(map[string]any{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed"})
	if !strings.Contains(prompt, "Tidy up") {
		told = append(told, "the prompt lacks the task")
	}
	p.say("Done: ")
	p.say(strings.Join(told, " | "))
}

// permission asks for two things; what it is told is its answer.
func (p *peer) permission() string {
	var told []string
	for i, what := range []string{"push", "push", "drop"} {
		id := fmt.Sprintf("%d-%d", os.Getpid(), i) // its ids are other ones each time
		p.update(map[string]any{
			"sessionUpdate": "tool_call", "toolCallId": id, "title": what + " it", "kind": "execute", "status": "pending",
			"rawInput": map[string]any{"command": what, "n": json.Number("12345678901234567890")},
		})
		result, failed := p.ask("session/request_permission", map[string]any{
			"toolCall": map[string]any{"toolCallId": id, "status": "pending"},
			"options": []any{
				map[string]any{"optionId": "always", "name": "Always", "kind": "allow_always"},
				map[string]any{"optionId": "yes", "name": "Yes", "kind": "allow_once"},
				map[string]any{"optionId": "no", "name": "No", "kind": "reject_once"},
			},
		})
		outcome, _ := result["outcome"].(map[string]any)
		if outcome["outcome"] == "cancelled" {
			return "cancelled"
		}
		told = append(told, fmt.Sprint(what, " ", outcome["optionId"], failed))
	}
	p.say(strings.Join(told, ", "))
	return "end_turn"
}

// guarded writes a file and runs a command; what it is told is its answer.
func (p *peer) guarded() {
	_, wrote := p.ask("fs/write_text_file", map[string]any{"path": "a.md", "content": "x"})
	_, ran := p.ask("terminal/create", map[string]any{"command": "touch", "args": []string{"b.md"}})
	p.say(fmt.Sprintf("%q %q", wrote, ran))
}

// twin asks for a permission whose request is that of write_file, letter for letter, and
// once it has asked it writes the file without asking again.
func (p *peer) twin() string {
	if _, err := os.Stat("asked"); err == nil {
		_, failed := p.ask("fs/write_text_file", map[string]any{"path": "a.md", "content": "x"})
		p.say("wrote " + failed)
		return "end_turn"
	}
	if err := os.WriteFile("asked", nil, 0o600); err != nil {
		panic(err)
	}
	p.ask("session/request_permission", map[string]any{
		"toolCall": map[string]any{"toolCallId": "1", "path": "a.md", "content": "x"}, "options": []any{map[string]any{"optionId": "yes", "name": "Yes", "kind": "allow_once"}},
	})
	return "end_turn"
}

// busy writes a file, reads it 150 times and runs a command; what is refused is counted.
func (p *peer) busy() {
	refused, why := 0, ""
	try := func(method string, params map[string]any) {
		if _, failed := p.ask(method, params); failed != "" {
			refused, why = refused+1, failed
		}
	}
	try("fs/write_text_file", map[string]any{"path": "a.md", "content": "x"})
	for range 150 {
		try("fs/read_text_file", map[string]any{"path": "a.md"})
	}
	try("terminal/create", map[string]any{"command": "echo", "args": []string{"x"}})
	p.say(fmt.Sprintf("%d refused: %s", refused, why))
}
