package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// stillness is how long the ledger has had no new line, and how often the agents
// had been told that there is nothing to claim when it began.
type stillness struct {
	size  int64
	since time.Time
	idle  int
}

// idleClaims is how many claims in a row find nothing before a storm counts as
// stuck: so many that each agent has asked several times.
const idleClaims = 100

// lasts tells whether nothing can happen any more: through some leases there was
// no line, and whoever asked for work, of which some is left, was told that there
// is none. On a slow machine that takes longer, for then claims take longer.
func (s *stillness) lasts(c *crowd) bool {
	size := c.ledgerSize()
	c.mu.Lock()
	idle := c.answers[fmt.Sprintf("claim %d", exitConflict)]
	c.mu.Unlock()
	if size != s.size {
		*s = stillness{size, time.Now(), idle}
	}
	return time.Since(s.since) > 3*c.lease+5*time.Second && idle-s.idle > idleClaims
}

func (c *crowd) ledgerSize() (size int64) {
	days, err := filepath.Glob(filepath.Join(c.home, "audit", "shared", "*.jsonl"))
	if err != nil {
		c.Error(err)
	}
	for _, day := range days {
		if info, err := os.Stat(day); err == nil {
			size += info.Size()
		}
	}
	return size
}

// unfinished names tasks that are not completed, five at most: where each lies,
// its last lines, and what mbox says of it.
func (c *crowd) unfinished() string {
	folders := c.places()
	c.mu.Lock()
	for id := range c.told.sent {
		folders[id] += "" // one that lies nowhere
	}
	c.mu.Unlock()
	var ids []string
	for id, folder := range folders {
		if folder != "completed" {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	var text strings.Builder
	fmt.Fprintf(&text, "%d tasks were begun to be sent, %d are not completed\n", min(c.given.Load(), int64(c.tasks)), len(ids))
	for _, id := range ids[:min(len(ids), 5)] {
		fmt.Fprintf(&text, "%s lies in %q; its last lines:\n", id, folders[id])
		for _, line := range c.linesOf(id, 4) {
			fmt.Fprintf(&text, "  %s\n", line)
		}
		why, _ := c.command("why", id).CombinedOutput()
		fmt.Fprintf(&text, "mbox why %s:\n%s\n", id, why)
	}
	return text.String()
}

// places tells where each task lies, while others may still move it.
func (c *crowd) places() map[string]string {
	places := map[string]string{}
	for _, folder := range []string{"pending", "in-progress", "completed", "failed"} {
		names, _ := filepath.Glob(filepath.Join(c.home, "tasks", folder, "*.json"))
		for _, name := range names {
			places[strings.TrimSuffix(filepath.Base(name), ".json")] = folder
		}
	}
	return places
}

// linesOf returns the last n lines of the ledger that name the task.
func (c *crowd) linesOf(id string, n int) (lines []string) {
	days, _ := filepath.Glob(filepath.Join(c.home, "audit", "shared", "*.jsonl"))
	for _, day := range days {
		data, err := os.ReadFile(day)
		if err != nil {
			c.Error(err)
		}
		for line := range bytes.Lines(data) {
			if bytes.Contains(line, []byte(`"task_id":"`+id+`"`)) {
				lines = append(lines, strings.TrimSpace(string(line)))
			}
		}
	}
	return lines[max(0, len(lines)-n):]
}
