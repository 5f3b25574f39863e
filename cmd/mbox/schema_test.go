package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"mbox/mailbox"
	"mbox/mailbox/mailboxtest"
	"mbox/schemas"
)

// The published schemas are those of the types. `go test ./cmd/mbox -update`
// writes them anew.
func TestPublishedSchemas(t *testing.T) {
	for _, k := range kinds {
		want, err := schemas.Of(k.value)
		if err != nil {
			t.Errorf("%s: %v", k.name, err)
			continue
		}
		path := repoFile("schemas", k.name+".schema.json")
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(have, want) {
			t.Errorf("schemas/%s.schema.json is not the schema of %T (%v); go test ./cmd/mbox -update writes it", k.name, k.value, err)
		}
	}
}

// What mbox writes, its schemas allow: a task in every state, and its ledger.
func TestWrittenFilesFitTheirSchemas(t *testing.T) {
	home := filepath.Join(t.TempDir(), "agents")
	box := mailboxtest.In(t, home, mailbox.Options{MaxAttempts: 1})
	play(t, box)
	files, err := filepath.Glob(filepath.Join(home, "tasks", "*", "*.json"))
	if err != nil || len(files) != 4 {
		t.Fatalf("tasks: %v %v", files, err)
	}
	for _, path := range files {
		fits(t, mailbox.Task{}, path, func(data []byte) [][]byte { return [][]byte{data} })
	}
	days, err := filepath.Glob(filepath.Join(home, "audit", "shared", "*.jsonl"))
	if err != nil || len(days) == 0 {
		t.Fatalf("ledger: %v %v", days, err)
	}
	for _, path := range days {
		fits(t, kinds[1].value, path, func(data []byte) [][]byte { return bytes.Split(bytes.TrimSpace(data), []byte("\n")) })
	}
}

// play leaves a task in each of the four states.
func play(t *testing.T, box *mailbox.Box) {
	t.Helper()
	ctx := t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []mailbox.ID{"a", "b", "c", "d"} {
		_, err := box.Submit(ctx, &mailbox.Task{ID: id, Task: mailbox.Request{Title: "Task " + string(id)}})
		check(err)
	}
	claims := map[mailbox.ID]*mailbox.Claim{}
	for range 3 {
		c, err := box.Claim(ctx, mailbox.ClaimRequest{Agent: "coder"})
		check(err)
		claims[c.ID()] = c
	}
	check(claims["a"].Complete(ctx, mailbox.Result{Output: []byte(`{"n":1}`)}))
	check(claims["b"].Fail(ctx, mailbox.Failure{TaskError: mailbox.TaskError{Code: "no", Message: "never"}}))
	half := 50
	check(claims["c"].Progress(ctx, mailbox.Progress{Percent: &half, Message: "half"}))
}

func fits(t *testing.T, v any, path string, split func([]byte) [][]byte) {
	t.Helper()
	source, err := schemas.Of(v)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := schemas.Compile(source)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range split(data) {
		if err := schema.Validate(doc); err != nil {
			t.Errorf("%s: %v", filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path), err)
			return
		}
	}
}
