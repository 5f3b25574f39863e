package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mbox/audit"
	"mbox/mailbox"
)

// What ada remembers before a dream, and what that leaves of it. Before the undo the rest
// is the beginning of all: so it cannot be told by that alone whether it is undone.
const (
	adaLearned     = "# What ada remembers\n\n- one\n- two\n- one\n- three\n"
	adaLearnedLeft = "# What ada remembers\n\n- two\n- one\n- three\n"
	adaTwice       = "# What ada remembers\n\n- one\n- two\n- two\n"
	adaTwiceLeft   = "# What ada remembers\n\n- one\n- two\n"
)

func adaWrites(h *sweepHome, memory string) {
	h.Helper()
	if err := os.WriteFile(h.Path("agents", "ada", "memory", "memory.md"), []byte(memory), 0o600); err != nil {
		h.Fatal(err)
	}
}

func adaHasLearned(h *sweepHome) { adaWrites(h, adaLearned) }

func adaHasDreamt(h *sweepHome) {
	adaWrites(h, adaTwice)
	h.must("dream", "ada")
}

// adaDreamt wants a dream to be over: its memory is short, and all that left it lies in it.
func adaDreamt(h *sweepHome) error {
	return errors.Join(adaHas(h, adaLearned, adaLearnedLeft, "dreams/TIME.before", "dreams/TIME.md", "memory.md"),
		adaRecorded(h, "ada has dreamed: ", adaLearned, adaLearnedLeft))
}

// adaCanUndo wants a dream to be over, and undone by the command for that.
func adaCanUndo(h *sweepHome) error {
	c := h.copyOf(h.T, h.home+".undone")
	defer c.remove()
	if r := c.run("dream", "ada", "--undo"); r.code != 0 {
		return fmt.Errorf("undo: exit code %d\n%s", r.code, r.err)
	}
	return errors.Join(adaDreamt(h), adaHas(c, adaLearned, adaLearned, "dreams/TIME.undone.md", "memory.md"),
		adaRecorded(c, "the dream ", adaLearnedLeft, adaLearned))
}

// adaHasUndone wants an undo to be over.
func adaHasUndone(h *sweepHome) error {
	return errors.Join(adaHas(h, adaTwice, adaTwice, "dreams/TIME.undone.md", "memory.md"),
		adaRecorded(h, "the dream ", adaTwiceLeft, adaTwice))
}

// adaDreamsAgain wants an undo to be over, and a dream behind it to be like the first.
func adaDreamsAgain(h *sweepHome) error {
	c := h.copyOf(h.T, h.home+".again")
	defer c.remove()
	if r := c.run("dream", "ada"); r.code != 0 {
		return fmt.Errorf("dream: exit code %d\n%s", r.code, r.err)
	}
	return errors.Join(adaHasUndone(h), adaHas(c, adaTwice, adaTwiceLeft, "dreams/TIME.before", "dreams/TIME.md", "dreams/TIME.undone.md", "memory.md"),
		adaRecorded(c, "ada has dreamed: ", adaTwice, adaTwiceLeft))
}

// adaKeeps wants each line in ada's memory or in a dream, however far that has come, and
// none in the memory more often than it stood there.
func adaKeeps(once string) func(*sweepHome) error {
	return func(h *sweepHome) error {
		memory, err := os.ReadFile(h.Path("agents", "ada", "memory", "memory.md"))
		pages, failed := filepath.Glob(h.Path("agents", "ada", "memory", "dreams", "*.md"))
		if err := errors.Join(err, failed); err != nil {
			return err
		}
		have := string(memory)
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				return err
			}
			_, gone, _ := strings.Cut(string(text), "word for word\n\n")
			have += gone
		}
		for line := range strings.Lines(once) {
			if n := strings.Count(once, line); strings.Count(have, line) < n || strings.Count(string(memory), line) > n {
				return fmt.Errorf("%q stood %d times in the memory, which is %q, and with the dreams %q", line, n, memory, have)
			}
		}
		return nil
	}
}

var dreamTime = regexp.MustCompile(`\d{4}-\d{2}-\d{2}T\d{4}(-\d+)?`)

// adaHas wants these files in ada's memory and no others, and in memory.md what is now.
func adaHas(h *sweepHome, once, now string, files ...string) error {
	dir, have := h.Path("agents", "ada", "memory"), []string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			have = append(have, dreamTime.ReplaceAllString(path[len(dir)+1:], "TIME"))
		}
		return err
	})
	if slices.Sort(have); err != nil || !slices.Equal(have, files) {
		return fmt.Errorf("in its memory lie %q, not %q: %w", have, files, err)
	}
	memory, err := os.ReadFile(filepath.Join(dir, "memory.md"))
	if err != nil || string(memory) != now {
		return fmt.Errorf("it remembers %q, not %q: %w", memory, now, err)
	}
	return adaKeeps(once)(h)
}

// adaRecorded wants a record that begins so, and each that does to tell of this memory before
// and after it.
func adaRecorded(h *sweepHome, what, before, after string) error {
	box, err := mailbox.Open(h.Context(), h.home, mailbox.Options{})
	if err != nil {
		return err
	}
	defer box.Close()
	changes, err := box.Changes(h.Context())
	told := 0
	for _, c := range changes {
		if !strings.HasPrefix(c.Description, what) {
			continue
		}
		told++
		if !strings.HasSuffix(c.Before, audit.Hash([]byte(before))) || !strings.HasSuffix(c.After, audit.Hash([]byte(after))) {
			return fmt.Errorf("record %s tells of %q and %q", c.ID, c.Before, c.After)
		}
	}
	if err == nil && told == 0 {
		err = fmt.Errorf("none of %d records tells that %s", len(changes), what)
	}
	return err
}
