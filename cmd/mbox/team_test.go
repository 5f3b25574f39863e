package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mbox/agents"
	"mbox/cmd/mbox/config"
)

// read reads a configuration by itself.
func read(t *testing.T, text string) *config.File {
	t.Helper()
	c, err := config.Parse("/home/you/agents/mbox.toml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c
}

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
		c, err := config.Parse(filepath.Join(home, config.Name), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		team, err := assemble(c, home)
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
		c, err := config.Parse(filepath.Join(home, config.Name), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		err = mayStart(c, "b")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", lines, err, want)
		}
	}
}

// A key's file that others can read gives no key, wherever the table names it.
func TestKeyFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("k1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := read(t, "[agents.coder]\nbrain = { kind = 'openai', model = 'm', url = 'https://a/v1', key_file = '"+file+"' }")
	for mode, good := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o620: false, 0o602: false} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if key, err := keyOf(c, &c.Agents["coder"].Brain); (err == nil) != good || good != (key == "k1") {
			t.Errorf("%o: %v", mode, err)
		}
	}
}

// A key is read when it is needed, from where the file says.
func TestKeys(t *testing.T) {
	c := read(t, "[openai]\nurl = 'https://a/v1'\nkey_env = 'MBOX_TEST_KEY'\n[agents.coder]\nbrain = { kind = 'openai', model = 'm' }\n"+
		"[agents.tester]\nbrain = { kind = 'openai', model = 'm', url = 'https://b/v1' }")
	if b := c.Agents["coder"].Brain; b.KeyEnv != "MBOX_TEST_KEY" || b.URL != "https://a/v1" {
		t.Errorf("%+v", b)
	}
	if b := c.Agents["tester"].Brain; b.KeyEnv != "" || b.KeyFile != "" {
		t.Errorf("another server gets the key of the first: %+v", b)
	}
	t.Setenv("MBOX_TEST_KEY", " k1\n")
	if key, err := keyOf(c, &c.Agents["coder"].Brain); err != nil || key != "k1" {
		t.Errorf("%q, %v", key, err)
	}
	t.Setenv("MBOX_TEST_KEY", "")
	if key, err := keyOf(c, &c.Agents["coder"].Brain); err == nil || key != "" {
		t.Errorf("%q, %v", key, err)
	}
	if key, err := keyOf(c, &c.Agents["tester"].Brain); err != nil || key != "" {
		t.Errorf("%q, %v", key, err)
	}
}
