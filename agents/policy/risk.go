package policy

import (
	"path"
	"slices"
	"strings"

	"mbox/schemas"
)

// Risk is how much harm a command can do.
type Risk int

// The risks, from the least on.
const (
	Low Risk = iota
	Medium
	High
)

func (r Risk) String() string { return [...]string{"low", "medium", "high"}[r] }

// highRisk are the commands that destroy, take rights, or open connections; the
// last line is Windows's.
var highRisk = set(`rm mkfs dd shutdown reboot halt poweroff sudo su doas chown chmod useradd userdel usermod passwd
	mount umount iptables ufw firewall-cmd curl wget nc ncat netcat scp ssh ftp telnet
	del erase rd format diskpart reg net runas icacls takeown attrib powershell pwsh cmd wmic taskkill`)

// mediumRisk are the commands that change files or what is installed; with
// verbs, only those of their subcommands. A package manager's short forms and
// other names for the same verbs are in.
var mediumRisk = map[string]set{
	"touch": "", "mkdir": "", "mv": "", "cp": "", "ln": "",
	"git": set("commit push reset clean rebase merge cherry-pick revert branch checkout switch tag"),
	"npm": packageVerbs, "pnpm": packageVerbs, "yarn": packageVerbs,
	"cargo": set("add remove rm install uninstall clean publish"),
}

var packageVerbs = set("install add remove uninstall update publish i ci rm r un up upgrade")

// readers are the commands that only read and write their output: all that an
// agent which only reads may run.
var readers = set(`ls cat grep echo pwd wc head tail date df du uname uptime hostname free find
	true false test [ printf cut tr basename dirname stat file which whoami id printenv cmp diff cd
	md5sum sha1sum sha256sum sha512sum nl realpath readlink ps env`)

// gitReaders are the subcommands of git that only read.
var gitReaders = set("status log diff show blame shortlog describe rev-parse rev-list ls-files ls-tree cat-file grep")

// set is words with spaces between them. Unlike a map it costs nothing at start.
type set string

func (s set) has(word string) bool {
	for one := range strings.FieldsSeq(string(s)) {
		if one == word {
			return true
		}
	}
	return false
}

// program is a command's name without its folder, as the tables have it.
func program(name string) string {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	return strings.TrimSuffix(strings.ToLower(name), ".exe")
}

// riskOf judges one command by its name and arguments.
func riskOf(name string, args []word) (risk Risk, why string) {
	name = program(name)
	if highRisk.has(name) || strings.HasPrefix(name, "mkfs.") {
		return High, name + " is a command of high risk"
	}
	verbs, known := mediumRisk[name]
	switch {
	case !known:
		return Low, ""
	case verbs == "":
		return Medium, name + " changes files"
	}
	if verb := verbOf(name, args, verbs); verb != "" {
		return Medium, name + " " + verb + " changes more than files"
	}
	return Low, ""
}

// verbOf finds the subcommand that is of medium risk. A word that nobody knows
// yet may be one. Only git's options before it are known; behind those of the
// others the verb may be the second word.
func verbOf(name string, args []word, verbs set) string {
	words := operands(name, args)
	if name == "yarn" && len(words) == 0 {
		return "install"
	}
	last := 2
	if name == "git" {
		last = 1
	}
	for _, w := range words[:min(last, len(words))] {
		if !w.fixed() || verbs.has(w.text) {
			return w.text
		}
	}
	return ""
}

// operands are the arguments that are no options. Of git's options, those with a
// value in the next word take it along.
func operands(name string, args []word) []word {
	var out []word
	for i := 0; i < len(args); i++ {
		switch text := args[i].text; {
		case name == "git" && len(out) == 0 && slices.Contains([]string{"-C", "--git-dir", "--work-tree", "--namespace"}, text):
			i++
		case strings.HasPrefix(text, "-") && args[i].fixed(), name == "cargo" && strings.HasPrefix(text, "+"):
		default:
			out = append(out, args[i])
		}
	}
	return out
}

// onlyReads tells whether a command of low risk writes nothing but its output.
func onlyReads(name string, args []word) bool {
	name = program(name)
	is := func(prefixes ...string) bool {
		return slices.ContainsFunc(args, func(w word) bool {
			return !w.fixed() && name != "echo" || slices.ContainsFunc(prefixes, w.option)
		})
	}
	switch words := operands(name, args); name {
	case "git":
		return len(words) > 0 && words[0].fixed() && gitReaders.has(words[0].text) && !is("--output", "-O", "--open-files")
	case "find":
		return !is("-fprint", "-fls")
	case "date":
		return !is("-s", "--s") && !slices.ContainsFunc(words, func(w word) bool { return !strings.HasPrefix(w.text, "+") })
	case "hostname":
		return len(words) == 0 && !is("-F", "--file", "-b", "--boot")
	case "file":
		return !is("-C", "--compile")
	}
	return readers.has(name)
}

// harmless are variables that programs know and that lead none of them to another
// program, library or file of settings.
var harmless = map[string]bool{
	"LANG": true, "LANGUAGE": true, "TZ": true, "TERM": true, "COLORTERM": true, "COLUMNS": true, "LINES": true,
	"NO_COLOR": true, "CLICOLOR": true, "FORCE_COLOR": true, "CI": true, "NODE_ENV": true,
}

// ownName are names such as a line gives its own variables. Those of programs are
// longer, and all that end in path are left out: zsh searches programs in path.
var ownName = schemas.Pattern(`^([A-Z]|[a-z][a-z0-9]*)$`)

// mayChangeWhatRuns tells of a variable that it could make a harmless command run
// another one, as PATH, LD_PRELOAD and OPENSSL_CONF do. There are too many to list:
// what is not known to be harmless may.
func mayChangeWhatRuns(name string) bool {
	known := harmless[name] || strings.HasPrefix(name, "LC_")
	return !known && (!ownName().MatchString(name) || strings.HasSuffix(name, "path"))
}
