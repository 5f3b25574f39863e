package main

import (
	"cmp"
	"os"
	"strings"

	"github.com/urfave/cli/v2"
)

// completionFlag ends a line that a shell wants completed. Of such a line nothing is
// ever run: cli does not see it.
const completionFlag = "--generate-bash-completion"

func completing(argv []string) bool { return len(argv) > 1 && argv[len(argv)-1] == completionFlag }

// offer prints what the shell may put at the cursor, behind these words. The last of them
// stands at the cursor itself where it begins with a dash, -- included; behind an earlier
// -- there are only arguments.
func (s *session) offer(root *verb, words []string) {
	l, last := unfinished(root, s.globals(), words)
	s.home = l.homeGiven()
	offered := []string{}
	switch {
	case last != "":
		offered = l.flagsLike(last)
		if values := valuesOf(flagNamed(l.verb.flags, strings.TrimLeft(last, "-"))); values != nil {
			offered = append(offered, values(s)...)
		}
	default:
		offered = append(offered, l.verb.names()...)
		if l.verb.words != nil {
			offered = append(offered, l.verb.words(s)...)
		}
	}
	for _, word := range offered {
		s.printf("%s\n", word)
	}
}

// unfinished takes a line apart as far as it goes: what is wrong with it is told when it
// is run. last is its last word where that is a flag, or the beginning of one.
func unfinished(root *verb, globals []cli.Flag, words []string) (l *line, last string) {
	l = &line{argv: words, verb: root, path: []string{root.name}, globals: globals, given: map[string]bool{}}
	end := len(words) - 1
	for l.at = 1; l.at < end; l.at++ {
		_ = l.take(words[l.at])
	}
	if end > 0 && !l.ended && strings.HasPrefix(words[end], "-") {
		return l, words[end]
	}
	if l.at == end {
		_ = l.take(words[end])
	}
	return l, ""
}

// homeGiven is the home that the line names, or else the environment.
func (l *line) homeGiven() string { return cmp.Or(l.homeNamed(), os.Getenv("MBOX_HOME")) }

// homeNamed is the home that the line names; "" if it names none.
func (l *line) homeNamed() string {
	for _, word := range l.global {
		if dir, ok := strings.CutPrefix(word, "--home="); ok {
			return dir
		}
	}
	return ""
}

// flagsLike are the flags that begin as a word does, but the word itself and those that
// cannot be given again.
func (l *line) flagsLike(word string) (like []string) {
	flags := l.verb.flags
	if len(l.path) == 1 {
		flags = l.globals
	}
	for _, f := range flags {
		for _, name := range f.Names() {
			flag := dashed(name)
			if flag != word && strings.HasPrefix(flag, word) && (!l.given[f.Names()[0]] || repeats(f)) {
				like = append(like, flag)
			}
		}
	}
	return like
}
