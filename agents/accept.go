package agents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/action"
	"mbox/agents/policy"
	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// Check is one of [accept.NAME]: what a result has to pass. One of its fields is set.
type Check struct {
	File    string            // among the artifacts, or in the workspace
	Schema  string            // path of the JSON Schema that the output fits
	Command string            // for /bin/sh -c; the output is its standard input
	HTTP    *action.HTTPCheck // an answer as it is expected
	Timeout time.Duration     // of Command
}

// Accept holds a result against one check, for mailbox.Options.Accept. What cannot be
// examined is a finding too. The error is that of ctx.
func (t *Team) Accept(ctx context.Context, name string, h *mailbox.Handover) (finding string, err error) {
	c, known := t.Checks[name]
	switch {
	case !known:
		finding = "there is no [accept." + name + "] in mbox.toml"
	case c.File != "":
		finding, err = t.checkFile(c.File, h)
	case c.Schema != "":
		finding, err = checkShape(c.Schema, h.Output)
	case c.HTTP != nil:
		r, fault := c.HTTP.Do(ctx, &action.Env{Agent: h.Agent, HTTP: t.HTTP})
		finding, err = r.Error, fault
	default:
		finding, err = t.checkCommand(ctx, c, h)
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		finding = "it could not be examined: " + err.Error()
	}
	return finding, nil
}

// maxSchema bounds the file of a JSON Schema, in bytes.
const maxSchema = 256 << 10

// checkShape holds an output against a JSON Schema.
func checkShape(path string, output jsontext.Value) (finding string, err error) {
	data, err := durable.Read(path, maxSchema)
	if err != nil {
		return "", err
	}
	shape, err := schemas.Compile(data)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if err := shape.Validate(output); err != nil {
		return "the output: " + err.Error(), nil
	}
	return "", nil
}

// checkFile looks for a regular file among the artifacts, and else in the workspace.
func (t *Team) checkFile(name string, h *mailbox.Handover) (finding string, err error) {
	for _, a := range h.Files {
		if _, rest, _ := strings.Cut(strings.TrimPrefix(a.Path, task.ArtifactsDir+"/"), "/"); rest == path.Clean(name) {
			return "", nil
		}
	}
	dir, err := t.workspaceOf(h.Agent)
	if err != nil {
		return "", err
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "there is no file " + name, nil
	}
	if err != nil {
		return "", err
	}
	defer root.Close()
	switch info, err := root.Stat(name); {
	case errors.Is(err, fs.ErrNotExist):
		return "there is no file " + name, nil
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return name + " is no regular file", nil
	}
	return "", nil
}

// workspaceOf is where an agent works.
func (t *Team) workspaceOf(agent string) (string, error) {
	if _, ours := t.Members[agent]; !ours {
		return filepath.Join(t.Policies.Home, "agents", audit.Folder(agent), "workspace"), nil
	}
	p, err := policy.ForAgent(t.Policies, agent)
	if err != nil {
		return "", err
	}
	return p.Workspace, nil
}

// checkCommand runs a command as the agent's own is run: in its workspace, in its
// sandbox, with its environment.
func (t *Team) checkCommand(ctx context.Context, c Check, h *mailbox.Handover) (finding string, err error) {
	dir, err := t.workspaceOf(h.Agent)
	if err == nil {
		err = durable.MkdirAll(dir, durable.None) // of an agent without a worker it may be missing
	}
	if err != nil {
		return "", err
	}
	stdin, feed, err := os.Pipe()
	if err != nil {
		return "", err
	}
	said := &schemas.Tail{Most: maxTail}
	run, err := spawn(command{
		line: c.Command, dir: dir, stdin: stdin, stdout: said, stderr: said, confine: t.Confine(h.Agent),
		env:  append(t.Env(h.Agent), "PWD="+dir, "MBOX_HOME="+t.Policies.Home, "MBOX_AGENT="+h.Agent, "MBOX_TASK_ID="+string(h.Task.ID)),
		hold: func() (*os.File, error) { return nil, nil }, started: func(int) error { return nil },
	})
	stdin.Close()
	if err != nil {
		feed.Close()
		return "", err
	}
	go func() { // it ends when the command has, at the latest
		_, _ = io.WriteString(feed, plain(h.Output))
		feed.Close()
	}()
	late := time.NewTimer(c.Timeout)
	defer late.Stop()
	timeout := false
	select {
	case <-run.Ended():
	case <-ctx.Done():
	case <-late.C:
		timeout = true
	}
	run.End(ctx, time.Second)
	run.drain()
	feed.Close()
	status, err := run.Status()
	words := strings.TrimSpace(strings.ToValidUTF8(said.String(), ""))
	switch {
	case err != nil:
		return "", err
	case timeout:
		return ending{tail: words}.with(fmt.Sprintf("no end after %v", c.Timeout)), nil
	case status.Signaled():
		return ending{tail: words}.with("killed by signal: " + status.Signal().String()), nil
	case status.ExitStatus() != 0:
		return ending{tail: words}.with(fmt.Sprintf("exit status %d", status.ExitStatus())), nil
	}
	return "", nil
}

// plain is the text of a JSON string, and of all else the JSON.
func plain(v jsontext.Value) string {
	if task.IsText(v) {
		return task.TextOf(v)
	}
	return string(v)
}
