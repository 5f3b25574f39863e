package mcp

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mbox/mailbox"
)

// Clients that others keep, from npm, against the server in a process of its own.
func TestPeers(t *testing.T) {
	peers := os.Getenv("MCP_PEERS")
	if peers == "" {
		t.Skip("the MCP clients of npm are missing: MCP_PEERS names no folder; MCP_PEERS=$(.ci/mcp-peers) installs them")
	}
	for _, script := range []string{"sdk.mjs", "tasks.mjs"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			box := newBox(t, mailbox.Options{})
			if _, _, _, err := mailbox.PostMessage(t.Context(), box, mailbox.Post{Channel: "office", From: "human", Text: "what they say", Create: true}); err != nil {
				t.Fatal(err)
			}
			out := runPeer(t, peers, script, box)
			if !strings.HasSuffix(out, "done\n") {
				t.Errorf("%s says %s", script, out)
			}
		})
	}
}

// runPeer runs a script and returns what it prints. A line "cancel ID" is carried out, as
// an operator would.
func runPeer(t *testing.T, peers, script string, box *mailbox.Box) string {
	dir := t.TempDir() // a module is looked for beside the script that imports it
	source, err := os.ReadFile(filepath.Join("testdata", "peers", script))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, script), source, 0o600)
	}
	if err == nil {
		err = os.Symlink(filepath.Join(peers, "node_modules"), filepath.Join(dir, "node_modules"))
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, filepath.Join(peers, "node"), script, os.Args[0])
	c.Dir, c.Stderr = dir, os.Stderr
	c.Env = append(os.Environ(), homeVariable+"="+box.Home(), agentVariable+"=coder")
	from, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for lines := bufio.NewScanner(from); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if id, ok := strings.CutPrefix(lines.Text(), "cancel "); ok {
			if err := box.Cancel(t.Context(), mailbox.ID(id), "human", "not now"); err != nil {
				t.Error(err)
			}
		}
	}
	if err := c.Wait(); err != nil {
		t.Errorf("%s: %v", script, err)
	}
	return said.String()
}
