package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mbox/schemas"
)

// cli stops looking for flags at the first argument, so that in
//
//	mbox send "Fix the build" --to coder
//
// --to would silently become a second title. arrange therefore takes the line
// apart by the verbs' own flag tables and puts it together again as
//
//	mbox GLOBALS VERB FLAGS -- ARGUMENTS
//
// On the way it refuses, with the line that was probably meant, what cli would
// accept or explain badly: unknown commands and flags, a flag without its value
// or given twice, and too many or too few arguments.
func arrange(root *verb, globals []cli.Flag, argv []string) (*line, error) {
	l := &line{argv: argv, root: root, verb: root, path: []string{root.name}, globals: globals, given: map[string]bool{}}
	for l.at = 1; l.at < len(argv); l.at++ {
		if err := l.take(argv[l.at]); err != nil {
			return l, err
		}
	}
	l.help = l.help || len(l.path) == 1
	return l, l.count()
}

// line is a command line that is being taken apart.
type line struct {
	argv    []string
	at      int
	globals []cli.Flag
	root    *verb
	verb    *verb // as deep as it is known
	path    []string
	ended   bool // behind --
	before  int  // how many arguments stand before --
	help    bool

	global, flags, args []string
	given               map[string]bool
}

func (l *line) take(word string) error {
	switch {
	case l.ended, word == "-", !strings.HasPrefix(word, "-"):
		return l.argument(word)
	case word == "--":
		l.ended, l.before = true, len(l.args)
		return nil
	}
	return l.flag(word)
}

func (l *line) argument(word string) error {
	if len(l.verb.verbs) == 0 {
		l.args = append(l.args, word)
		return nil
	}
	if sub := l.verb.verb(word); sub != nil {
		l.verb, l.path = sub, append(l.path, word)
		return nil
	}
	hint := strings.Join(l.path, " ") + " --help"
	if near := l.meant(word); near != "" {
		hint = l.meaning(strings.Fields(near))
	}
	return usagef(hint, "%s has no command %q", strings.Join(l.path, " "), clean(word, 40))
}

// meaning is the line with the verb that was meant, or the verb's page of the help where
// that line would be refused: the verb takes no such arguments, or needs some.
func (l *line) meaning(verb []string) string {
	words := slices.Replace(slices.Clone(l.argv), l.at, l.at+1, verb...)
	other, err := arrange(l.root, l.globals, words)
	if other.at == len(words) && (err != nil || other.verb.args == "[ID…]" && len(other.args)+len(other.flags) == 0) {
		return strings.Join(other.path, " ") + " --help"
	}
	return l.corrected(verb...)
}

// said is the line, as a shell reads it.
func (l *line) said() string { return shell(append([]string{l.root.name}, l.argv[1:]...)) }

// so is the line with other arguments, and more; a token is not to be shown.
func (l *line) so(args []string, more string) string {
	words := slices.Concat(l.path, l.flags)
	if flagNamed(l.verb.flags, "token") != nil {
		words = slices.Clone(l.path)
	}
	return shell(append(words, args...)) + " " + more
}

// otherNames are what other programs call what a verb of mbox does.
func otherNames() map[string]string {
	return map[string]string{
		"add": "send", "new": "send", "create": "send", "submit": "send", "rm": "cancel", "del": "cancel", "delete": "cancel",
		"remove": "cancel", "kill": "cancel", "stop": "cancel", "abort": "cancel", "done": "complete", "finish": "complete",
		"close": "complete", "log": "logs", "list": "ls", "ps": "status", "cat": "show", "info": "show", "start": "up", "take": "claim",
		"next": "claim", "check": "verify", "follow": "tail", "find": "search", "grep": "search", "cron": "schedule", "pause": "agent pause",
		"resume": "agent resume",
	}
}

// onlyLook are the verbs that change nothing: one of them may be proposed for a word that
// is farther away.
var onlyLook = []string{"audit", "doctor", "help", "logs", "ls", "man", "schema", "show", "status", "tail", "top", "verify", "version", "wait", "why"}

// meant is the verb that was probably meant; "" if none is near. One that changes
// something begins as the word does: nobody should be led to it by chance.
func (l *line) meant(word string) string {
	names := l.verb.names()
	lower := strings.ToLower(word)
	if name := otherNames()[lower]; name != "" && l.verb.path(name) != nil {
		return name
	}
	if lower == "undo" { // nothing is: no verb that changes something is what was meant
		return ""
	}
	near := schemas.Suggest(word, names)
	if near == "" || slices.Contains(onlyLook, near) || strings.EqualFold(near[:1], word[:1]) {
		return near
	}
	return schemas.Suggest(word, slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(onlyLook, name) }))
}

func (l *line) flag(word string) error {
	name, value, inline := strings.Cut(strings.TrimLeft(word, "-"), "=")
	short := !strings.HasPrefix(word, "--")
	if short && l.withNumber(name) && !inline {
		name, value, inline = name[:1], name[1:], true
	}
	switch {
	case name == "help", short && name == "h":
		l.help = true
		return nil
	case name == "version" && len(l.path) == 1 && l.verb.verb("version") != nil:
		return l.argument("version")
	}
	f, global := l.find(name)
	if f == nil || short != (len(name) == 1) {
		return l.unknownFlag(name, word)
	}
	if err := l.once(f); err != nil {
		return err
	}
	words := []string{dashed(name)}
	switch {
	case inline:
		words[0] += "=" + value
	case takesValue(f):
		next, err := l.value(name)
		if err != nil {
			return err
		}
		words[0] += "=" + next
	}
	if global {
		l.global = append(l.global, words...)
	} else {
		l.flags = append(l.flags, words...)
	}
	return nil
}

// withNumber tells whether a word is a flag of one letter and its number, as in -n5.
func (l *line) withNumber(word string) bool {
	if len(word) < 2 || strings.Trim(word[1:], "0123456789") != "" {
		return false
	}
	f, _ := l.find(word[:1])
	g, ok := f.(*cli.GenericFlag)
	if !ok {
		return false
	}
	_, ok = g.Value.(*number)
	return ok
}

func (l *line) find(name string) (f cli.Flag, global bool) {
	if f := flagNamed(l.verb.flags, name); f != nil {
		return f, false
	}
	return flagNamed(l.globals, name), true
}

func flagNamed(flags []cli.Flag, name string) cli.Flag {
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

func takesValue(f cli.Flag) bool {
	if g, ok := f.(*cli.GenericFlag); ok {
		if _, word := g.Value.(*agreed); word {
			return false
		}
	}
	d, ok := f.(cli.DocGenerationFlag)
	return ok && d.TakesValue()
}

// once refuses a second value for a flag that holds one.
func (l *line) once(f cli.Flag) error {
	name := f.Names()[0]
	if !l.given[name] || repeats(f) {
		l.given[name] = true
		return nil
	}
	return usagef(strings.Join(l.path, " ")+" --help", "%s is given twice", dashed(name))
}

func repeats(f cli.Flag) bool {
	g, ok := f.(*cli.GenericFlag)
	if !ok {
		return false
	}
	switch g.Value.(type) {
	case *texts, *labels, *choices:
		return true
	}
	return false
}

// value is the word behind a flag. A flag there means that the value was
// forgotten: who means a value that looks like a flag writes --name=value.
func (l *line) value(name string) (string, error) {
	problem := ""
	if l.at+1 == len(l.argv) {
		problem = "needs a value"
	} else if next := l.argv[l.at+1]; strings.HasPrefix(next, "--") && l.known(next) {
		problem = fmt.Sprintf("needs a value, and %s is a flag", next)
	}
	if problem != "" {
		return "", usagef(strings.Join(l.path, " ")+" --help", "%s %s", dashed(name), problem)
	}
	l.at++
	return l.argv[l.at], nil
}

func (l *line) known(word string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	f, _ := l.find(name)
	return f != nil
}

func (l *line) unknownFlag(name, word string) error {
	problem := fmt.Sprintf("%s has no flag %s", strings.Join(l.path, " "), clean(word, 40))
	if hint := l.lists(name); hint != "" {
		return usagef(hint, "%s, and is about those that are named", problem)
	}
	if name == "format" && l.verb.name == "ls" {
		return usagef("mbox export --format csv", "%s", problem)
	}
	var known []string
	for _, f := range slices.Concat(l.verb.flags, l.globals) {
		known = append(known, f.Names()...)
	}
	near := schemas.Suggest(name, known)
	if near == "" || near != name && (!strings.EqualFold(near[:1], name[:1]) || len(name) <= 3 && len(name) == len(near)) { // chance
		return usagef(strings.Join(l.path, " ")+" --help", "%s", problem)
	}
	_, value, inline := strings.Cut(word, "=")
	if near = dashed(near); inline {
		near += "=" + value
	}
	return usagef(l.corrected(near), "%s", problem)
}

// statesMeant are the flags for all tasks of a state, as mbox ls says them.
var statesMeant = map[string][]string{
	"failed": {"--state", "failed"}, "pending": {"--state", "pending"}, "live": {"--state", "pending", "--state", "in-progress"},
}

// lists is the line that lists the tasks which a filter chooses, for a verb that shows
// those that are named; "" if the flag is no filter.
func (l *line) lists(name string) string {
	if v := l.verb.name; len(l.path) != 2 || v != "show" && v != "why" {
		return ""
	}
	words := statesMeant[name]
	if f := flagNamed(lsVerb().flags, name); f != nil {
		words = l.argv[l.at : l.at+1]
		if takesValue(f) && !strings.Contains(words[0], "=") && l.at+1 < len(l.argv) {
			words = l.argv[l.at : l.at+2]
		}
	}
	if words == nil {
		return ""
	}
	return shell(slices.Concat([]string{"mbox"}, l.global, []string{"ls"}, words)) + " lists those that fit"
}

// corrected is the line with other words at the place where it went wrong.
func (l *line) corrected(other ...string) string {
	words := slices.Clone(l.argv)
	words[0] = "mbox"
	return shell(slices.Replace(words, l.at, l.at+1, other...))
}

// count compares the arguments with what the verb takes.
func (l *line) count() error {
	v, path := l.verb, strings.Join(l.path, " ")
	switch n := len(l.args); {
	case l.help, len(v.verbs) > 0:
		return nil
	case n < v.least, v.split && l.before != 1:
		return usagef(l.so(nil, v.args), "%s needs %s", path, v.args)
	case v.most >= 0 && n > v.most && v.most == 0:
		return usagef(path+" --help", "%s takes no arguments, but there is %q", path, clean(l.args[0], 40))
	case v.most >= 0 && n > v.most:
		return usagef(l.fewer(), "%s takes %s, but there is also %q", path, strings.Trim(v.args, "[]"), clean(l.args[v.most], 40))
	}
	return nil
}

// fewer is the hint of a line with too many arguments.
func (l *line) fewer() string {
	last := strings.Fields(strings.Trim(l.verb.args, "[]"))[l.verb.most-1]
	if last != "ID" && last != "NAME" {
		return l.joined()
	}
	words := slices.Concat([]string{"mbox"}, l.global, l.path[1:], l.args[:l.verb.most])
	if last == "NAME" && flagNamed(l.verb.flags, "agent") != nil && !l.given["agent"] && len(l.args) == 2 { // the agent came first
		words = slices.Concat([]string{"mbox"}, l.global, l.path[1:], []string{"--agent"}, l.args)
		return shell(append(words, l.flags...))
	}
	switch token := flagNamed(l.verb.flags, "token") != nil; { // which is not to be shown
	case token && last == "ID":
		return "a token is of one claim, so one id at a time: " + shell(words)
	case token:
		return "one " + last + " at a time: " + shell(words)
	}
	return "one at a time: " + shell(append(words, l.flags...))
}

// joined is the line with the last arguments as one: a title's quotes are what
// is forgotten most often.
func (l *line) joined() string {
	last := l.verb.most - 1
	args := append(slices.Clone(l.args[:last]), strings.Join(l.args[last:], " "))
	return shell(slices.Concat([]string{"mbox"}, l.global, l.path[1:], args, l.flags))
}

// arranged is the line with its flags in front, for cli.
func (l *line) arranged() []string {
	out := slices.Concat(l.argv[:1], l.global, l.path[1:], l.flags)
	if len(l.args) > 0 {
		out = append(append(out, "--"), l.args...)
	}
	return out
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// shell writes words as a line that a shell reads back.
func shell(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = schemas.ShellWord(clean(w, 200))
	}
	return strings.Join(quoted, " ")
}
