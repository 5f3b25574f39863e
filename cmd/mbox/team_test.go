package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"mbox/agents"
)

// What the file does not set is left to the model, and 0 is a value.
func TestTemperature(t *testing.T) {
	for line, want := range map[string]any{"": nil, "temperature = 0.0": 0.0, "temperature = 0.5": 0.5} {
		var asked struct{ Options map[string]any }
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/api/tags" {
				_, _ = io.WriteString(w, `{"models":[{"name":"phi4-mini:latest"}]}`)
				return
			}
			_ = json.NewDecoder(r.Body).Decode(&asked)
			_, _ = io.WriteString(w, `{"message":{"content":"{}"},"done":true,"done_reason":"stop"}`+"\n")
		}))
		text := "[ollama]\nurl = \"" + server.URL + "\"\n[agents.coder.brain]\n" + line + "\n"
		home := t.TempDir()
		c, err := parseConfig(filepath.Join(home, configFile), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		team, err := c.assemble(home)
		if err != nil {
			t.Fatal(err)
		}
		thought := agents.Thought{Messages: []agents.Message{{Role: "user", Content: "Hi."}}}
		if _, err := team.Members["coder"].Brain.Think(t.Context(), thought); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		if got := asked.Options["temperature"]; len(asked.Options) == 0 || got != want {
			t.Errorf("%q: the server is asked with temperature %v, want %v", line, got, want)
		}
		server.Close()
	}
}

// No agent starts whose folders another one, in this process or in another, can
// make a symlink.
func TestMayStartBesideOthers(t *testing.T) {
	for lines, want := range map[string]string{
		"":                "lies in",
		"enabled = false": "",
	} {
		home := t.TempDir()
		text := "[risk_profiles.all]\nallowed_roots = ['" + home + "/shared']\n[risk_profiles.part]\nallowed_roots = ['" + home + "/shared/part']\n" +
			"[agents.a]\nexec = 'true'\nrisk_profile = 'all'\n" + lines + "\n[agents.b]\nexec = 'true'\nrisk_profile = 'part'\n"
		c, err := parseConfig(filepath.Join(home, configFile), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		err = c.mayStart("b")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", lines, err, want)
		}
	}
}
