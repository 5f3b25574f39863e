package brain

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestKeyIsNeverPrinted(t *testing.T) {
	o := Options{Key: testKey}
	data, err := json.Marshal(map[string]any{"key": o.Key})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		fmt.Sprint(o.Key), fmt.Sprintf("%v %+v %#v %s %q %x %d", o, o, o, o.Key, o.Key, o.Key, o.Key), string(data),
		fmt.Sprint([]any{o.Key}), fmt.Errorf("x: %w", fmt.Errorf("%v", o.Key)).Error(),
	} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, fmt.Sprintf("%x", "hunter2")) {
			t.Errorf("the key shows: %s", text)
		}
	}
}

func TestReadKey(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	env := map[string]string{"GOOD": "sk-1", "TWO": "sk-hunter2 b"}
	for name, c := range map[string]struct{ file, variable, want string }{
		"none":             {},
		"file":             {file: file("good", "sk-2\n", 0o600), variable: "GOOD", want: "sk-2"},
		"variable":         {variable: "GOOD", want: "sk-1"},
		"no variable":      {variable: "NONE", want: "error: NONE is not set"},
		"two words":        {variable: "TWO", want: "error: more than one word"},
		"no file":          {file: filepath.Join(dir, "none"), want: "error: no such file"},
		"others":           {file: file("open", "sk-hunter2", 0o644), want: "error: chmod 600"},
		"empty":            {file: file("empty", "\n", 0o600), want: "error: empty"},
		"large":            {file: file("large", strings.Repeat("x", maxKey+1), 0o600), want: "error: more than 4096 bytes"},
		"folder":           {file: dir, want: "error: not a regular file"},
		"header injection": {file: file("crlf", "sk-hunter2\r\nHost: x", 0o600), want: "error: more than one word"},
	} {
		key, err := ReadKey(c.file, c.variable, func(k string) string { return env[k] })
		part, wantError := strings.CutPrefix(c.want, "error: ")
		switch {
		case !wantError && (err != nil || string(key) != c.want):
			t.Errorf("%s: %q %v, want %q", name, string(key), err, c.want)
		case wantError && (err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s: %v, want %s", name, err, part)
		}
	}
}
