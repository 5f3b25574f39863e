package imsg

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mbox/agents/chat"
	"mbox/agents/sandbox"
)

// The test binary is also the keeper of children, and the child: imsg as its
// docs/rpc.md has it, with a folder for a database and a name for what is wrong with it.
func TestMain(m *testing.M) {
	sandbox.Main()
	if len(os.Args) > 3 && os.Args[1] == "fake-imsg" {
		(&fake{folder: os.Args[2], fault: os.Args[3]}).run()
		os.Exit(0)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // else each of them sleeps a second at its end
	environment = append(environment, "GORACE")
	os.Exit(m.Run())
}

type object = map[string]any

type fake struct {
	folder, fault string
	mu            sync.Mutex
}

func (f *fake) write(o object) {
	o["jsonrpc"] = "2.0"
	text, _ := json.Marshal(o)
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Printf("%s\n", text)
}

func (f *fake) run() {
	_ = os.WriteFile(filepath.Join(f.folder, "environment"), []byte(strings.Join(os.Environ(), "\n")), 0o600)
	switch f.fault {
	case "dies":
		fmt.Fprintln(os.Stderr, "no Full Disk\x1b Access")
		os.Exit(3)
	case "prose":
		fmt.Println("Welcome to imsg!")
	case "endless":
		for range 1100 {
			fmt.Print(strings.Repeat("x", 4096))
		}
	case "brother": // leaves somebody behind who holds its streams
		cmd := exec.Command("sleep", "1000")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		os.Exit(1)
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var r struct {
			ID     any
			Method string
			Params object
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			os.Exit(9)
		}
		f.answer(r.ID, r.Method, r.Params)
	}
	if f.fault == "stays" {
		select {}
	}
}

func (f *fake) answer(id any, method string, params object) {
	if f.fault == "silent" {
		return
	}
	text, _ := json.Marshal(params)
	note, _ := os.OpenFile(filepath.Join(f.folder, method), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	fmt.Fprintf(note, "%s\n", text)
	note.Close()
	fails := func(code int, data any) {
		f.write(object{"id": id, "error": object{"code": code, "message": "no", "data": data}})
	}
	switch {
	case method == "status" && f.fault == "old", method == "chats.list" && f.fault == "no imsg":
		fails(codeMethod, method)
	case f.fault == "no database" && method == "watch.subscribe":
		fails(codeDatabase, object{"detail": "grant Full Disk Access", "retryable": true})
	case method == "send" && f.fault == "refuses":
		fails(codeParams, "unknown chat_id 7")
	case method == "send" && f.fault == "unknown":
		fails(-32001, object{"retry_safe": false, "disposition": "may_have_completed"})
	case method == "status":
		f.write(object{"id": id, "result": object{"version": "0.15.10", "database": object{
			"path": "/Users/me/Library/Messages/chat.db", "ready": f.fault != "no database", "error": "cannot be opened",
		}}})
	case method == "send":
		f.write(object{"id": id, "result": object{"ok": true, "id": 7, "guid": "SENT"}})
	case method == "watch.subscribe":
		since, _ := params["since_rowid"].(float64)
		if since == 0 {
			since = float64(len(f.messages()))
		}
		f.write(object{"id": id, "result": object{"subscription": 1, "buffer_limit": 256}})
		go f.watch(int(since))
	default:
		f.write(object{"id": id, "result": object{}})
	}
}

func (f *fake) messages() []json.RawMessage {
	text, _ := os.ReadFile(filepath.Join(f.folder, "messages"))
	var out []json.RawMessage
	for line := range strings.Lines(string(text)) {
		if strings.HasSuffix(line, "\n") {
			out = append(out, json.RawMessage(line))
		}
	}
	return out
}

// watch tells the messages behind a row, each once more than is wanted where the
// fault says so: delivery is at least once.
func (f *fake) watch(since int) {
	for ; ; time.Sleep(time.Millisecond) {
		all := f.messages()
		for _, m := range all[min(since, len(all)):] {
			f.write(object{"method": "message", "params": object{"subscription": 1, "message": m}})
			since++
		}
		if f.fault == "overflow" {
			f.write(object{"method": "watch.overflow", "params": object{"subscription": 1, "resume_after_rowid": since, "terminal": true}})
		}
	}
}

// mac is a folder that the fake takes for the Mac's database.
type mac struct {
	t      *testing.T
	folder string
	n      int
}

func newMac(t *testing.T) *mac { return &mac{t: t, folder: t.TempDir()} }

func (m *mac) channel(fault string, rooms ...string) chat.Channel {
	self, err := os.Executable()
	if err != nil {
		m.t.Fatal(err)
	}
	c, err := open(chat.Settings{Command: []string{self, "fake-imsg", m.folder, fault}, Rooms: rooms, Log: m.t.Logf})
	if err != nil {
		m.t.Fatal(err)
	}
	return c
}

// add adds a message, of alice where it says nothing else.
func (m *mac) add(changes object) {
	m.n++
	row := object{
		"id": m.n, "cursor": m.n, "chat_id": 1, "guid": fmt.Sprint("G", m.n), "chat_guid": "iMessage;-;" + alice, "is_group": false,
		"sender": alice, "is_from_me": false, "text": fmt.Sprint("hello ", m.n), "created_at": "2026-11-23T01:02:03.500Z", "attachments": []object{},
	}
	for k, v := range changes {
		row[k] = v
	}
	text, err := json.Marshal(row)
	if err != nil {
		m.t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(m.folder, "messages"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		m.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(append(text, '\n')); err != nil {
		m.t.Fatal(err)
	}
}

// wrote is what the fake noted.
func (m *mac) wrote(name string) string {
	text, _ := os.ReadFile(filepath.Join(m.folder, name))
	return string(text)
}
