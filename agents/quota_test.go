package agents

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"mbox/mailbox"
)

// The ways in which services name when a quota begins anew.
func TestResetTime(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no zones here")
	}
	now := time.Date(2026, 11, 22, 13, 50, 0, 0, time.UTC) // 14:50 in Berlin
	for text, want := range map[string]time.Time{
		"2026-11-22T18:00:00Z":      now.Add(4*time.Hour + 10*time.Minute),
		"2026-11-22T18:00:00+01:00": now.Add(3*time.Hour + 10*time.Minute),
		"1795363200":                time.Unix(1795363200, 0),
		"1795363200000":             time.Unix(1795363200, 0),
		"3pm (Europe/Berlin)":       now.Add(10 * time.Minute),
		"2:45pm (Europe/Berlin)":    now.Add(-5 * time.Minute), // just now
		"8:20am (Europe/Berlin)":    time.Date(2026, 11, 23, 8, 20, 0, 0, berlin),
		"12am (UTC)":                time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC),
		"15:04":                     now.Add(74 * time.Minute),
		"2h 15m":                    now.Add(135 * time.Minute),
		"in 2h15m":                  now.Add(135 * time.Minute),
		"3 hours 4 minutes":         now.Add(184 * time.Minute),
		"1 day and 2 hours":         now.Add(26 * time.Hour),
		"45.5s":                     now.Add(45500 * time.Millisecond),
		"Nov 28th, 2026 10:03 PM":   time.Date(2026, 11, 28, 22, 3, 0, 0, time.UTC),
		"":                          {},
		"tomorrow":                  {},
		"25:00":                     {},
		"13pm":                      {},
		"3pm (No/Where)":            {},
		"3pm (../../etc/canary)":    {},
		"7":                         {},
		"5 of the 6 models":         {},
	} {
		if got := resetTime(text, now); !got.Equal(want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// A quota is waited for no shorter and no longer than makes sense, and a pattern
// that names no time is one too.
func TestQuota(t *testing.T) {
	t.Parallel()
	now := time.Unix(1795363200, 0)
	s := &shift{Worker: Worker{Quota: []*regexp.Regexp{
		regexp.MustCompile(`usage limit reached\|(\d+)`), regexp.MustCompile(`(?i)(limit) reached.*resets (?P<reset>.+)`), regexp.MustCompile(`out of credits`),
	}}}
	for text, want := range map[string]time.Duration{
		"Claude AI usage limit reached|1795366800": time.Hour,
		"Claude AI usage limit reached|1795363100": quotaLeast,
		"Claude AI usage limit reached|9999999999": quotaMost,
		"5-hour limit reached · resets 2h 15m":     135 * time.Minute,
		"Limit reached, resets one day":            quotaUnknown,
		"you are out of credits":                   quotaUnknown,
		"all is well":                              0,
	} {
		if got := s.quota(now, "other", text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// A quota message gives the task back until the quota begins anew, and the agents of
// the same account claim nothing more until then, in no process; those of another do.
func TestQuotaPausesTheAccount(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	first := s.submit("first")
	worker := func(line string) *Worker {
		w := s.worker(line)
		w.Account, w.Fellows, w.Quota = "max", []string{"second", "third"}, []*regexp.Regexp{regexp.MustCompile(`resets in (.+)`)}
		return w
	}
	ctx := context.Background()
	_, err := mailbox.PauseAgent(ctx, s.box, mailbox.Pause{Agent: "third", By: "human", Reason: "for good"})
	s.must(err)
	waiting := worker(`echo done`)
	waiting.Agent, waiting.Type = "second", "research" // of which there is none yet
	stop := s.run(waiting)                             // it waits for a task
	s.once(worker(`echo 'limit reached, resets in 2h 15m'; exit 1`))
	task, state := s.task(first)
	if state != mailbox.Pending || task.Mbox.Attempt != 0 || task.Mbox.NotBefore == nil || time.Until(task.Mbox.NotBefore.Time) < 134*time.Minute {
		t.Errorf("%s, %+v", state, task.Mbox)
	}
	other, err := mailbox.Open(ctx, s.box.Home(), s.box.Options())
	s.must(err)
	defer other.Close()
	for name, want := range map[string]string{"coder": "the quota of max is used up", "second": "the quota of max is used up", "third": "for good"} {
		a, err := mailbox.AgentOf(other, name)
		s.must(err)
		until := a.Until != nil && a.Until.After(time.Now().Add(134*time.Minute)) && a.Until.Before(time.Now().Add(136*time.Minute))
		if a.Claims() || a.Reason != want || until != (name != "third") {
			t.Errorf("%s is %s", name, a)
		}
	}
	second, err := s.box.Submit(ctx, &mailbox.Task{Task: mailbox.Request{Title: "second", Type: "research"}, Assignment: mailbox.Assignment{TargetAgent: "second"}})
	s.must(err)
	third := s.submit("third")
	s.once(worker(`echo done`)) // ends, and takes nothing
	for _, id := range []mailbox.ID{second, third} {
		if _, state := s.task(id); state != mailbox.Pending {
			t.Errorf("%s is %s", id, state)
		}
	}
	_, err = mailbox.ResumeAgent(ctx, other, "second", "human", "")
	s.must(err)
	until(t, "who waits hears of the resume", func() bool { _, state := s.task(second); return state == mailbox.Completed })
	stop()
	if _, state := s.task(third); state != mailbox.Pending {
		t.Errorf("the third is %s", state)
	}
	w := worker(`echo done`)
	w.Agent = "other"
	s.once(w)
	s.wantOutput(third, `"done"`)
}

// What Claude Code tells of its limits by an event needs no pattern.
func TestQuotaByEvent(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	id := s.submit("x")
	w := s.worker(`echo '{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":4000000000}}'; echo '{"type":"result","is_error":true,"result":"limit"}'; exit 1`)
	w.Format = FormatClaude
	s.once(w)
	task, state := s.task(id)
	if state != mailbox.Pending || task.Mbox.NotBefore == nil || time.Until(task.Mbox.NotBefore.Time) < quotaMost-time.Minute {
		t.Errorf("%s, %+v", state, task.Mbox)
	}
}

// A result that reads like a quota message is a result, in every format, whatever else
// the command has written; the same words of a failure pause the account.
func TestQuotaIsAFailure(t *testing.T) {
	t.Parallel()
	const words = "Claude AI usage limit reached|4000000000"
	event := func(failed bool, text string) string {
		return fmt.Sprintf(`echo '{"type":"result","subtype":"success","is_error":%v,"result":%q}'`, failed, text)
	}
	for name, c := range map[string]struct {
		format Format
		line   string
		paused bool
	}{
		"json":                      {FormatJSON, "echo '" + words + "'", false},
		"json, on stderr":           {FormatJSON, "echo '" + words + "' >&2; echo ok", false},
		"json, failed":              {FormatJSON, "echo '" + words + "'; exit 1", true},
		"json, failed on stderr":    {FormatJSON, "echo '" + words + "' >&2; exit 1", true},
		"lines":                     {FormatLines, "echo '" + words + "'", false},
		"lines, failed":             {FormatLines, "echo '" + words + "'; exit 1", true},
		"claude":                    {FormatClaude, event(false, words), false},
		"claude's prose":            {FormatClaude, "echo '" + words + "'", false},
		"claude, failed":            {FormatClaude, event(true, words), true},
		"claude, failed twice":      {FormatClaude, event(true, words) + "; exit 1", true},
		"claude's last message":     {FormatClaude, `echo '{"type":"assistant","message":{"content":[{"type":"text","text":"` + words + `"}]}}'; exit 1`, false},
		"claude, past its limit":    {FormatClaude, `echo '{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":4000000000}}'; ` + event(false, "done"), false},
		"codex":                     {FormatCodex, `echo '{"type":"item.completed","item":{"type":"agent_message","text":"` + words + `"}}'`, false},
		"codex, failed":             {FormatCodex, `echo '{"type":"turn.failed","error":{"message":"` + words + `"}}'`, true},
		"gemini":                    {FormatGemini, `echo '{"type":"message","role":"assistant","content":"` + words + `"}'`, false},
		"gemini, failed":            {FormatGemini, `echo '{"type":"result","status":"error","error":{"type":"x","message":"` + words + `"}}'`, true},
		"ended for its time":        {FormatJSON, "echo '" + words + "'; exec sleep 60", false},
		"ended for its time, tells": {FormatJSON, "echo '" + words + "' >&2; exec sleep 60", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, mailbox.Options{MaxAttempts: 1})
			id := s.submit("x")
			w := s.worker(c.line)
			w.Format, w.Quota = c.format, []*regexp.Regexp{regexp.MustCompile(`usage limit reached\|(\d+)`)}
			if strings.HasPrefix(name, "ended") {
				w.Timeout = time.Second
			}
			s.once(w)
			a, err := mailbox.AgentOf(s.box, w.Agent)
			s.must(err)
			task, state := s.task(id)
			if c.paused == a.Claims() || c.paused != (state == mailbox.Pending) {
				t.Errorf("it is %s, %s: %+v", a, state, task.Result.Error)
			}
		})
	}
}
