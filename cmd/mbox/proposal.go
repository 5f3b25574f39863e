package main

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"mbox/cmd/mbox/top"
	"mbox/mailbox"
	"mbox/schemas"
)

// What mbox proposes to type is for the mailbox of the line at hand. Where --home has
// named that, the proposal names it too: without, it would be for that of MBOX_HOME.

// homeless are the verbs that are about no mailbox, or name one themselves; but of init
// it is said that it makes one.
var homeless = []string{"completion", "help", "init", "man", "restore", "schema", "version"}

// proposal finds commands in a text. Words in quotes are not looked into: they are what
// somebody else has said.
func proposal() *regexp.Regexp {
	made.Do(func() {
		verbs := slices.DeleteFunc(tree().names(), func(name string) bool { return slices.Contains(homeless, name) })
		made.commands = regexp.MustCompile(`(?:^|[\s(=])(?:"[^"]*"|'(?:[^']|'\\'')*')|(^|[\s(])mbox (` + strings.Join(append(verbs, "init makes"), "|") + `)\b`)
	})
	return made.commands
}

// made is that, once it was asked for: most lines name no mailbox.
var made struct {
	sync.Once
	commands *regexp.Regexp
}

// proposals are what is proposed for a mailbox: --home DIR, for a shell; "" where the line
// does not have it.
type proposals string

// named is a text of mbox's own, whose commands are as they are to be typed here.
func (p proposals) named(text string) string {
	home := string(p)
	if home == "" || !strings.Contains(text, "mbox ") || strings.HasSuffix(text, " --help") || strings.Contains(text, home) || strings.Contains(text, "--home=") {
		return text
	}
	found := proposal()
	return found.ReplaceAllStringFunc(text, func(match string) string {
		if found.FindStringSubmatch(match)[2] == "" {
			return match
		}
		return strings.Replace(match, "mbox ", "mbox "+home+" ", 1)
	})
}

// of is what is told of a task, in which the commands that are for it are as they
// are to be typed here. What else it says may be somebody else's word.
func (p proposals) of(id mailbox.ID, text string) string {
	for _, command := range []string{"mbox approve ", "mbox recover --adopt "} {
		command += string(id)
		text = strings.ReplaceAll(text, command, p.named(command))
	}
	return text
}

// why is an explanation with such commands. How a task failed, or what its worker
// said, is left as it is.
func (p proposals) why(w *mailbox.Why) *mailbox.Why {
	for _, texts := range [][]string{w.Waits, w.Alarms} {
		for i := range texts {
			texts[i] = p.of(w.ID, texts[i])
		}
	}
	if w.State == mailbox.Pending || w.Task == nil {
		w.Summary = p.of(w.ID, w.Summary)
	}
	return w
}

// problem is a problem of the board with such commands.
func (p proposals) problem(about *top.Problem) {
	about.Hint = p.named(about.Hint)
	if about.Kind == "alarm" || about.Kind == "approval" {
		about.Text = p.of(about.Task, about.Text)
	}
}

// proposals are those for the mailbox that the line names.
func (l *line) proposals() proposals {
	dir := l.homeNamed()
	if dir == "" {
		return ""
	}
	return proposals("--home " + schemas.ShellWord(clean(dir, maxLine)))
}
