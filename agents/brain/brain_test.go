package brain

import (
	"os/exec"
	"strings"
	"testing"
)

func TestNew(t *testing.T) {
	for name, c := range map[string]struct {
		kind string
		o    Options
		want string // part of the error; "" is none
	}{
		"none":               {KindNone, Options{}, ""},
		"none, with options": {KindNone, Options{Model: "m"}, "model is no option of a brain of kind none, but of ollama and openai"},
		"unknown":            {"gpt", Options{}, `brain "gpt" is unknown: want ollama, openai, exec or none`},
		"ollama":             {KindOllama, Options{URL: Default, Model: "auto"}, ""},
		"no model":           {KindOllama, Options{URL: Default}, "model is missing"},
		"remote":             {KindOllama, Options{URL: "http://10.0.0.7", Model: "m"}, "allow_remote_llm"},
		"remote allowed":     {KindOllama, Options{URL: "http://10.0.0.7", Model: "m", AllowRemoteLLM: true}, ""},
		"think":              {KindOllama, Options{URL: Default, Model: "m", Think: "hard"}, `think: "hard"`},
		"num_ctx":            {KindOllama, Options{URL: Default, Model: "m", NumCtx: -1}, "num_ctx is -1"},
		"temperature":        {KindOllama, Options{URL: Default, Model: "m", Temperature: 3}, "temperature is 3"},
		"ollama's key":       {KindOllama, Options{URL: Default, Model: "m", Key: testKey}, "key is no option of a brain of kind ollama, but of openai"},
		"two faults":         {KindOllama, Options{Command: "x"}, "command is no option of a brain of kind ollama, but of exec\nmodel is missing"},
		"openai":             {KindOpenAI, Options{URL: "http://localhost:1/v1", Model: "m", Key: testKey, FreeFormat: true}, ""},
		"openai without url": {KindOpenAI, Options{Model: "m"}, "url is missing"},
		"openai's num_ctx":   {KindOpenAI, Options{URL: "http://localhost:1/v1", Model: "m", NumCtx: 1}, "num_ctx is no option"},
		"exec":               {KindExec, Options{Command: "claude -p", Env: []string{"A="}, Wrap: func(*exec.Cmd) error { return nil }}, ""},
		"no command":         {KindExec, Options{Command: " "}, "command is missing"},
		"env":                {KindExec, Options{Command: "x", Env: []string{"hunter2"}}, "env has an entry that is not NAME=VALUE"},
		"NUL":                {KindExec, Options{Command: "a\x00b"}, "NUL"},
		"exec's model":       {KindExec, Options{Command: "x", Model: "m"}, "model is no option"},
	} {
		b, err := New(c.kind, c.o)
		switch {
		case c.want == "" && (err != nil || (b == nil) != (c.kind == KindNone)):
			t.Errorf("%s: %v %v", name, b, err)
		case c.want != "" && (err == nil || b != nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v %v, want %s", name, b, err, c.want)
		case err != nil && strings.Contains(err.Error(), "hunter2"):
			t.Errorf("%s: the error repeats a secret: %v", name, err)
		}
	}
}
