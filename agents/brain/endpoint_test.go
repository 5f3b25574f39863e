package brain

import (
	"strings"
	"testing"
)

func TestEndpoint(t *testing.T) {
	for name, c := range map[string]struct {
		config, url, host string
		remote            bool
		want, from        string // or part of the error, with from ""
	}{
		"default":          {want: "http://127.0.0.1:11434", from: "default"},
		"config first":     {config: "http://localhost:1", url: "http://localhost:2", host: "localhost:3", want: "http://localhost:1", from: "config"},
		"then OLLAMA_URL":  {url: "http://localhost:2/", host: "localhost:3", want: "http://localhost:2", from: "OLLAMA_URL"},
		"then OLLAMA_HOST": {host: "localhost:3", want: "http://localhost:3", from: "OLLAMA_HOST"},
		"blank is nothing": {config: " ", host: "127.0.0.1", want: "http://127.0.0.1:11434", from: "OLLAMA_HOST"},
		"any address":      {host: "0.0.0.0:8080", want: "http://127.0.0.1:8080", from: "OLLAMA_HOST"},
		"any IPv6":         {host: "[::]:8080", want: "http://127.0.0.1:8080", from: "OLLAMA_HOST"},
		"bare IPv6":        {host: "::1", want: "http://[::1]:11434", from: "OLLAMA_HOST"},
		"port alone":       {host: ":8080", want: "http://127.0.0.1:8080", from: "OLLAMA_HOST"},
		"URL's own port":   {host: "https://127.0.0.2", want: "https://127.0.0.2:443", from: "OLLAMA_HOST"},
		"with a path":      {config: "http://127.0.0.1/llm/", want: "http://127.0.0.1:80/llm", from: "config"},
		"another machine":  {host: "10.0.0.7:11434", want: "allow_remote_llm"},
		"a name":           {url: "http://ollama-brain:11434", want: "(OLLAMA_URL): \"ollama-brain:11434\" is not this machine"},
		"mapped":           {host: "[::ffff:10.0.0.7]:1", want: "allow_remote_llm"},
		"like localhost":   {host: "localhost.example.org", want: "allow_remote_llm"},
		"remote allowed":   {host: "10.0.0.7", remote: true, want: "http://10.0.0.7:11434", from: "OLLAMA_HOST"},
		"password":         {config: "http://u:hunter2@127.0.0.1", want: "without user"},
		"bad password":     {config: "http://u:hunter2\x7f@127.0.0.1", want: "no URL"},
		"query":            {config: "http://127.0.0.1?a=1", want: "without user"},
		"scheme":           {config: "unix:///run/o", want: "no URL of http"},
		"port 0":           {host: "127.0.0.1:0", want: "port \"0\""},
		"large port":       {host: "127.0.0.1:70000", want: "port \"70000\""},
		"no port":          {host: "127.0.0.1:x", want: "no URL"},
	} {
		env := map[string]string{"OLLAMA_URL": c.url, "OLLAMA_HOST": c.host}
		got, from, err := Endpoint(c.config, func(k string) string { return env[k] }, c.remote)
		switch {
		case c.from == "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s: %s %v, want an error with %s", name, got, err, c.want)
		case c.from != "" && (err != nil || got != c.want || from != c.from):
			t.Errorf("%s: %s from %s, %v, want %s from %s", name, got, from, err, c.want, c.from)
		}
	}
}
