package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// setting is a key of values, with what it is and where it comes from.
func setting(t *testing.T, c *File, key string) (value, from string) {
	t.Helper()
	for _, v := range c.Values() {
		if v.Key == key {
			return v.Value, v.From
		}
	}
	t.Fatalf("no setting %s", key)
	return "", ""
}

// File, role's variable, general variable, default: and values tells which.
func TestVariables(t *testing.T) {
	const file = "mbox.toml:2"
	for _, c := range []struct {
		text, env  string // one NAME=VALUE a word
		key, value string
		from       string
	}{
		{"", "", "roles.coder.model", "phi4-mini", "default"},
		{"", "ZEROCLAW_MODEL=g", "roles.coder.model", "g", "ZEROCLAW_MODEL"},
		{"", "ZEROCLAW_MODEL=g", "roles.tester.model", "g", "ZEROCLAW_MODEL"},
		{"", "ZEROCLAW_MODEL=", "roles.tester.model", "tinyllama", "default"},
		{"", "ZEROCLAW_MODEL=g ZEROCLAW_MODEL_CODER=r", "roles.coder.model", "r", "ZEROCLAW_MODEL_CODER"},
		{"", "ZEROCLAW_MODEL_COORDINATOR=r", "roles.coordinator.model", "r", "ZEROCLAW_MODEL_COORDINATOR"},
		{"", "ZEROCLAW_MODEL_DEPLOYER=r", "roles.deployer.model", "r", "ZEROCLAW_MODEL_DEPLOYER"},
		{"", "ZEROCLAW_MODEL_TESTER=r", "roles.tester.model", "r", "ZEROCLAW_MODEL_TESTER"},
		{"", "ZEROCLAW_MODEL_TESTER=r", "roles.coder.model", "phi4-mini", "default"},
		{"", "ZEROCLAW_MODEL=g ZEROCLAW_MODEL_CODER=r MBOX_MODEL=m", "roles.coder.model", "m", "MBOX_MODEL"},
		{"[roles.coder]\nmodel = 'f'", "ZEROCLAW_MODEL=g ZEROCLAW_MODEL_CODER=r MBOX_MODEL=m", "roles.coder.model", "f", file},
		{"[roles.my-own]\n", "ZEROCLAW_MODEL_MY_OWN=r", "roles.my-own.model", "r", "ZEROCLAW_MODEL_MY_OWN"},
		{"", "MBOX_MODEL=m", "agents.coder.brain.model", "m", "MBOX_MODEL"},
		{"[agents.coder]\nbrain.model = 'f'", "MBOX_MODEL=m", "agents.coder.brain.model", "f", file},
		{"[roles.coder]\nmodel = 'f'", "", "agents.coder.brain.model", "f", file},

		{"", "", "ollama.url", "http://127.0.0.1:11434", "default"},
		{"", "OLLAMA_HOST=0.0.0.0:4000", "ollama.url", "http://127.0.0.1:4000", "OLLAMA_HOST"},
		{"", "OLLAMA_URL=http://ollama-brain:11434 OLLAMA_HOST=h ZEROCLAW_API_ENDPOINT=http://e", "ollama.url", "http://ollama-brain:11434", "OLLAMA_URL"},
		{"", "OLLAMA_HOST=h ZEROCLAW_API_ENDPOINT=http://e", "ollama.url", "http://h:11434", "OLLAMA_HOST"},
		{"", "ZEROCLAW_API_ENDPOINT=http://localhost:1", "ollama.url", "http://localhost:1", "ZEROCLAW_API_ENDPOINT"},
		{"[ollama]\nurl = 'http://localhost:7'", "OLLAMA_URL=http://u", "ollama.url", "http://localhost:7", file},
		{"", "OLLAMA_HOST=[::1]:9", "agents.tester.brain.url", "http://[::1]:9", "OLLAMA_HOST"},
		{"", "PROVIDER=ollama ZEROCLAW_PROVIDER_URL=http://localhost:5", "ollama.url", "http://localhost:5", "ZEROCLAW_PROVIDER_URL"},
		{"", "PROVIDER=ollama ZEROCLAW_PROVIDER_URL=http://localhost:5 OLLAMA_HOST=:6", "ollama.url", "http://127.0.0.1:6", "OLLAMA_HOST"},

		{"", "", "ollama.pull", "", "default"},
		{"", "ZEROCLAW_MODEL=g", "ollama.pull", "g", "ZEROCLAW_MODEL"},
		{"", "ZEROCLAW_MODEL=g OLLAMA_MODELS_PREPULL=a,b:1b", "ollama.pull", "a, b:1b", "OLLAMA_MODELS_PREPULL"},
		{"", "ZEROCLAW_MODEL=auto", "ollama.pull", "", "ZEROCLAW_MODEL"},
		{"", "OLLAMA_MODELS_PREPULL=a,auto,b", "ollama.pull", "a, b", "OLLAMA_MODELS_PREPULL"},
		{"", "PROVIDER=openai ZEROCLAW_PROVIDER_URL=https://p/v1 ZEROCLAW_MODEL=m", "ollama.pull", "", "default"},
		{"[ollama]\npull = []", "ZEROCLAW_MODEL=g OLLAMA_MODELS_PREPULL=a", "ollama.pull", "", file},

		{"", "ZEROCLAW_PROVIDER_URL=https://p/v1", "openai.url", "https://p/v1", "ZEROCLAW_PROVIDER_URL"},
		{"[openai]\nurl = 'https://f/v1'", "ZEROCLAW_PROVIDER_URL=https://p/v1", "openai.url", "https://f/v1", file},
		{"", "PROVIDER=openai ZEROCLAW_PROVIDER_URL=https://p/v1 MBOX_MODEL=m", "agents.coder.brain.kind", "openai", "PROVIDER"},
		{"", "PROVIDER=openai ZEROCLAW_PROVIDER_URL=https://p/v1 MBOX_MODEL=m", "agents.coder.brain.url", "https://p/v1", "ZEROCLAW_PROVIDER_URL"},
		{"[agents.coder]\nbrain.kind = 'ollama'", "PROVIDER=openai ZEROCLAW_PROVIDER_URL=https://p/v1 MBOX_MODEL=m", "agents.coder.brain.kind", "ollama", file},
		{"", "PROVIDER=aws", "agents.coder.brain.kind", "ollama", "default"},

		{"", "ZEROCLAW_TIMEOUT_SECONDS=90", "roles.deployer.timeout", "1m30s", "ZEROCLAW_TIMEOUT_SECONDS"},
		{"[roles.deployer]\ntimeout = '7s'", "ZEROCLAW_TIMEOUT_SECONDS=90", "roles.deployer.timeout", "7s", file},
		{"", "", "roles.deployer.timeout", "10m", "default"},

		{"", "WORKSPACE_DIR=/workspace", "agents.coder.workspace.path", "/workspace", "WORKSPACE_DIR"},
		{"[agents.coder]\nworkspace.path = 'w'", "WORKSPACE_DIR=/workspace", "agents.coder.workspace.path", "w", file},
		{"[agents.coder]\nexec = 'x'", "WORKSPACE_DIR=/workspace", "agents.coder.workspace.path", "agents/coder/workspace", "default"},

		{"", "MAX_DELEGATION_DEPTH=2", "delegation.max_depth", "2", "MAX_DELEGATION_DEPTH"},
		{"[delegation]\nmax_depth = 1", "MAX_DELEGATION_DEPTH=2", "delegation.max_depth", "1", file},
		{"", "ALLOWED_WRITE_ROOTS=e2e,workspace/projects", "actions.write_file.roots", "e2e, workspace/projects", "ALLOWED_WRITE_ROOTS"},
		{"[actions.write_file]\nroots = ['r']", "ALLOWED_WRITE_ROOTS=e2e", "actions.write_file.roots", "r", file},

		{"[serve]", "", "serve.address", "127.0.0.1:42617", "default"},
		{"", "ZEROCLAW_GATEWAY_PORT=8080", "serve.address", "127.0.0.1:8080", "ZEROCLAW_GATEWAY_PORT"},
		{"[serve]", "ZEROCLAW_GATEWAY_PORT=8080", "serve.address", "127.0.0.1:8080", "ZEROCLAW_GATEWAY_PORT"},
		{"[serve]\naddress = '[::1]:9'", "ZEROCLAW_GATEWAY_PORT=8080", "serve.address", "[::1]:9", file},
	} {
		value, from := setting(t, read(t, c.text, strings.Fields(c.env)...), c.key)
		if value != c.value || from != c.from {
			t.Errorf("%q with %q: %s is %q from %s, want %q from %s", c.text, c.env, c.key, value, from, c.value, c.from)
		}
	}
}

// A variable that cannot be is an error that names it, and shows no password.
func TestBadVariables(t *testing.T) {
	for _, c := range []struct{ env, want string }{
		{"MBOX_MODEL=two words", `MBOX_MODEL: "two words" is no name of a model`},
		{"ZEROCLAW_MODEL=-x", "ZEROCLAW_MODEL: "},
		{"ZEROCLAW_MODEL_CODER=;", "ZEROCLAW_MODEL_CODER: "},
		{"OLLAMA_MODELS_PREPULL=a,b c", `OLLAMA_MODELS_PREPULL: "b c" is no name`},
		{"OLLAMA_URL=ftp://x", "OLLAMA_URL: is no address"},
		{"OLLAMA_HOST=localhost:99999", "OLLAMA_HOST: has no possible port"},
		{"OLLAMA_HOST=http://me:hunter2@localhost", "OLLAMA_HOST: has a user or a password"},
		{"ZEROCLAW_API_ENDPOINT=http://x/?a", "ZEROCLAW_API_ENDPOINT: has a ?"},
		{"ZEROCLAW_PROVIDER_URL=p", "ZEROCLAW_PROVIDER_URL: is no address"},
		{"ZEROCLAW_TIMEOUT_SECONDS=5m", `ZEROCLAW_TIMEOUT_SECONDS: "5m" is not allowed: want a whole number from 1`},
		{"ZEROCLAW_TIMEOUT_SECONDS=0", "ZEROCLAW_TIMEOUT_SECONDS: "},
		{"WORKSPACE_DIR=workspace", "WORKSPACE_DIR: .* want an absolute path"},
		{"WORKSPACE_DIR=/home/you", "WORKSPACE_DIR: .* no place for an agent"},
		{"WORKSPACE_DIR=/", "WORKSPACE_DIR: .* no place for an agent"},
		{"WORKSPACE_DIR=/home/you/agents/.mbox", "WORKSPACE_DIR: .* no place for an agent"},
		{"MAX_DELEGATION_DEPTH=99", "MAX_DELEGATION_DEPTH: "},
		{"ZEROCLAW_GATEWAY_PORT=0", `ZEROCLAW_GATEWAY_PORT: "0" is not allowed: want a whole number from 1 to 65535`},
		{"ZEROCLAW_GATEWAY_PORT=65536", "ZEROCLAW_GATEWAY_PORT: "},
		{"ZEROCLAW_GATEWAY_PORT=0.0.0.0:80", "ZEROCLAW_GATEWAY_PORT: "},
		{"ALLOWED_WRITE_ROOTS=ok,../up", `ALLOWED_WRITE_ROOTS: "../up" is not allowed`},
	} {
		_, err := parse("/home/you/agents/mbox.toml", nil, environ([]string{c.env}))
		refuses(t, c.env, err, c.want)
		var e *Error
		if errors.As(err, &e) && (!strings.Contains(e.Hint, "unset ") || strings.Contains(e.Error()+e.Hint, "hunter2")) {
			t.Errorf("%s: %v, hint %q", c.env, e, e.Hint)
		}
	}
	_, err := parse("/h/mbox.toml", nil, environ([]string{"PROVIDER=aws", "ZEROCLAW_PROVIDER_URL=https://p"}))
	refuses(t, "PROVIDER", err, `PROVIDER: "aws" is not allowed: want ollama or openai`)
	_, err = parse("/h/mbox.toml", nil, environ([]string{"PROVIDER=openai", "ZEROCLAW_PROVIDER_URL=https://p"}))
	refuses(t, "a model of Ollama's", err, `brain: kind "openai" needs a model`)
}

func TestVariablesInVain(t *testing.T) {
	c := read(t, "", "PROVIDER=aws")
	want := []string{"PROVIDER is set, and not used: it goes with ZEROCLAW_PROVIDER_URL, which is not set"}
	if !slices.Equal(c.unread, want) {
		t.Errorf("%q", c.unread)
	}
	if used := read(t, "", "MBOX_MODEL=m", "ZEROCLAW_GATEWAY_PORT=42617").unread; used != nil {
		t.Errorf("%q", used)
	}
}

// A variable may name a server on another machine; nothing is sent to it unless
// the file allows that. The file itself may not.
func TestRemoteModels(t *testing.T) {
	c := read(t, "", "OLLAMA_URL=http://ollama-brain:11434")
	if err := c.BrainRefused(c.Agents["coder"]); err == nil || !strings.Contains(err.Error(), "OLLAMA_URL: http://ollama-brain:11434 is another machine") {
		t.Errorf("%v", err)
	}
	c = read(t, "[ollama]\nallow_remote = true", "OLLAMA_URL=http://ollama-brain:11434")
	if err := c.BrainRefused(c.Agents["coder"]); err != nil {
		t.Error(err)
	}
	c = read(t, "[agents.coder]\nbrain.kind = 'none'\n", "OLLAMA_URL=http://ollama-brain:11434")
	if err := c.BrainRefused(c.Agents["coder"]); err != nil {
		t.Error(err)
	}
	for _, here := range []string{"127.9.9.9", "localhost:1", "[::1]:5", "0.0.0.0", "[::]:77", ":8", "http://localhost/"} {
		c := read(t, "", "OLLAMA_HOST="+here)
		if err := c.BrainRefused(c.Agents["coder"]); err != nil {
			t.Errorf("%s: %v", here, err)
		}
	}
}
