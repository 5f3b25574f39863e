package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mbox/agents/chat"
)

func script(t *testing.T, text string) chat.Channel {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := open(chat.Settings{Command: []string{path, "argument"}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The program has the notice, and nothing that is secret.
func TestSend(t *testing.T) {
	t.Setenv("BRIDGE_TOKEN", "s3cr3t")
	out := filepath.Join(t.TempDir(), "out")
	c := script(t, `cat > `+out+`; env >> `+out+`; echo "$1" >> `+out)
	if _, err := c.Send(t.Context(), chat.Notice{Key: "k", Text: `{"event":"failed"}`}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(out)
	if text := string(got); err != nil || !strings.HasPrefix(text, "{\"event\":\"failed\"}\n") || strings.Contains(text, "s3cr3t") || !strings.Contains(text, "MBOX_KEY=k\n") || !strings.HasSuffix(text, "argument\n") {
		t.Errorf("%s, %v", got, err)
	}
}

func TestSendFails(t *testing.T) {
	_, err := script(t, `echo no >&2; exit 3`).Send(t.Context(), chat.Notice{})
	var words *chat.WordsError
	if !errors.As(err, &words) || words.Words != "no" || !strings.HasSuffix(words.Err.Error(), "/script: exit status 3") || !strings.HasSuffix(err.Error(), "exit status 3: no") {
		t.Errorf("%v", err)
	}
	for _, argv := range [][]string{nil, {"sh"}} {
		if _, err := open(chat.Settings{Command: argv}); !errors.Is(err, chat.ErrSetup) {
			t.Errorf("%q: %v", argv, err)
		}
	}
	c, err := open(chat.Settings{Command: []string{filepath.Join(t.TempDir(), "missing")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Send(t.Context(), chat.Notice{}); !errors.Is(err, chat.ErrSetup) {
		t.Errorf("%v", err)
	}
}

// What a program leaves running is ended with it, and one that does not end is ended.
func TestNothingIsLeft(t *testing.T) {
	left := filepath.Join(t.TempDir(), "left")
	c := script(t, `(sleep 1; echo still > `+left+`) & exit 0`)
	if _, err := c.Send(t.Context(), chat.Notice{}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	began := time.Now()
	if _, err := script(t, `sleep 20`).Send(ctx, chat.Notice{}); err == nil || time.Since(began) > 10*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
	time.Sleep(time.Until(began.Add(1200 * time.Millisecond)))
	if _, err := os.Stat(left); err == nil {
		t.Error("it went on")
	}
}
