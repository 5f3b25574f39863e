package acp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"mbox/agents"
)

// What is not handled yet is bounded by its bytes, and so is what is not answered: more
// is not read before there is room.
func TestFramesHoldFewBytes(t *testing.T) {
	t.Parallel()
	pad := strings.Repeat("x", 3<<20)
	for name, c := range map[string]struct {
		line string
		most int // that come through
		done func(*frames)
	}{
		"notifications": {`{"method":"session/update","params":"` + pad + `"}`, 2, (*frames).handled},
		"requests":      {`{"id":1,"method":"fs/write_text_file","params":"` + pad + `"}`, 2, (*frames).answered},
		"answers":       {`{"id":1,"method":"terminal/output"}`, 3, (*frames).answered},
		"small ones":    {`{"id":1,"method":"terminal/wait_for_exit"}`, maxRequests, (*frames).answered},
		"small news":    {`{"method":"session/update"}`, maxNotes, (*frames).handled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFrames(func() {})
				f.open()
				came, wrote := 0, 0
				go func() {
					buf := make([]byte, maxFrame+1)
					for {
						if _, err := f.Read(buf); err != nil {
							return
						}
						came++
					}
				}()
				go func() {
					for range 2 * maxNotes {
						if _, err := f.Write([]byte(c.line + "\n")); err != nil {
							return
						}
						wrote++
					}
				}()
				synctest.Wait()
				if came != c.most || wrote != c.most {
					t.Errorf("%d came through, want %d", came, c.most)
				}
				c.done(f)
				synctest.Wait()
				if came != c.most+1 || f.held > maxHeld {
					t.Errorf("%d came through after one was done with, %d bytes are held", came, f.held)
				}
				f.end(fmt.Errorf("enough"))
				synctest.Wait()
			})
		})
	}
}

// A request that is no request and a notification that is none have no effect on what
// is counted.
func TestFramesDropWhatIsNeither(t *testing.T) {
	t.Parallel()
	f := newFrames(func() {})
	for _, line := range []string{`{"id":1,"method":"session/update"}`, `{"method":"fs/read_text_file"}`, `{}`, `{"method":"$/cancel_request","params":{"requestId":1}}`} {
		if _, err := f.Write([]byte(line + "\n")); err != nil {
			t.Error(line, err)
		}
	}
	f.handled()
	f.answered()
	if f.held != 0 || len(f.requests)+len(f.notes) != 0 {
		t.Errorf("%d bytes are held", f.held)
	}
}

// What is known of tool calls is bounded by its bytes, and a permission for one of
// which not all is known is refused.
func TestCallsKeepFewBytes(t *testing.T) {
	t.Parallel()
	s := &session{job: &agents.Job{}, calls: map[string]*call{}}
	tell := func(id, status string, size int) {
		params, err := json.Marshal(map[string]any{"update": map[string]any{
			"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status, "kind": "edit",
			"locations": []any{map[string]any{"path": id + ".md"}}, "rawInput": strings.Repeat("x", size),
		}})
		if err != nil {
			t.Fatal(err)
		}
		s.update(params)
	}
	for i := range 2 * maxCalls {
		size := 10
		if i%32 == 0 {
			size = maxField - 1000
		}
		tell(fmt.Sprint("c", i), "pending", size)
		if s.kept > maxKept || len(s.order) > maxCalls || len(s.calls) != len(s.order) {
			t.Fatalf("%d bytes of %d calls are kept", s.kept, len(s.calls))
		}
	}
	total := 0
	for _, c := range s.calls {
		for _, value := range c.fields {
			total += len(value)
		}
	}
	if total != s.kept {
		t.Errorf("%d bytes are kept, %d count", total, s.kept)
	}
	tell("large", "pending", maxField)
	for _, id := range []string{"c288", "large"} {
		if known, err := s.known(id); err == nil {
			t.Errorf("%s is shown as %d of its fields", id, len(known))
		}
	}
	tell("small", "pending", 10)
	if known, err := s.known("small"); err != nil || len(known) != 3 {
		t.Errorf("the small one: %v, %v", known, err)
	}
	tell("small", "completed", 10)
	if known, err := s.known("small"); err != nil || len(known) != 0 || strings.Join(s.files, " ") != "small.md" {
		t.Errorf("the small one when it is over: %v, %v, %q", known, err, s.files)
	}
}

// The end of a session waits for what is being done for its program, and nothing is
// begun after it.
func TestCloseWaitsForHandlers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &session{job: &agents.Job{}}
		if !s.enter() {
			t.Fatal("it is closed")
		}
		over := false
		go func() { s.close(); over = true }()
		synctest.Wait()
		if over {
			t.Error("it is over while something is done")
		}
		if _, err := s.handle(t.Context(), "session/update", nil); err == nil {
			t.Error("it takes more")
		}
		s.working.Done()
		synctest.Wait()
		if !over {
			t.Error("it is not over")
		}
	})
}
