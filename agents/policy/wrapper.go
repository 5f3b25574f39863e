package policy

import (
	"slices"
	"strings"
)

// A wrapper runs the command that stands behind its own options. Only options
// that are known here are looked over; behind another one nobody is sure where
// the command begins. Those that write a file, or go to another folder, are not
// known: what a redirection behind them opens would be asked for in the wrong one.
type wrapper struct {
	flags, valued         string   // letters of short options, without and with a value
	longFlags, longValued []string // long options, in full
	operands              int      // words of its own before the command
	assigns               bool     // NAME=VALUE may stand before it
}

// wrappers by name. They add nothing of their own, so they need not be allowed
// by name; sudo and doas do, and must.
var wrappers = map[string]wrapper{
	"env":     {flags: "iv0", valued: "u", longFlags: []string{"--ignore-environment", "--debug"}, longValued: []string{"--unset"}, assigns: true},
	"nice":    {flags: "0123456789", valued: "n", longValued: []string{"--adjustment"}},
	"nohup":   {},
	"timeout": {flags: "fpv", valued: "ks", longFlags: []string{"--foreground", "--preserve-status", "--verbose"}, longValued: []string{"--kill-after", "--signal"}, operands: 1},
	"time":    {flags: "pvqlh", valued: "f", longFlags: []string{"--portability", "--verbose"}, longValued: []string{"--format"}},
	"command": {flags: "pvV"},
	"builtin": {},
	"exec":    {flags: "cl", valued: "a"},
	"setsid":  {flags: "cfw", longFlags: []string{"--ctty", "--fork", "--wait"}},
	"stdbuf":  {valued: "ioe", longValued: []string{"--input", "--output", "--error"}},
	"ionice":  {flags: "t", valued: "cn", longValued: []string{"--class", "--classdata"}},
	"chrt":    {flags: "bfior", operands: 1},
	"busybox": {},
	"toybox":  {},
	"xargs": {
		flags: "0rtxop", valued: "aEILnPsd", longFlags: []string{"--null", "--no-run-if-empty", "--verbose", "--exit", "--interactive", "--open-tty"},
		longValued: []string{"--arg-file", "--delimiter", "--max-args", "--max-procs", "--max-chars", "--max-lines"},
	},
	"sudo": {
		flags: "AbEHiknPSsv", valued: "CghprTtUu", assigns: true,
		longFlags:  []string{"--background", "--preserve-env", "--login", "--non-interactive", "--shell", "--stdin", "--set-home"},
		longValued: []string{"--user", "--group", "--host", "--prompt"},
	},
	"doas": {flags: "Lns", valued: "aCu"},
}

// evaluates are commands whose arguments or files are commands again, in a way
// that is not taken apart here.
var evaluates = set("eval source . trap alias parallel watch script coproc select function case [[ ((  let complete enable hash unalias fish csh tcsh zsh")

// shells take a command line after -c. (zsh reads a file before it, whatever its
// options.)
var shells = set("sh bash dash ash ksh mksh")

// shellFlags are the options of shells that make them read no file: an interactive
// shell, and one of a login, begin with files that the agent may write.
const shellFlags = "-+abcefhkmnoptuvxBCEHOPT"

// inside finds the words behind a wrapper; unclear says why they cannot be found.
func (w wrapper) inside(name string, args []word) (rest []word, unclear string) {
	replaced := "" // what xargs replaces
	for len(args) > 0 {
		arg := args[0]
		if !arg.fixed() {
			return nil, name + " has an option or a command that is made at run time"
		}
		if arg.text == "-" && w.assigns {
			args = args[1:]
			continue
		}
		if !strings.HasPrefix(arg.text, "-") || arg.text == "-" {
			break
		}
		args = args[1:]
		if arg.text == "--" {
			break
		}
		key, value, takes := w.option(arg.text)
		if key == "" || takes && (len(args) == 0 || !args[0].fixed()) {
			return nil, name + " has the option " + arg.text + ", which is not looked over"
		}
		if takes {
			value, args = args[0].text, args[1:]
		}
		if key == "I" {
			replaced = value
		}
		if name == "env" && (key == "u" || key == "--unset") && mayChangeWhatRuns(value) {
			return nil, "it unsets " + value + ", which may change what runs"
		}
	}
	if rest, unclear = w.command(name, args); unclear == "" && name == "xargs" {
		rest = appended(rest, replaced)
	}
	return rest, unclear
}

// option gives an option's name, which is "" where it is unknown, the value that
// is written with it, and whether its value is the next word.
func (w wrapper) option(text string) (key, value string, takes bool) {
	if strings.HasPrefix(text, "--") {
		name, value, attached := strings.Cut(text, "=")
		switch {
		case slices.Contains(w.longValued, name):
			return name, value, !attached
		case slices.Contains(w.longFlags, name) && !attached:
			return name, "", false
		}
		return "", "", false
	}
	for i := 1; i < len(text); i++ {
		switch letter := text[i : i+1]; {
		case strings.Contains(w.valued, letter):
			return letter, text[i+1:], i+1 == len(text)
		case !strings.Contains(w.flags, letter):
			return "", "", false
		}
	}
	return text, "", false
}

// command drops the assignments and the wrapper's own words.
func (w wrapper) command(name string, args []word) (rest []word, unclear string) {
	for w.assigns && len(args) > 0 && strings.Contains(args[0].text, "=") {
		key, _, _ := strings.Cut(args[0].text, "=")
		if mayChangeWhatRuns(key) {
			return nil, "it sets " + key + ", which may change what runs"
		}
		args = args[1:]
	}
	if len(args) < w.operands || slices.ContainsFunc(args[:w.operands], func(a word) bool { return !a.fixed() }) {
		return nil, name + " has a word that is made at run time, or too few"
	}
	return args[w.operands:], ""
}

// appended is what xargs runs: each word that it replaces becomes anything, and
// without replacements there is one more.
func appended(words []word, replaced string) []word {
	words = slices.Clone(words)
	for i := range words {
		if replaced != "" && strings.Contains(words[i].text, replaced) {
			words[i].dynamic = true
		}
	}
	if len(words) > 0 && replaced == "" {
		words = append(words, word{dynamic: true})
	}
	return words
}

// scriptOf finds the line behind a shell's -c. With none, the shell runs a file
// or its input, which nobody reads here.
func scriptOf(shell string, args []word) (line string, there bool, unclear string) {
	wanted := false
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case !arg.fixed():
			return "", false, shell + " runs a line that is made at run time"
		case slices.Contains([]string{"--norc", "--noprofile", "--posix", "--", "-"}, arg.text):
		case strings.HasPrefix(arg.text, "--"):
			return "", false, shell + " has the option " + arg.text + ", which is not looked over"
		case len(arg.text) > 1 && (arg.text[0] == '-' || arg.text[0] == '+'):
			if strings.Trim(arg.text, shellFlags) != "" {
				return "", false, shell + " has the option " + arg.text + ", which is not looked over"
			}
			wanted = wanted || arg.text[0] == '-' && strings.Contains(arg.text, "c")
			if strings.ContainsAny(arg.text, "oO") {
				i++ // a name of an option; a dynamic one is none of -c
			}
		default:
			return arg.text, wanted, ""
		}
	}
	return "", false, ""
}
