package policy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mbox/schemas"
)

// Verdict is what the policy says of a command line.
type Verdict struct {
	Risk          Risk // the highest of all segments
	NeedsApproval bool // somebody must approve before it runs
	Segments      []Segment
}

// Segment is one command of a line, without the wrappers around it.
type Segment struct {
	Command string   // as it is written; ">" for a redirection into a file
	Args    []string // without quotes; what is made at run time is incomplete
	Risk    Risk
	Why     string // what makes it more than low; "" if nothing does
}

const (
	ruleCommandEmpty      = "command_empty"
	ruleCommandUnclear    = "command_unclear"
	ruleCommandHigh       = "command_high_risk"
	ruleCommandNotAllowed = "command_not_allowed"
	ruleCommandOwn        = "command_own_program"
	ruleCommandReadOnly   = "command_readonly"
)

// Command decides whether the agent may run a shell's command line in its
// workspace. The line is split as a shell would; every command in it, also in
// subshells, substitutions, sh -c, and behind env, timeout, xargs and the like,
// must be allowed, and the highest risk is the line's:
//
//   - What cannot be split with certainty is of high risk. No name in
//     allowed_commands allows it, only * with block_high_risk_commands off.
//   - A command of high risk is refused unless allowed_commands has its very
//     name (* is not enough), or block_high_risk_commands is off.
//   - Any other must stand in allowed_commands, by name or by path, or * there.
//     A name stands for the one program that PATH leads to, by that name or by its
//     whole path, and for none in a place that the agent may write.
//   - Files that redirections open are asked of Read and Write.
//   - An agent of level readonly runs only what is known to write nothing.
//
// The error is a [*Denied]; the verdict is filled in then too. Without one,
// somebody must approve a line of high risk of a supervised agent, and one of
// medium risk where require_approval_for_medium_risk is on.
//
// Arguments are not decided on: what they mean, only the command knows.
func (p *Policy) Command(line string) (Verdict, error) {
	j := &judge{policy: p}
	j.line(line, 0)
	return j.verdict(line)
}

// Argv is Command for a command that runs without a shell.
func (p *Policy) Argv(argv []string) (Verdict, error) {
	j := &judge{policy: p}
	words := make([]word, len(argv))
	for i, arg := range argv {
		words[i] = word{text: arg}
	}
	if len(words) > 0 {
		j.command(words, 0)
	}
	return j.verdict(strings.Join(argv, " "))
}

// A judge looks at every command of a line and keeps what it has found.
type judge struct {
	policy   *Policy
	segments []Segment
	words    [][]word // the arguments of each segment
	outs     []word   // files that redirections open to write
	ins      []word
	known    map[string]bool // of [judge.genuine]
	moves    bool            // a cd: relative names then mean something else
	unclear  string          // why the line is not understood; "" if it is
}

func (j *judge) giveUp(why string) {
	if j.unclear == "" {
		j.unclear = why
	}
}

// crowded tells whether there is more to decide on than anybody should: for each
// command and each file the disk is asked several times.
func (j *judge) crowded() bool {
	if len(j.segments)+len(j.outs)+len(j.ins) <= maxCommands {
		return false
	}
	j.giveUp("it has too many commands and files")
	return true
}

func (j *judge) line(line string, depth int) {
	found, unclear := split(line, depth)
	if unclear != "" {
		j.giveUp(unclear)
		return
	}
	for _, s := range found {
		j.outs = append(j.outs, s.outs...)
		j.ins = append(j.ins, s.ins...)
		if len(s.words) > 0 {
			j.command(s.words, depth+1)
		}
	}
}

// command judges one simple command, without the keywords and assignments that
// stand before it.
func (j *judge) command(words []word, depth int) {
	for len(words) > 0 {
		name, sets := words[0].assigns()
		switch key := words[0].keyword(); {
		case key == "for": // a name and words; what it does comes after do
			if len(words) > 1 {
				j.sets(words[1:2])
			}
			return
		case opensCommand.has(key) || closesCommand.has(key):
		case sets && mayChangeWhatRuns(name):
			j.giveUp("it sets " + name + ", which may change what runs")
			return
		case sets:
		default:
			j.named(words[0], words[1:], depth)
			return
		}
		words = words[1:]
	}
}

// named judges a command that begins with its name.
func (j *judge) named(name word, args []word, depth int) {
	if !name.fixed() || name.text == "" {
		j.giveUp("the name of a command is made at run time")
		return
	}
	if depth > maxDepth {
		j.giveUp("it is nested too deeply")
		return
	}
	if j.crowded() {
		return
	}
	base := program(name.text)
	w, wraps := wrappers[base]
	switch {
	case evaluates.has(base):
		j.giveUp(base + " runs what is not looked into")
	case (wraps || shells.has(base)) && (filepath.Base(name.text) != base || !j.genuine(name.text)):
		j.plain(name.text, args)
	case shells.has(base):
		j.shell(name.text, args, depth)
	case wraps:
		j.wrapped(name.text, w, args, depth)
	case base == "find":
		j.found(name.text, args, depth)
	default:
		j.plain(name.text, args)
	}
}

func (j *judge) plain(name string, args []word) {
	switch base := program(name); {
	case slices.Contains([]string{"cd", "pushd", "popd"}, base):
		j.moves = true
	case base == "git" && gitRunsMore(args):
		j.giveUp("git has an option that can run other commands")
	case setters.has(base):
		j.sets(args)
	case (base == "test" || base == "[") && slices.ContainsFunc(args, func(w word) bool { return w.text == "-v" }):
		j.giveUp(base + " -v may compute what it is given")
	case base == "printf" && len(args) > 0 && (strings.HasPrefix(args[0].text, "-v") || !args[0].fixed()):
		j.giveUp("printf may set a variable")
	}
	risk, why := riskOf(name, args)
	j.add(name, args, risk, why)
}

func (j *judge) add(name string, args []word, risk Risk, why string) {
	j.segments = append(j.segments, Segment{Command: name, Args: texts(args), Risk: risk, Why: why})
	j.words = append(j.words, args)
}

// setters are builtins whose arguments name variables.
var setters = set("export declare typeset local readonly read unset getopts mapfile readarray")

// gitPlain are the subcommands of git, besides those of the tables of risk, that
// run no command which stands in their arguments. Any other one may, or be an alias
// of the repository's own.
var gitPlain = set(`add am annotate apply archive bundle cherry clean clone count-objects diff-files diff-index diff-tree
	fetch for-each-ref format-patch fsck gc hash-object help init ls-remote merge-base mktree mv name-rev notes pull
	range-diff reflog remote repack restore rm show-ref sparse-checkout stash symbolic-ref update-index update-ref
	version whatchanged worktree write-tree`)

// gitCommands are the subcommands that take a command as an option, with the
// letters of those that have one.
var gitCommands = map[string]string{"archive": "", "clone": "u", "fetch": "", "grep": "O", "ls-remote": "", "pull": "", "push": "", "rebase": "x"}

// gitRunsMore tells whether git has an option that sets what it runs, wherever it
// stands, or a subcommand that may run anything, or may have one.
func gitRunsMore(args []word) bool {
	words := operands("git", args)
	letters, takes := "", false
	if len(words) > 0 {
		verb := words[0].text
		if !words[0].fixed() || !gitPlain.has(verb) && !gitReaders.has(verb) && !mediumRisk["git"].has(verb) {
			return true
		}
		letters, takes = gitCommands[verb]
	}
	options := []string{"-c", "--config", "--exec", "--extcmd", "--upload-pack", "--receive-pack", "--open-files", "--ext-diff", "--template", "ext::"}
	return slices.ContainsFunc(args, func(w word) bool {
		short := strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "--")
		return short && strings.ContainsAny(w.text, letters) || takes && w.mayBeOption() || slices.ContainsFunc(options, w.option)
	})
}

// mayBeOption tells whether a word that is made at run time may become an option.
func (w word) mayBeOption() bool {
	return !w.fixed() && (w.plain == 0 || strings.ContainsAny(w.text[:1], "-*?[{"))
}

// option tells whether a word is an option, with or without a value, also one in
// short: programs take --upl for --upload-pack.
func (w word) option(name string) bool {
	short, _, _ := strings.Cut(w.text, "=")
	return strings.HasPrefix(w.text, name) || len(short) > 2 && strings.HasPrefix(short, "--") && strings.HasPrefix(name, short)
}

// sets judges arguments that name variables. What stands in brackets, or is put into
// a number (-i), is computed, for which a shell runs what stands in it.
func (j *judge) sets(args []word) {
	for _, arg := range args {
		name, _, _ := strings.Cut(arg.text, "=")
		option := strings.HasPrefix(name, "-") || strings.HasPrefix(name, "+")
		runs := strings.Contains(arg.text, "[") || strings.ContainsAny(arg.text[:min(1, len(arg.text))], "-+") && strings.ContainsAny(arg.text, "iC")
		if !arg.fixed() && !strings.Contains(arg.text, "=") || !option && mayChangeWhatRuns(name) || runs {
			j.giveUp("it sets " + schemas.Sentence(name, 80) + ", which may change what runs")
		}
	}
}

// shell judges the line behind -c. A shell with a file, or with its input, runs
// what nobody has read: that needs the shell's own name in allowed_commands.
func (j *judge) shell(name string, args []word, depth int) {
	line, there, unclear := scriptOf(program(name), args)
	switch {
	case unclear != "":
		j.giveUp(unclear)
	case there:
		j.line(line, depth)
	default:
		j.add(name, args, High, program(name)+" runs a file or its input, which is not looked into")
	}
}

// wrapped judges the command inside a wrapper. A wrapper around nothing (env
// alone) is a command of its own; sudo and doas always are.
func (j *judge) wrapped(name string, w wrapper, args []word, depth int) {
	base := program(name)
	rest, unclear := w.inside(base, args)
	if unclear != "" {
		j.giveUp(unclear)
		return
	}
	if len(rest) == 0 || highRisk.has(base) {
		j.plain(name, args)
	}
	if len(rest) > 0 {
		j.command(rest, depth+1)
	}
}

// found judges find, which runs commands and deletes by itself.
func (j *judge) found(name string, args []word, depth int) {
	j.plain(name, args)
	for i := 0; i < len(args); i++ {
		switch text := args[i].text; {
		case args[i].dynamic:
			j.giveUp("find has an argument that is made at run time")
		case text == "-delete":
			j.add("rm", []word{args[i]}, High, "find -delete removes files")
		case strings.HasPrefix(text, "-fprint") || text == "-fls":
			j.add(name, args[i:i+1], Medium, "find "+text+" writes a file")
		case slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir"}, text):
			inner := args[i+1:]
			j.moves = j.moves || strings.HasSuffix(text, "dir") // it runs where the file is
			for end, w := range inner {
				if w.text == ";" || w.text == "+" && end > 0 && inner[end-1].text == "{}" {
					inner = inner[:end]
					break
				}
			}
			if j.command(appended(inner, "{}"), depth+1); len(inner) == 0 {
				j.giveUp("find " + text + " has no command")
			}
			i += len(inner)
		}
	}
}

// own tells whether a program lies where the agent can put one, so that its name
// says nothing about what it does. A relative path counts as such: it begins in
// the workspace, or nobody knows where.
func (p *Policy) own(name string) bool {
	switch {
	case !strings.Contains(name, "/"):
		return false
	case !filepath.IsAbs(name) && !strings.HasPrefix(name, "~/"), suspicious(name) != "":
		return true
	}
	_, err := p.mayWrite(name)
	return err == nil
}

// exactly tells whether allowed_commands has the command itself, and not *.
func (j *judge) exactly(name string) bool {
	listed := func(name string) bool { return name != "*" && slices.Contains(j.policy.AllowedCommands, name) }
	if strings.Contains(name, "/") && listed(name) {
		return true
	}
	return listed(filepath.Base(name)) && j.genuine(name)
}

// genuine tells whether a command is the program of its base name that PATH leads
// to, and whether the agent could not have put another one there, or before it. A
// name that leads nowhere is a builtin, or nothing.
func (j *judge) genuine(name string) bool {
	real, asked := j.known[name]
	if !asked {
		if j.known == nil {
			j.known = map[string]bool{}
		}
		real = j.policy.leadsTo(name)
		j.known[name] = real
	}
	return real
}

func (p *Policy) leadsTo(name string) bool {
	base := filepath.Base(name)
	if name != base && (p.own(name) || suspicious(name) != "") {
		return false
	}
	lists := p.lists()
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		at := filepath.Join(dir, base)
		led, err := resolve(at)
		in := func(folder string) bool { return within(at, folder) || within(led, folder) }
		if !filepath.IsAbs(dir) || err != nil || slices.ContainsFunc(lists, in) {
			return false
		}
		if info, err := os.Stat(at); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			continue
		}
		return name == base || p.samePlace(name, at)
	}
	return name == base
}

// lists are the folders that a list lets the agent write, as they are named and
// where they lead. An agent without a boundary may write everywhere, which says
// nothing of a name.
func (p *Policy) lists() []string {
	lists := slices.Concat([]string{p.Workspace}, p.ReadWrite, p.WriteOnly)
	for _, folder := range lists {
		if led, err := resolve(folder); err == nil && led != folder {
			lists = append(lists, led)
		}
	}
	return lists
}

// samePlace tells whether two paths are one name in one folder. Where the name
// itself leads does not count: one program may have many names, as busybox has.
func (p *Policy) samePlace(a, b string) bool {
	a, rule := p.absolute(a)
	one, err := resolve(filepath.Dir(a))
	other, err2 := resolve(filepath.Dir(b))
	return rule == "" && err == nil && err2 == nil && one == other && filepath.Base(a) == filepath.Base(b)
}

func texts(words []word) []string {
	var out []string
	for _, w := range words {
		out = append(out, w.text)
	}
	return out
}
