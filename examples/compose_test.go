package examples

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// The deployer takes the compose example, which is a dry run unless somebody has
// configured more.
func TestComposeExample(t *testing.T) {
	h := newHouse(t)
	text, err := os.ReadFile(example("compose/ollama.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	h.configure("agents.deployer.enabled = true")
	task, err := json.Marshal(map[string]any{
		"id": "ollama", "task": map[string]string{"title": "Deploy Ollama"}, "assignment": map[string]string{"target_agent": "deployer"},
		"mbox": map[string]any{"action": map[string]any{"name": "deploy_compose", "params": map[string]string{"compose": string(text)}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ollama.json")
	if err := os.WriteFile(path, task, 0o600); err != nil {
		t.Fatal(err)
	}
	h.mbox("send", path)
	h.mbox("worker", "--agent", "deployer", "--once")
	if found := result(h.completed("ollama")); found["status"] != "validated" {
		t.Errorf("%v", found)
	}
}
