package agents

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"mbox/mailbox"
	"mbox/schemas"
)

// reads has a recital read what a command writes.
func reads(t *testing.T, format Format, text string) (r *recital, progress []string) {
	t.Helper()
	keep := &output{dir: t.TempDir(), heard: func() {}, text: format == FormatLines, hide: hideKey}
	t.Cleanup(keep.close)
	r = &recital{format: format, prose: keep, hide: hideKey, progress: func(p mailbox.Progress) { progress = append(progress, p.Message) }}
	for i := 0; i < len(text); i += 7 { // lines come in pieces
		if n, err := r.Write([]byte(text[i:min(i+7, len(text))])); err != nil || n != min(7, len(text)-i) {
			t.Fatal(n, err)
		}
	}
	r.end()
	return r, progress
}

// What command lines write becomes progress, a result, or their own words for why
// they failed.
func TestFormats(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		format                        Format
		text, result, progress, fault string
	}{
		"claude": {
			FormatClaude, `{"type":"system","subtype":"init","session_id":"s","tools":["Bash"]}
{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"I look.\nThen I fix."},{"type":"tool_use","id":"t","name":"Read","input":{}}]}}
{"type":"user","message":{"role":"user","content":"a string, not a list"}}
{"type":"result","subtype":"success","is_error":false,"result":"All fixed.","usage":{"input_tokens":1}}
`, `"All fixed."`, "I look.|uses Read", "",
		},
		"claude's JSON": {FormatClaude, `{"type":"result","subtype":"success","result":"{\"ok\":true}"}`, `{"ok":true}`, "", ""},
		"claude gives up": {
			FormatClaude, `{"type":"result","subtype":"error_max_turns","is_error":false,"errors":["12 turns"]}`, `""`, "", "error_max_turns: 12 turns",
		},
		"codex": {
			FormatCodex, `{"type":"thread.started","thread_id":"x"}
{"type":"turn.started"}
{"type":"error","message":"Reconnecting... 1/5"}
{"type":"item.started","item":{"id":"0","type":"command_execution","command":"ls","status":"in_progress"}}
{"type":"item.completed","item":{"id":"0","type":"command_execution","command":"ls","aggregated_output":"a","exit_code":0}}
{"type":"item.completed","item":{"id":"1","type":"agent_message","text":"One file."}}
{"type":"turn.completed","usage":{"input_tokens":1}}
`, `"One file."`, "Reconnecting... 1/5|runs ls|One file.", "",
		},
		"codex fails": {FormatCodex, `{"type":"turn.failed","error":{"message":"no such model"}}`, `""`, "", "no such model"},
		"gemini": {
			FormatGemini, `{"type":"init","session_id":"s","model":"m"}
{"type":"message","role":"user","content":"the task"}
{"type":"message","role":"assistant","content":"I will look.","delta":true}
{"type":"tool_use","tool_name":"Read","tool_id":"1","parameters":{}}
{"type":"tool_result","tool_id":"1","status":"success"}
{"type":"message","role":"assistant","content":"All ","delta":true}
{"type":"message","role":"assistant","content":"well.","delta":true}
{"type":"result","status":"success","stats":{}}
`, `"All well."`, "uses Read", "",
		},
		"gemini fails":   {FormatGemini, `{"type":"result","status":"error","error":{"type":"FatalTurnLimitedError","message":"too many turns"}}`, `""`, "", "FatalTurnLimitedError: too many turns"},
		"prose":          {FormatClaude, "The answer\nis 42.\n", `"The answer\nis 42."`, "", ""},
		"prose between":  {FormatCodex, "warning: x\n" + `{"type":"item.completed","item":{"type":"agent_message","text":"ok"}}`, `"ok"`, "ok", ""},
		"unknown events": {FormatClaude, `{"type":"from_the_future","x":[1]}` + "\n" + `{"type":"result","result":"ok"}`, `"ok"`, "", ""},
		"other types":    {FormatClaude, `{"type":"assistant","message":5}` + "\n" + `{"type":"result","result":"ok","is_error":"no"}`, `"ok"`, "", ""},
		"torn":           {FormatCodex, `{"type":"item.completed","item":{"type":"agent_message","text":"so far"}}` + "\n" + `{"type":"turn.comp`, `"so far"`, "so far", ""},
		"torn alone":     {FormatGemini, `{"type":"mess`, `"{\"type\":\"mess"`, "", ""},
		"a terminal's":   {FormatCodex, `{"type":"error","message":"\u001b[2Jgone\nx"}`, `""`, `\x1b[2Jgone\nx`, ""},
		"lines":          {FormatLines, "one\n\n2\n", `"one\n\n2"`, "one|2", ""},
		"lines of JSON":  {FormatLines, "42\n", `"42"`, "42", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, progress := reads(t, c.format, c.text)
			v, err := r.value()
			if v == nil {
				v = []byte(`""`)
			}
			if got := strings.Join(progress, "|"); err != nil || string(v) != c.result || got != c.progress || r.fault != c.fault {
				t.Errorf("result %s, progress %q, fault %q, %v", v, got, r.fault, err)
			}
		})
	}
}

// A line too long for an event is dropped, and counted.
func TestFormatIsBounded(t *testing.T) {
	t.Parallel()
	keep := &output{dir: t.TempDir(), heard: func() {}, hide: hideKey}
	defer keep.close()
	r := &recital{format: FormatClaude, prose: keep, hide: hideKey, progress: func(mailbox.Progress) {}}
	block := []byte(strings.Repeat("x", 1<<20))
	for range 40 {
		r.Write(block)
	}
	if len(r.line) > maxEvent {
		t.Errorf("%d bytes of a line are kept", len(r.line))
	}
	r.Write([]byte("\n" + `{"type":"result","result":"` + strings.Repeat("y", 1<<20) + `"}` + "\n"))
	if v, err := r.value(); err != nil || len(v) != 1<<20+2 {
		t.Errorf("%d bytes of a result, %v", len(v), err)
	}
	if keep.cut == 0 || keep.size > maxOutput {
		t.Errorf("%d cut, %d kept", keep.cut, keep.size)
	}
}

// The formats of a command's end: its own words, and exit codes with a meaning.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		line, code, text string
		state            mailbox.State
		final            bool
	}{
		"release":    {`exit 53`, "", "", mailbox.Pending, false},
		"final":      {`echo 'no such option' >&2; exit 42`, "exit", "exit status 42: no such option", mailbox.Failed, true},
		"as before":  {`exit 41`, "exit", "exit status 41", mailbox.Failed, false},
		"its words":  {`echo '{"type":"result","subtype":"error_during_execution","is_error":true,"result":"overloaded"}'`, "agent", "error_during_execution: overloaded", mailbox.Failed, false},
		"both":       {`echo '{"type":"result","is_error":true,"result":"overloaded"}'; echo other >&2; exit 1`, "exit", "exit status 1: overloaded", mailbox.Failed, false},
		"a success":  {`echo '{"type":"result","result":"fine"}'`, "", `"fine"`, mailbox.Completed, false},
		"only prose": {`echo fine`, "", `"fine"`, mailbox.Completed, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, mailbox.Options{MaxAttempts: 2})
			id := s.submit("x")
			w := s.worker(c.line)
			w.Format, w.Exit = FormatClaude, map[int]Meaning{53: MeansRelease, 42: MeansFinal}
			s.once(w)
			task, state := s.task(id)
			if c.final && task.Mbox.Attempt != 1 {
				t.Errorf("%d attempts", task.Mbox.Attempt)
			}
			switch c.state {
			case mailbox.Completed:
				s.wantOutput(id, c.text)
			case mailbox.Failed:
				for state != mailbox.Failed { // the second attempt
					s.untilState(id, mailbox.Pending)
					s.once(w)
					_, state = s.task(id)
				}
				s.wantFailed(id, c.code, c.text)
			default:
				if state != c.state || task.Mbox.NotBefore == nil || task.Mbox.Attempt != 0 {
					t.Errorf("%s, %+v", state, task.Mbox)
				}
			}
		})
	}
}

// A message of very many parts, or in very many pieces, costs little.
func TestFormatsAreCheap(t *testing.T) {
	r, _ := reads(t, FormatClaude, `{"type":"assistant","message":{"content":[`+strings.Repeat("{},", maxMessage/3)+`{"type":"text","text":"too long"}]}}`+"\n")
	if len(r.text) != 0 {
		t.Errorf("a message of more than a MiB was taken apart: %q", r.text)
	}
	keep := &output{dir: t.TempDir(), heard: func() {}, hide: hideKey}
	defer keep.close()
	g := &recital{format: FormatGemini, prose: keep, hide: hideKey, progress: func(mailbox.Progress) {}}
	piece := []byte(`{"type":"message","role":"assistant","content":"` + strings.Repeat("x", 4<<10) + `"}` + "\n")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range maxOutput / (4 << 10) {
		g.Write(piece)
	}
	runtime.ReadMemStats(&after)
	if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 1000 { // each piece once more would be 8000
		t.Errorf("%d MiB to join 8", used)
	}
	if len(g.text) < maxOutput-(8<<10) || len(g.text) > maxOutput {
		t.Errorf("%d bytes are kept", len(g.text))
	}
}

func FuzzFormats(f *testing.F) {
	f.Add(`{"type":"result","result":"ok"}`, uint8(0))
	f.Add(`{"type":"item.completed","item":{"type":"agent_message","text":"x"}}`+"\n{", uint8(1))
	f.Add(`{"type":"message","role":"assistant","content":"x"}`, uint8(2))
	f.Fuzz(func(t *testing.T, text string, which uint8) {
		formats := []Format{FormatClaude, FormatCodex, FormatGemini, FormatLines}
		dir := filepath.Join(os.TempDir(), "fuzz")
		keep := &output{dir: dir, heard: func() {}, hide: hideKey}
		r := &recital{format: formats[int(which)%len(formats)], prose: keep, hide: hideKey, progress: func(p mailbox.Progress) {
			if p.Message != schemas.Sentence(p.Message, maxNews) {
				t.Errorf("a progress of %q", p.Message)
			}
		}}
		r.Write([]byte(text))
		r.end()
		v, err := r.value()
		if err != nil || v != nil && !v.IsValid() {
			t.Errorf("%s, %v", v, err)
		}
	})
}
