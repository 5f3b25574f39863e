package adapter

import (
	"context"
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
	err := Serve(context.Background(), os.Stdin, os.Stdout, func(agent, uuid string, warn func(error)) (memory.Store, error) {
		private := filepath.Join(dir, agent, "private")
		return richer{memory.OpenMarkdown(memory.Places{Workspace: filepath.Join(dir, agent), Private: private, Salt: []byte("salt"), Wait: 30 * time.Second}), warn}, os.MkdirAll(private, 0o700)
	})
	if err != nil {
		panic(err)
	}
}

// richer is a store that can do more.
type richer struct {
	memory.Store
	warn func(error)
}

func (r richer) Embed(_ context.Context, again bool) (int, error) {
	if again {
		return 0, fmt.Errorf("%w: m, and was n", memory.ErrModel)
	}
	r.warn(errors.New("slow\x1b[2J"))
	return 3, nil
}

func (r richer) Rename(_ context.Context, to string) error {
	return &memory.Fault{In: "pages", Err: errors.New("no room for " + to), Fix: "make room"}
}

func (r richer) Knows(context.Context) (bool, error) { return true, nil }

// own is a store whose program is this test.
func own(t testing.TB, o Options) *Store {
	t.Helper()
	o.Command = "exec " + schemas.ShellWord(os.Args[0])
	o.Env = func(context.Context) (set, secrets []string, err error) {
		return []string{asProgram + "=" + o.Dir, "HOME=" + o.Dir}, nil, nil
	}
	s := New(o)
	t.Cleanup(func() { s.Close() })
	return s
}

func TestAdapter(t *testing.T) {
	memorytest.Suite(t, func(dir string) memorytest.Open {
		return func(t testing.TB, agent string) memory.Store { return own(t, Options{Agent: agent, Dir: dir}) }
	})
}

// A list of more than fits into an answer comes in parts, in which somebody else may ask.
func TestLongList(t *testing.T) {
	s := own(t, Options{Agent: "coder", Dir: t.TempDir()})
	want := 3 * maxList / memory.MaxContent
	for i := range want {
		if _, err := s.Add(t.Context(), memory.Entry{Category: memory.Core, Key: fmt.Sprint(i), Content: strings.Repeat("x", memory.MaxContent-1)}); err != nil {
			t.Fatal(err)
		}
	}
	n, parts := 0, 0
	for e, err := range s.All(t.Context()) {
		if err != nil || e.Key != fmt.Sprint(n) {
			t.Fatalf("entry %d is %s, %v", n, e.Key, err)
		}
		if n++; n%25 == 0 {
			parts++
			if _, err := s.Recall(t.Context(), "x", 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n != want || parts == 0 {
		t.Errorf("listed %d of %d, %d others asked", n, want, parts)
	}
	if _, err := s.ask(t.Context(), request{Op: "list", After: "nothing"}); !errors.Is(err, memory.ErrUnknown) {
		t.Errorf("from behind what is not there: %v", err)
	}
}

// Programs of mbox know more, and tell how to mend what is wrong.
func TestOwnPrograms(t *testing.T) {
	var warned []error
	s := own(t, Options{Agent: "coder", Dir: t.TempDir(), In: "pages", Embed: true, Warn: func(err error) { warned = append(warned, err) }})
	if n, err := s.Embed(t.Context(), false); n != 3 || err != nil {
		t.Errorf("embedded %d, %v", n, err)
	}
	if len(warned) != 1 || warned[0].Error() != `slow\x1b[2J` {
		t.Errorf("warned %q", warned)
	}
	if _, err := s.Embed(t.Context(), true); !errors.Is(err, memory.ErrModel) || err.Error() != memory.ErrModel.Error()+": m, and was n" {
		t.Errorf("another model: %v", err)
	}
	if known, err := s.Knows(t.Context()); !known || err != nil {
		t.Errorf("knows: %t, %v", known, err)
	}
	err := s.Rename(t.Context(), "eve")
	var f *memory.Fault
	if !errors.As(err, &f) || f.Fix != "make room" || err.Error() != "the memory in pages: no room for eve" {
		t.Errorf("no room: %v", err)
	}
	if _, err := s.ask(t.Context(), request{Op: "sing"}); err == nil || !strings.Contains(err.Error(), "does not know") {
		t.Errorf("an unknown request: %v", err)
	}
	if _, err := own(t, Options{Agent: "coder", Dir: t.TempDir()}).Embed(t.Context(), false); !errors.Is(err, memory.ErrNoModel) {
		t.Errorf("a program that finds by words: %v", err)
	}
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
