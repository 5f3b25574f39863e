package dream

import (
	"bytes"
	"slices"
)

// item is what stands together in a memory: a line, and the indented ones behind it.
type item struct {
	text []byte // with its newlines
	size int    // lines
	kind kind
}

type kind int

const (
	entry   kind = iota
	heading      // it stays, for what stands below
	blank
)

// items takes a memory apart. Together they are all of it, byte for byte.
func items(memory []byte) (all []item) {
	for line := range bytes.Lines(memory) {
		k := entry
		switch trimmed := bytes.TrimSpace(line); {
		case len(trimmed) == 0:
			k = blank
		case trimmed[0] == '#' && line[0] == '#':
			k = heading
		}
		last := len(all) - 1
		if k == entry && (line[0] == ' ' || line[0] == '\t') && last >= 0 && all[last].kind == entry {
			all[last].text, all[last].size = append(all[last].text, line...), all[last].size+1
			continue
		}
		all = append(all, item{slices.Clone(line), 1, k})
	}
	return all
}

// level is that of a heading: 1 is the highest.
func (it *item) level() int { return len(it.text) - len(bytes.TrimLeft(it.text, "#")) }

// tidy makes a memory shorter: of entries that say the same the last one stays, and of the
// others the newest, as many as most lines have room for. With an entry the blank lines
// behind it leave, and a heading when nothing is left below it. Gone are the lines that
// left it, in their order.
func tidy(memory []byte, most int) (kept, gone []byte) {
	all := items(memory)
	seen, leaves, lines := map[string]bool{}, make([]bool, len(all)), 0
	for i, it := range slices.Backward(all) {
		if it.kind == entry {
			said := string(bytes.TrimSpace(it.text))
			leaves[i], seen[said] = seen[said], true
		}
		if !leaves[i] {
			lines += it.size
		}
	}
	leave := func(i int) { // with the blank lines behind it
		for j := i; j == i || j < len(all) && all[j].kind == blank; j++ {
			if !leaves[j] {
				leaves[j], lines = true, lines-all[j].size
			}
		}
	}
	var above []int // headings, below which nothing has stayed until here
	for i, it := range all {
		if lines <= most {
			break
		}
		switch {
		case it.kind == heading && i > 0: // the first is the memory's title
			for last := len(above) - 1; last >= 0 && all[above[last]].level() >= it.level(); last-- {
				leave(above[last])
				above = above[:last]
			}
			above = append(above, i)
		case it.kind == entry:
			leave(i)
		}
	}
	for i, it := range all {
		if leaves[i] {
			gone = append(gone, it.text...)
		} else {
			kept = append(kept, it.text...)
		}
	}
	return kept, gone
}

// linesIn counts lines; one without a newline is one.
func linesIn(text []byte) int {
	n := bytes.Count(text, []byte{'\n'})
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}
