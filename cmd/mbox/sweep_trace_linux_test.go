package main

import (
	"regexp"
	"strings"
)

// sysCall is one call of a trace.
type sysCall struct {
	name     string
	nth      int    // of its kind in this run
	fd       string // that it works on, or that it returned
	path     string // of the file
	other    string // the second path of a rename
	text     string // the line, as strace wrote it
	label    string // the call without what differs from run to run
	inHome   bool   // has to do with the mailbox, or with what is printed
	changing bool   // changes something on disk, or is seen from outside
	broken   bool   // hit by the injection
}

var (
	callLine   = regexp.MustCompile(`^(\w+)\((.*)$`)
	callFD     = regexp.MustCompile(`^(\d+)<([^>]*)>`)
	callPath   = regexp.MustCompile(`"([^"]*)"`)
	callResult = regexp.MustCompile(`\) += (\d+)(?:<[^>]*>)?(?: |$)`)
)

var threadLine = regexp.MustCompile(`^(\d*) *(.*)$`)

// mainCalls are the lines of the thread that begins a trace, each in one piece
// and without the thread's id, which strace -f puts in front.
func mainCalls(data []byte) (lines []string) {
	first := ""
	for line := range strings.Lines(string(data)) {
		m := threadLine.FindStringSubmatch(strings.TrimSpace(line))
		thread, line := m[1], m[2]
		if first == "" {
			first = thread
		}
		if thread != first {
			continue
		}
		if _, rest, ok := strings.Cut(line, " resumed>"); ok && strings.HasPrefix(line, "<... ") {
			last := len(lines) - 1
			lines[last] = strings.TrimSuffix(lines[last], " <unfinished ...>") + rest
			continue
		}
		lines = append(lines, line)
	}
	return lines
}

// parseTrace reads a trace of strace -y of a command that worked in the home.
func parseTrace(data []byte, home string) (calls []sysCall) {
	counts := map[string]int{}
	for _, line := range mainCalls(data) {
		m := callLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		counts[m[1]]++
		c := sysCall{name: m[1], nth: counts[m[1]], text: m[0], broken: strings.Contains(m[2], "(INJECTED)")}
		if f := callFD.FindStringSubmatch(m[2]); f != nil {
			c.fd, c.path = f[1], f[2]
		}
		if paths := callPath.FindAllStringSubmatch(m[2], 2); len(paths) > 0 && named(c.name) {
			c.path = paths[0][1]
			if strings.HasPrefix(c.name, "renameat") && len(paths) > 1 {
				c.other = paths[1][1]
			}
		}
		if r := callResult.FindStringSubmatch(m[2]); r != nil && c.name == "openat" {
			c.fd = r[1]
		}
		c.changing, c.inHome, c.label = c.changes(), c.isIn(home), c.without(home)
		calls = append(calls, c)
	}
	return calls
}

// named tells calls whose file is an argument from those of a descriptor.
func named(name string) bool {
	switch name {
	case "openat", "renameat", "renameat2", "unlinkat", "mkdirat", "fchmodat", "newfstatat", "statfs", "linkat", "symlinkat":
		return true
	}
	return false
}

func (c sysCall) changes() bool {
	switch c.name {
	case "openat":
		return strings.Contains(c.text, "O_CREAT")
	case "write", "pwrite64", "renameat", "renameat2", "unlinkat", "mkdirat", "fchmod", "fchmodat", "ftruncate", "fallocate", "linkat", "symlinkat":
		return true
	}
	return false
}

// done tells whether the call succeeded, and the numbers that it was given last:
// the length and the place of what it wrote.
func (c sysCall) done() (numbers string, ok bool) {
	i := strings.LastIndex(c.text, " = ")
	if i < 0 || strings.ContainsAny(c.text[i+3:][:1], "-?") {
		return "", false
	}
	args := strings.TrimRight(c.text[:i], " )")
	return args[strings.LastIndexAny(args, `">}|`)+1:], true
}

var randomParts = []struct {
	find *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`[0-9a-f]{32}`), "TX"},
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`[0-9]{8}T[0-9]{9}Z`), "TIME"},
	{regexp.MustCompile(`/proc/\d+`), "/proc/PID"},
	{regexp.MustCompile(`pipe:\[\d+\]`), "stdout"},
	{regexp.MustCompile(`\.mbox-[0-9A-Z]{26}\.new`), ".mbox-RANDOM.new"},
	{regexp.MustCompile(`\d{8}T\d{6}\.\d{3}`), "TIME"},
	{regexp.MustCompile(`\d{4}-\d{2}-\d{2}T\d{4}\b`), "TIME"},
}

// without is the call without what differs from run to run.
func (c sysCall) without(home string) string {
	text := c.name + " " + c.path
	if c.other != "" {
		text += " " + c.other
	}
	text = strings.ReplaceAll(text, home, "")
	for _, p := range randomParts {
		text = p.find.ReplaceAllString(text, p.with)
	}
	return text
}

// isIn tells whether the call has to do with the mailbox or with what the
// command prints, and not with how a Go program starts.
func (c sysCall) isIn(home string) bool {
	if c.fd == "1" && c.name == "write" {
		return true
	}
	return c.path == home || strings.HasPrefix(c.path, home+"/") || strings.HasPrefix(c.path, "/proc/sys/kernel/random")
}

var lockNumber = regexp.MustCompile(`/locks/([a-z]+)-[0-9a-f]{2}|/(intents)$`)

// breakable are the calls of a trace that a sweep breaks. Where the same is done
// with very many lock files, or slots, one after the other (init makes 260), the
// first, the middle one and the last stand for all.
func breakable(calls []sysCall) (out []sysCall) {
	kind := func(c sysCall) string {
		return lockNumber.ReplaceAllString(c.label, "/locks/$1$2")
	}
	alike, seen := map[string]int{}, map[string]int{}
	for _, c := range calls {
		alike[kind(c)]++
	}
	for _, c := range calls {
		n, i := alike[kind(c)], seen[kind(c)]
		seen[kind(c)]++
		if c.name == "close" || !c.inHome {
			continue
		}
		if n > 24 && i != 0 && i != n/2 && i != n-1 && lockNumber.MatchString(c.path) {
			continue
		}
		out = append(out, c)
	}
	return out
}
