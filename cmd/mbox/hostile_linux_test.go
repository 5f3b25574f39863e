package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mbox/audit/delegation"
	"mbox/schemas"
)

// hostile is text that takes a terminal over: it clears the screen, sets the
// title, recolours, rings, moves the cursor (by C0, DEL and C1 codes), turns the
// direction around, hides in zero-width characters and tags, and breaks lines.
const hostile = "H\x1b[2J\x1b]0;owned\x07\x1b[31m\b\r\u009b1m\u0085\x7f\u202eesrever\u2066\u200b\ufeff\u2028\U000e0041\tT\nN"

// hostileHome is a home in which every text that somebody outside may choose is
// hostile: in tasks, results, records, file names, configuration and ledger.
func hostileHome(t *testing.T) (home string) {
	t.Helper()
	dir := t.TempDir()
	home = filepath.Join(dir, "home")
	s := &storm{T: t, bin: "mbox", dir: dir, home: home}
	s.must("init", "--sync", "none")
	send := func(id string, more ...string) {
		task := map[string]any{
			"id": id, "source": map[string]any{"agent": "asker", "user": hostile, "session": hostile},
			"task": map[string]any{"title": hostile, "description": hostile, "context": map[string]any{hostile: hostile, "conversation_summary": hostile}},
			"mbox": map[string]any{"idempotency_key": hostile + id, "labels": map[string]any{hostile: hostile}, "action": map[string]any{"name": "write_file", "params": map[string]any{hostile: hostile}}},
		}
		data, err := json.Marshal(task)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "task.json")
		hostileWrite(t, file, string(data))
		s.must(append([]string{"send", file}, more...)...)
	}
	hostileWrite(t, filepath.Join(home, "mbox.toml"), "sync = \"none\"\nstart_within = \"1s\"\n[agents.coder]\nactions = [\"write_file\"]\n"+
		"[risk_profiles.default]\nshell_env_passthrough = [\"MBOX_HOSTILE\"]\n")
	for _, id := range []string{"done", "failed", "held", "again", "edited", "waiting"} {
		send(id)
	}
	claim := func() (id, token string) {
		var task struct {
			ID   string `json:"id"`
			Mbox struct {
				Lease struct {
					Token string `json:"token"`
				} `json:"lease"`
			} `json:"mbox"`
		}
		if err := json.Unmarshal([]byte(s.must("claim", "--agent", "coder", "--json")), &task); err != nil {
			t.Fatal(err)
		}
		return task.ID, task.Mbox.Lease.Token
	}
	for range 5 {
		id, token := claim()
		with := []string{id, "--token", token}
		s.must(append([]string{"progress", "--message", hostile}, with...)...)
		switch id {
		case "done", "edited":
			s.must(append([]string{"complete", "--output", hostile}, with...)...)
		case "failed":
			s.must(append([]string{"fail", "--final", "--reason", hostile}, with...)...)
		case "again":
			s.must(append([]string{"fail", "--reason", hostile}, with...)...)
		case "held":
			hostileWrite(t, filepath.Join(dir, "token"), token)
		}
	}
	// Records refuse such text; by hand it still comes into them.
	s.must("decision", "new", "--context", "c", "--option", "o", "--decision", "d", "--outcome", "edited")
	s.must("change", "new", "--description", "d", "--rationale", "r", "--before", "b", "--after", "edited", "--rollback", "u", "--verification", "v")
	name := strings.ReplaceAll(hostile, "/", "")
	for _, place := range []string{"tasks/pending", "tasks/completed", "tasks/failed"} {
		hostileWrite(t, filepath.Join(home, place, name+".json"), `{"task":{"title":"x"}}`)
		hostileWrite(t, filepath.Join(home, place, name), "junk")
	}
	hostileWrite(t, filepath.Join(home, "tasks/pending/bad.json"), `{"task":{"title":"x","priority":`+hostileQuoted(t)+`}}`)
	hostileWrite(t, filepath.Join(home, "tasks/pending/key.json"), `{"task":{"title":"x"},`+hostileQuoted(t)+`:1}`)
	s.must("ls") // admits, rejects, puts away
	hostileDelegation(t, home)
	return home
}

// hostileDelegation leaves a line in which everything that a model may choose is
// hostile.
func hostileDelegation(t *testing.T, home string) {
	t.Helper()
	reason := hostile
	d := delegation.Details{FromAgent: "coder", ToAgent: hostile, Task: hostile, Decision: delegation.Rejected, Step: delegation.StepRole, Reason: &reason, ResultSummary: hostile, TriedEndpoints: []string{hostile}}
	d.PayloadKeys, d.PayloadSummary, d.SensitiveHashes = delegation.Redact([]byte("{"+hostileQuoted(t)+":1}"), nil)
	if err := writeDelegation(t.Context(), home, "coder", d); err != nil {
		t.Fatal(err)
	}
}

func hostileQuoted(t *testing.T) string {
	t.Helper()
	data, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func hostileWrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// vandalise leaves names and bytes behind that verify, doctor and recover tell of.
func vandalise(t *testing.T, home string) {
	t.Helper()
	name := strings.ReplaceAll(hostile, "/", "")
	hostileWrite(t, filepath.Join(home, ".mbox/keys/tokens/ours.json"), `{"name":`+hostileQuoted(t)+`}`)
	for _, place := range []string{"tasks/archive", "tasks/quarantine", "audit/shared", "audit", "audit/coder", "decisions", "changes", "channels/talk", ".mbox/tmp", ".mbox/leases", ".mbox/locks", ".mbox/keys/tokens"} {
		if err := os.Mkdir(filepath.Join(home, place, name), 0o755); err != nil {
			t.Fatal(err)
		}
		hostileWrite(t, filepath.Join(home, place, name+".md"), hostile)
		hostileWrite(t, filepath.Join(home, place, name+".json"), hostile)
		hostileWrite(t, filepath.Join(home, place, name+".reason.json"), `{"name":`+hostileQuoted(t)+`}`)
		hostileWrite(t, filepath.Join(home, place, name+".jsonl"), hostile)
	}
	for _, folder := range []string{"decisions", "changes"} {
		records, err := filepath.Glob(filepath.Join(home, folder, "*-001.md"))
		if err != nil || len(records) != 1 {
			t.Fatalf("%v %v", records, err)
		}
		record, err := os.ReadFile(records[0])
		if err != nil {
			t.Fatal(err)
		}
		hostileWrite(t, records[0], strings.Replace(string(record), "edited", hostile, 1))
	}
	places, err := filepath.Glob(filepath.Join(home, "tasks", "archive", "*", "edited.json"))
	if err != nil || len(places) != 1 {
		t.Fatalf("%v %v", places, err)
	}
	done := places[0]
	data, err := os.ReadFile(done)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(data), `"id": "edited"`, `"id": `+hostileQuoted(t), 1)
	text = strings.Replace(text, `"status": "completed"`, `"status": `+hostileQuoted(t), 1)
	text = strings.Replace(text, `"from": "pending"`, `"from": `+hostileQuoted(t), 1)
	hostileWrite(t, done, text)
}

// hostileLines are command lines for a hostile home. Each verb is among them.
var hostileLines = [][]string{
	{"ls"},
	{"ls", "--state", "archive"},
	{"ls", "--json"},
	{"unit", "systemd"},
	{"unit", "systemd", "--agent", hostile},
	{"unit", "launchd", "--backup", hostile},
	{"search", "a"},
	{"search", "a", "--json"},
	{"export"},
	{"export", "--format", "md"},
	{"export", "--format", "csv"},
	{"schedule", "list"},
	{"schedule", "list", "--json"},
	{"schedule", "run", "hostile"},
	{"ls", "--to", hostile},
	{"ls", "--state", hostile},
	{"show", "done"},
	{"show", "failed"},
	{"show", "held"},
	{"show", "again", "--json"},
	{"show", "bad"},
	{"show", "key", "--json"},
	{"show", hostile},
	{"wait", "done", "failed", "--timeout", "100ms"},
	{"wait", hostile},
	{"agent", "list"},
	{"agent", "list", "--json"},
	{"agent", "show", "coder"},
	{"agent", "show", hostile},
	{"agent", "pause", hostile, "--reason", hostile},
	{"agent", "pause", "coder", "--reason", hostile},
	{"dream", hostile},
	{"dream", "coder"},
	{"agent", "birth", hostile},
	{"agent", "birth", "born", "--exec", "true", "--soul", hostile},
	{"agent", "birth", "born", "--exec", "true", "--instruction", hostile},
	{"agent", "upgrade", "born", "--exec", hostile},
	{"agent", "upgrade", "born", "--pin", hostile},
	{"agent", "upgrade", hostile, "--pin", "1"},
	{"agent", "rename", "born", hostile},
	{"agent", "rename", hostile, "reborn"},
	{"agent", "rename", "born", "reborn", "--reason", hostile},
	{"agent", "rename", "reborn", "born", "--reason", hostile},
	{"agent", "birth", "cloned", "--exec", "true", "--repo", hostile},
	{"agent", "birth", "cloned", "--exec", "true", "--provisioner", hostile},
	{"agent", "drain", "born", "--reason", hostile},
	{"agent", "kill", hostile, "--reason", hostile},
	{"agent", "restore", hostile},
	{"agent", "restore", "born", "--reason", hostile},
	{"agent", "show", "coder"},
	{"agent", "list"},
	{"memory", "add", "--agent", "coder", hostile},
	{"memory", "add", "--agent", hostile, "--key", hostile, "text"},
	{"memory", "list", "--agent", "coder"},
	{"memory", "recall", "--agent", "coder", hostile, "--json"},
	{"memory", "forget", "--agent", "coder", hostile},
	{"memory", "import", "--agent", "coder", hostile},
	{"memory", "embed", "--agent", hostile},
	{"why", "waiting"},
	{"claim", "--agent", "coder"},
	{"agent", "resume", "coder", "--reason", hostile, "--json"},
	{"deliver", "--list"},
	{"deliver", "--retry", hostile},
	{"why", "held"},
	{"why", "waiting"},
	{"why", "failed", "--json"},
	{"why", hostile},
	{"tail", "--no-follow", "-n", "100"},
	{"tail", "--no-follow", "-n", "100", "--json"},
	{"tail", "--agent", hostile, "--no-follow"},
	{"audit", "show", "1", "2", "3", "done"},
	{"audit", "show", hostile},
	{"audit", "show", "done", "--json"},
	{"approve", "waiting", "--reason", hostile},
	{"approve", hostile},
	{"audit", "delegation"},
	{"audit", "delegation", "--json"},
	{"audit", "delegation", "--task", hostile},
	{"audit", "delegation", "--decision", hostile},
	{"verify"},
	{"verify", "--json"},
	{"doctor"},
	{"doctor", "--json"},
	{"create-channel", "talk", "--topic", hostile},
	{"create-channel", hostile},
	{"post", "talk", "@coder @apes " + hostile + "\n7  #talk  human  forged", "--message-id", "said"},
	{"post", "talk", "@coder", "--type", hostile},
	{"post", "talk", "@coder", "--message-id", hostile},
	{"post", "talk", "@coder", "--reply-to", hostile},
	{"post", "talk", "@coder", "--from", hostile, "--json"},
	{"post", hostile, hostile},
	{"channels"},
	{"channels", "--json"},
	{"read", "talk", "--receipts"},
	{"show", "said"},
	{"show", "said", "--json"},
	{"why", "said"},
	{"why", "said", "--json"},
	{"search", "forged"},
	{"search", "forged", "--json"},
	{"read", "--json"},
	{"read", hostile},
	{"read", "talk", "--thread", hostile},
	{"inbox", "--agent", "coder"},
	{"inbox", "--agent", "coder", "--json"},
	{"inbox", "--agent", hostile},
	{"ack", hostile, "--agent", "coder"},
	{"note", hostile},
	{"note", hostile, "--message-id", hostile},
	{"whoami"},
	{"whoami", "--json"},
	{"decision", "list"},
	{"decision", "show", "decision-2026-02-16-001"},
	{"approve"},
	{"decision", "list", "--json"},
	{"decision", "outcome", hostile, hostile},
	{"decision", "new", "--agent", hostile, "--context", "c", "--option", "o", "--decision", "d"},
	{"change", "list"},
	{"change", "list", "--json"},
	{"change", "new", "--type", hostile, "--description", "d", "--rationale", "r", "--before", "b", "--after", "a", "--rollback", "u", "--verification", "v"},
	{"secret", "set", "--agent", "coder", hostile, "--file", "/dev/null"},
	{"secret", "set", "--agent", hostile, "API_TOKEN", "--file", "/dev/null"},
	{"secret", "set", "--agent", "coder", "API_TOKEN", "--file", hostile},
	{"secret", "set", hostile},
	{"secret", "list"},
	{"secret", "list", "--agent", hostile, "--json"},
	{"secret", "rm", "--agent", hostile, hostile},
	{"secret", "rm", hostile},
	{"token", "create", "phone", "--role", "reader"},
	{"token", "create", hostile, "--role", "reader"},
	{"token", "create", "x", "--role", hostile},
	{"token", "create", "x", "--role", "agent", "--agent", hostile},
	{"token", "list"},
	{"token", "list", "--json"},
	{"token", "revoke", hostile},
	{"token", "revoke", "--generate-bash-completion"},
	{"cancel", "held", "--reason", hostile},
	{"cancel", hostile},
	{"edit", "waiting", "--title", hostile, "--description", hostile, "--label", "x=" + hostile, "--reason", hostile},
	{"edit", "waiting", "--to", hostile},
	{"edit", hostile, "--priority", hostile},
	{"edit", hostile, "waiting", "--priority", "high", "--json"},
	{"move", "waiting", hostile},
	{"retry", "failed"},
	{"retry", hostile},
	{"claim", "--agent", hostile},
	{"claim", "--agent", "coder", "--json"},
	{"progress", "held", "--token", hostile, "--message", hostile},
	{"complete", "held", "--token", hostile, "--output", hostile, "--artifact", hostile},
	{"fail", hostile, "--token", "x", "--reason", hostile},
	{"release", "held", "--token", "x", "--delay", hostile},
	{"run", hostile, "--", hostile},
	{"run", hostile, "--label", "x=" + hostile, "--", "true", hostile},
	{"send", hostile, "--edit"},
	{"send", hostile, "--to", "coder"},
	{"send", hostile, "--to", hostile},
	{"send", "x", "--type", hostile},
	{"send", "x", "--attach", hostile},
	{"send", "x", "--id", hostile},
	{"send", hostile + ".json"},
	{"send", "task.json"},
	{"archive", "--older-than", hostile},
	{"archive", "--older-than", "0s"},
	{"ls", "--state", "archive", "--json"},
	{"worker", "--agent", "coder", "--exec", `printf '%s' "$MBOX_HOSTILE"; printf '%s' "$MBOX_HOSTILE" >&2; exit 3`, "--once", "--log-level", "debug"},
	{"worker", "--agent", hostile, "--exec", "true"},
	{"backup", filepath.Join(hostile, "x.tar.zst")},
	{"restore", hostile, hostile},
	{"schema", "validate", "task", "task.json"},
	{"schema", "validate", "task", hostile},
	{"schema", "validate", hostile, "task.json"},
	{"schema", "print", hostile},
	{"schema", "list"},
	{"completion", hostile},
	{"show", "--generate-bash-completion"},
	{"ls", "--to", "--generate-bash-completion"},
	{"init", hostile + "\x00"},
	{"init"},
	{"init", "--demo", "demo" + hostile},
	{"version", hostile},
	{"man", hostile},
	{"recover"},
	{"recover", "--adopt", "edited"},
	{"recover", "--adopt", hostile},
	{hostile},
	{"--" + hostile},
	{"ls", "--" + hostile},
	{"ls", hostile},
	{"decision", hostile},
	{"help", hostile},
	{"--home", hostile, "ls"},
	{"--home", hostile, "up"},
	{"--home", hostile, "doctor"},
	{"--log-level", hostile, "ls"},
	{"up"},
	{"serve"},
	{"serve", hostile},
	{"bridge", hostile},
	{"bridge", hostile, "--check"},
	{"status"},
	{"status", "--json"},
	{"status", hostile},
	{"logs", hostile},
	{"logs", hostile, "--json"},
	{"top", hostile},
	{"mcp", "--agent", hostile},
	{"mcp", hostile},
}

// TestHostileText runs every verb in a hostile home, and looks at all that it
// writes: to files, and to a terminal, where nothing but our own colours may
// come. Nothing hidden gets through; ledger lines asked for as they are come to
// a program byte for byte and are the one exception.
func TestHostileText(t *testing.T) {
	bin := program(t)
	t.Setenv("PATH", filepath.Dir(bin)+":"+os.Getenv("PATH"))
	t.Setenv("MBOX_HOSTILE", hostile)
	home := hostileHome(t)
	verbsSeen := map[string]bool{}
	for pass := range 2 {
		for i, line := range hostileLines {
			verbsSeen[line[0]] = true
			if strings.ContainsRune(strings.Join(line, ""), 0) {
				continue // no program can be called so
			}
			raw := slices.Contains(line, "--json") && (line[0] == "tail" || line[0] == "audit" && line[1] == "show")
			for _, tty := range []bool{false, true} {
				out := hostileRun(t, home, line, tty)
				if tty || !raw {
					checkHarmless(t, fmt.Sprintf("pass %d, line %d %q, terminal %v", pass, i, line, tty), out, tty)
				}
			}
		}
		if pass == 0 {
			vandalise(t, home) // for what verify, doctor and recover tell of then
		}
	}
	for _, config := range []string{hostile, "sync = " + hostile, "sync = " + hostileTOML(), hostileTOML() + " = 1", "[agents." + hostileTOML() + "]", "[agents.coder]\nactions = [" + hostileTOML() + "]", "[schedules." + hostileTOML() + "]\ntitle = \"x\"", "[schedules.x]\nevery = \"1h\"\ncron = " + hostileTOML(), "[schedules.x]\nevery = \"1h\"\ntitle = " + hostileTOML(), "[bridges." + hostileTOML() + "]\nto = \"coder\"", "# " + hostile + "\nsync = 1"} {
		hostileWrite(t, filepath.Join(home, "mbox.toml"), config)
		for _, line := range [][]string{{"ls"}, {"doctor"}, {"schedule", "list"}, {"ls", "--to", "--generate-bash-completion"}} {
			for _, tty := range []bool{false, true} {
				checkHarmless(t, fmt.Sprintf("with %q: %q", config, line), hostileRun(t, home, line, tty), tty)
			}
		}
	}
	for _, v := range tree().verbs {
		if !verbsSeen[v.name] {
			t.Errorf("mbox %s is not tried", v.name)
		}
	}
}

// hostileTOML is the text as a string of TOML.
func hostileTOML() string {
	return fmt.Sprintf("%+q", strings.Map(func(r rune) rune {
		if r == '\a' || r == '\x1b' || r == '\x7f' {
			return '\u202e' // %q has other escapes for these than TOML
		}
		return r
	}, hostile))
}

// hostileRun returns what a command writes to both streams. mbox up is ended
// once it serves.
func hostileRun(t *testing.T, home string, line []string, tty bool) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "mbox", line...)
	cmd.Env = append(os.Environ(), "MBOX_HOME="+home, "TERM=xterm-256color")
	cmd.Dir = filepath.Dir(home)
	out := &watched{}
	if said := map[string]string{"up": "ready, pid", "serve": ", pid"}[line[0]]; said != "" {
		out.until, out.stop = []byte(said), func() { _ = cmd.Process.Signal(syscall.SIGTERM) }
	}
	if tty {
		runOnTerminal(t, cmd, out)
	} else {
		cmd.Stdout, cmd.Stderr = out, out
		_ = cmd.Run() // what it says counts, not how it ends
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("%q does not end: %q", line, out.all.Bytes())
	}
	return out.all.Bytes()
}

// watched collects output and calls stop when some text has come.
type watched struct {
	all   bytes.Buffer // not embedded: it would read past Write
	until []byte
	stop  func()
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.all.Write(p)
	if w.stop != nil && bytes.Contains(w.all.Bytes(), w.until) {
		w.stop()
		w.stop = nil
	}
	return n, err
}

// newTerminal makes one: what a person has of it, and what a program has.
func newTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("a terminal: %v", err)
	}
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 200})
	}
	if err != nil {
		t.Fatalf("a terminal: %v", err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// runOnTerminal runs a command whose three streams are a terminal.
func runOnTerminal(t *testing.T, cmd *exec.Cmd, out *watched) {
	t.Helper()
	master, slave := newTerminal(t)
	defer master.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	if err := cmd.Start(); err != nil {
		slave.Close()
		return // it cannot be called so
	}
	slave.Close()
	buf := make([]byte, 4096)
	for {
		n, err := master.Read(buf)
		_, _ = out.Write(buf[:n])
		if err != nil { // EIO: nobody has it open any more
			break
		}
	}
	_ = cmd.Wait()
}

// ours is what mbox itself sends to a terminal: colours, the end of a line as
// the terminal's driver makes it, and what draws and removes a progress bar.
var ours = regexp.MustCompile(`\x1b\[(0|1|2|3[1-6]|90)m|\r+\n|\r *(\x1b\[K)?`)

func checkHarmless(t *testing.T, what string, out []byte, tty bool) {
	t.Helper()
	text := string(out)
	if tty {
		text = ours.ReplaceAllString(text, "\n")
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if safe := schemas.Sentence(line, 4*len(line)+1); safe != line {
			t.Errorf("%s: %s", what, safe[:min(len(safe), 400)])
			return
		}
	}
}
