package adapter

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mbox/agents/memory"
	"mbox/agents/memory/memorytest"
	"mbox/schemas"
)

// asProgram has the folder in which this test is a memory's program.
const asProgram = "MBOX_TEST_ADAPTER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asProgram); dir != "" {
		serve(dir)
		return
	}
	os.Exit(m.Run())
}

// serve is an adapter: to pages of Markdown, of which each agent has its own.
func serve(dir string) {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, maxAnswer)
	for in.Scan() {
		var r request
		a := &answer{}
		err := json.Unmarshal(in.Bytes(), &r)
		if err == nil {
			a, err = do(dir, &r)
		}
		switch {
		case errors.Is(err, memory.ErrUnknown):
			a = &answer{Error: err.Error(), Code: "unknown"}
		case errors.Is(err, memory.ErrFull):
			a = &answer{Error: err.Error(), Code: "full"}
		case err != nil:
			a = &answer{Error: err.Error()}
		}
		line, err := json.Marshal(a)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s\n", line)
	}
}

func do(dir string, r *request) (*answer, error) {
	private := filepath.Join(dir, r.Agent, "private")
	if err := os.MkdirAll(private, 0o700); err != nil {
		return nil, err
	}
	s := memory.OpenMarkdown(memory.Places{Workspace: filepath.Join(dir, r.Agent), Private: private, Salt: []byte("salt"), Wait: 30 * time.Second})
	defer s.Close()
	ctx := context.Background()
	switch r.Op {
	case "add":
		id, err := s.Add(ctx, *r.Entry)
		return &answer{ID: id}, err
	case "recall":
		found, err := s.Recall(ctx, *r.Query, r.Limit)
		return &answer{Entries: found}, err
	case "forget":
		return &answer{}, s.Forget(ctx, r.IDs...)
	}
	a, behind := &answer{}, r.After == ""
	for e, err := range s.All(ctx) {
		switch {
		case err != nil:
			return nil, err
		case behind && len(a.Entries) == 3:
			a.More = true
			return a, nil
		case behind:
			a.Entries = append(a.Entries, e)
		}
		behind = behind || e.ID == r.After
	}
	return a, nil
}

func TestAdapter(t *testing.T) {
	memorytest.Suite(t, func(dir string) memorytest.Open {
		return func(t testing.TB, agent string) memory.Store {
			s := New(Options{Agent: agent, Command: "exec " + schemas.ShellWord(os.Args[0]), Dir: dir, Env: func(context.Context) (set, secrets []string, err error) {
				return []string{asProgram + "=" + dir, "HOME=" + dir}, nil, nil
			}})
			t.Cleanup(func() { s.Close() })
			return s
		}
	})
}

// script is a store whose program is a script.
func script(t *testing.T, text string) *Store {
	t.Helper()
	s := New(Options{Agent: "coder", UUID: "u", Command: text, Dir: t.TempDir(), Timeout: 10 * time.Second, Env: func(context.Context) (set, secrets []string, err error) {
		return []string{"PATH=" + os.Getenv("PATH")}, []string{"the-password", ""}, nil
	}})
	t.Cleanup(func() { s.Close() })
	return s
}

// What is wrong with a program is said, with its last words, and the next request begins
// another one.
func TestWrongPrograms(t *testing.T) {
	for text, want := range map[string]string{
		"echo no such database the-password >&2; exit 3":                              "it has ended.*no such database <redacted>",
		"read -r l; echo hello":                                                       "no JSON of the protocol",
		"while read -r l; do echo '{\"error\":\"no \\u001b[2J the-password\"}'; done": `no \\x1b\[2J <redacted>`,
		"while read -r l; do echo '{\"id\":\"\"}'; done":                              "its id is",
		"read -r l; head -c 20000000 /dev/zero | tr '\\000' x":                        "answered with more than",
		"no-such-program": "not found",
		"while read -r l; do echo '{\"error\":\"x\",\"code\":\"full\"}'; done":    memory.ErrFull.Error(),
		"while read -r l; do echo '{\"error\":\"x\",\"code\":\"unknown\"}'; done": memory.ErrUnknown.Error(),
		"exec <&-; exec sleep 1000": "it has ended|has not answered",
	} {
		t.Run(text, func(t *testing.T) {
			s := script(t, text)
			s.o.Timeout = 3 * time.Second
			for range 2 {
				_, err := s.Add(t.Context(), memory.Entry{Category: memory.Core, Key: "k", Content: "c"})
				if err == nil || !schemas.Pattern(want)().MatchString(strings.ReplaceAll(err.Error(), "\n", " ")) {
					t.Errorf("%v, want %s", err, want)
				}
			}
		})
	}
	for text, want := range map[string]string{
		`{"entries":[{"id":"1","category":"core","key":"k","content":"c","score":2}]}`: "has the score 2",
		`{"entries":[{"id":"1","category":"other","key":"k","content":"c"}]}`:          "entry 1 of its answer",
		`{"entries":[{"id":"1","category":"core","key":"k","content":"\u0007"}]}`:      "entry 1 of its answer",
		`{"entries":[{"category":"core","key":"k","content":"c"}]}`:                    "its id is",
	} {
		s := script(t, "while read -r l; do printf '%s\\n' "+schemas.ShellWord(text)+"; done")
		if _, err := s.Recall(t.Context(), "x", 5); err == nil || !errors.Is(err, ErrAdapter) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	s := script(t, `while read -r l; do echo '{"more":true,"entries":[{"id":"1","category":"core","key":"k","content":"c"}]}'; done`)
	n := 0
	for _, err := range s.All(t.Context()) {
		if n++; n == 2 && err == nil || n > 2 {
			t.Fatal("a list goes on for ever")
		}
	}
}

// A program that has ended between two requests is begun again.
func TestEndedBetween(t *testing.T) {
	s := script(t, `read -r l; echo '{"id":"1"}'`)
	for range 3 {
		if id, err := s.Add(t.Context(), memory.Entry{Category: memory.Core, Key: "k", Content: "c"}); err != nil || id != "1" {
			t.Fatal(id, err)
		}
		for end := time.Now().Add(20 * time.Second); !s.run.over(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("its end is not seen")
			}
		}
	}
}

// Who gives up does not wait, and what the program has begun ends with it.
func TestGivenUp(t *testing.T) {
	dir := t.TempDir()
	s := script(t, "sleep 1000 & echo $! >"+schemas.ShellWord(filepath.Join(dir, "pid"))+"; echo up >&2; wait; wait")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for {
			if text, err := os.ReadFile(filepath.Join(dir, "pid")); err == nil && len(text) > 0 {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if err := s.Forget(ctx, "1"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); alive(strings.TrimSpace(string(text))); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("what it has begun lives on")
		}
	}
}

// alive tells whether a process is there, and no zombie.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
