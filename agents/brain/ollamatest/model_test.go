package ollamatest

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
)

// chat asks the server without any client of ours.
func chat(t *testing.T, s *Server, model, prompt string) string {
	t.Helper()
	ask, _ := json.Marshal(map[string]any{
		"model": model, "stream": false,
		"messages": []any{map[string]string{"role": "user", "content": prompt}},
	})
	resp, err := http.Post(s.URL+"/api/chat", "application/json", strings.NewReader(string(ask)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Message struct{ Content string }
		Reason  string `json:"done_reason"`
	}
	if err := errors.Join(json.NewDecoder(resp.Body).Decode(&answer)); err != nil || answer.Reason != "stop" {
		t.Fatalf("%v: %s %+v", err, resp.Status, answer)
	}
	return answer.Message.Content
}

func TestScript(t *testing.T) {
	s := Start(t)
	lines := []Line{
		{Say: "Nothing here tells me what to say."},
		{When: "write a note", Say: `{"actions":[{"action":"write_file","params":{"path":"note.txt","content":"ä note with\nits own line"}}]}`},
		{When: "<|children|>", Say: `{"actions":[{"action":"write_file","params":{"path":"other.txt","content":"ä note with\nits own line"}}]}`},
		{When: "thirty", Say: "ok"},
	}
	s.Script("script", lines...)
	long := strings.Repeat("All work and no play makes a prompt long. ", 12)
	for prompt, want := range map[string]int{
		"Hello.":                             0,
		long:                                 0,
		"Please write a note.":               1,
		long + "write a note" + long:         1,
		"write a note, then <|children|> is": 2,
		"<|children|>: write a note " + long: 2,
		"thirty write a note <|children|>":   3,
	} {
		if got := chat(t, s, "script", prompt); got != lines[want].Say {
			t.Errorf("%.40s (%d characters): got %q, want %q", prompt, len(prompt), got, lines[want].Say)
		}
	}
}

func TestScriptRefuses(t *testing.T) {
	for name, lines := range map[string][]Line{
		"nothing":       nil,
		"no first line": {{When: "a text", Say: "b"}},
		"silence":       {{Say: ""}},
		"the same":      {{Say: "the same"}, {When: "again", Say: "the same"}},
		"When twice":    {{Say: "a"}, {When: "again", Say: "one"}, {When: "again", Say: "two"}},
		"short When":    {{Say: "b"}, {When: "a", Say: "one"}},
		"short loop":    {{Say: "tick", Loop: true}},
	} {
		if _, err := Script(lines...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestMain(m *testing.M) {
	http.DefaultClient.Transport = &http.Transport{DisableKeepAlives: true}
	os.Exit(m.Run())
}
