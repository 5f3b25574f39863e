package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"mbox/mailbox/durable"
)

// Difference says where an agent's copy differs from the ledger.
type Difference struct {
	Agent string
	File  string // path from the home
	Line  int    // from 1; 0 if the file as a whole is meant
	Why   string
}

func (d Difference) String() string {
	if d.Line == 0 {
		return d.File + ": " + d.Why
	}
	return fmt.Sprintf("%s:%d: %s", d.File, d.Line, d.Why)
}

// copyCheck compares the copies of all agents with the ledger's lines while
// those stream by. Its memory grows with the number of agents only.
type copyCheck struct {
	home   string
	agents map[string]*copyReader // by folder
}

type copyReader struct {
	agent  string
	names  []string // files of the copy that were opened
	file   *os.File
	lines  *bufio.Reader
	number int
	differ *Difference
}

func newCopyCheck(home string) *copyCheck {
	return &copyCheck{home: home, agents: map[string]*copyReader{}}
}

func (c *copyCheck) line(line Line) {
	if r := c.of(agentOf(line.Raw)); r.differ == nil {
		r.compare(c.home, &line)
	}
}

// of is the reader of an agent's copy. Agents whose folder is the same share it.
func (c *copyCheck) of(agent string) *copyReader {
	r := c.agents[Folder(agent)]
	if r == nil {
		r = &copyReader{agent: agent}
		c.agents[Folder(agent)] = r
	}
	return r
}

func (r *copyReader) compare(home string, line *Line) {
	if len(r.names) == 0 || r.names[len(r.names)-1] != line.At.File {
		if r.atEnd(); r.differ == nil {
			r.begin(home, line.At.File)
		}
		if r.differ != nil {
			return
		}
	}
	r.number++
	n := len(line.Raw)
	have, err := r.lines.Peek(n + 1)
	switch {
	case err == nil && have[n] == '\n' && bytes.Equal(have[:n], line.Raw):
		_, _ = r.lines.Discard(n + 1) // what Peek has returned
	case errors.Is(err, io.EOF) && len(have) == 0:
		r.fault(fmt.Sprintf("seq %d of the ledger is missing", line.Seq))
	default:
		r.fault(fmt.Sprintf("is not the agent's line with seq %d", line.Seq))
	}
}

// copyBuffer holds more than the longest line with its newline.
const copyBuffer = 4 * MaxLine

func (r *copyReader) begin(home, name string) {
	r.names, r.number = append(r.names, name), 0
	f, _, err := durable.OpenRegular(filepath.Join(copyDir(home, r.agent), name))
	if err != nil {
		r.differ = &Difference{Agent: r.agent, File: r.path(), Why: "cannot be read: " + reason(err)}
		return
	}
	r.file, r.lines = f, bufio.NewReaderSize(f, copyBuffer)
}

func reason(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err.Error()
	}
	return err.Error()
}

func (r *copyReader) path() string {
	return filepath.Join("audit", Folder(r.agent), r.names[len(r.names)-1])
}

func (r *copyReader) fault(why string) {
	r.differ = &Difference{Agent: r.agent, File: r.path(), Line: r.number, Why: why}
}

// atEnd checks that the file at hand holds no more lines, and closes it.
func (r *copyReader) atEnd() {
	if r.file == nil {
		return
	}
	if _, err := r.lines.ReadByte(); r.differ == nil && !errors.Is(err, io.EOF) {
		r.number++
		r.fault("is a line that the ledger does not have")
	}
	r.file.Close()
	r.file = nil
}

// finish reports the copies that differ, in the order of their folders.
func (c *copyCheck) finish() ([]Difference, error) {
	entries, err := os.ReadDir(filepath.Join(c.home, "audit"))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() || e.Name() == "shared" {
			continue
		}
		if err := c.leftOver(e.Name()); err != nil {
			return nil, err
		}
	}
	var differing []Difference
	for _, folder := range slices.Sorted(maps.Keys(c.agents)) { // always the same calls in the same order
		r := c.agents[folder]
		r.atEnd()
		if r.differ != nil {
			differing = append(differing, *r.differ)
		}
	}
	slices.SortFunc(differing, func(a, b Difference) int { return bytes.Compare([]byte(a.File), []byte(b.File)) })
	return differing, nil
}

// leftOver finds day files of a copy for days on which the agent has no line.
func (c *copyCheck) leftOver(folder string) error {
	files, err := dayFiles(filepath.Join(c.home, "audit", folder))
	if err != nil {
		return err
	}
	r := c.agents[folder]
	for _, name := range files {
		if r == nil {
			r = &copyReader{agent: folder}
			c.agents[folder] = r
		}
		if r.differ == nil && !slices.Contains(r.names, name) {
			r.differ = &Difference{Agent: r.agent, File: filepath.Join("audit", folder, name), Why: "the agent has no line of that day in the ledger"}
		}
	}
	return nil
}

func (c *copyCheck) close() {
	for _, r := range c.agents {
		if r.file != nil {
			r.file.Close()
		}
	}
}
