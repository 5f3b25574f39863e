package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func arrangeLine(t *testing.T, words string) (*line, error) {
	t.Helper()
	return arrange(tree(), newSession().globals(), strings.Split(words, "|"))
}

func TestArrange(t *testing.T) {
	tests := []struct{ in, want string }{
		{"mbox|send|Fix it|--to|coder", "mbox|send|--to=coder|--|Fix it"},
		{"mbox|send|--to|coder|Fix it", "mbox|send|--to=coder|--|Fix it"},
		{"mbox|send|-|--json", "mbox|send|--json|--|-"},
		{"mbox|send|--|--to", "mbox|send|--|--to"},
		{"mbox|send|--to=coder|help", "mbox|send|--to=coder|--|help"},
		{"mbox|send|x|--to=--json", "mbox|send|--to=--json|--|x"},
		{"mbox|send|x|--description|-- a list", "mbox|send|--description=-- a list|--|x"},
		{"mbox|send|x|--label|a=1|--label|b=2", "mbox|send|--label=a=1|--label=b=2|--|x"},
		{"mbox|ls|--home|h", "mbox|--home=h|ls"},
		{"mbox|--home|h|ls|-n|3", "mbox|--home=h|ls|-n=3"},
		{"mbox|complete|ID|--token|T|--output|-", "mbox|complete|--token=T|--output=-|--|ID"},
		{"mbox|decision|outcome|ID|--by|human|text", "mbox|decision|outcome|--by=human|--|ID|text"},
		{"mbox|ls|-n1", "mbox|ls|-n=1"},
		{"mbox|tail|-n5", "mbox|tail|-n=5"},
		{"mbox|--version", "mbox|version"},
	}
	for _, tt := range tests {
		l, err := arrangeLine(t, tt.in)
		if err != nil {
			t.Errorf("%s: %v", tt.in, err)
			continue
		}
		if got := strings.Join(l.arranged(), "|"); got != tt.want {
			t.Errorf("%s\ngot  %s\nwant %s", tt.in, got, tt.want)
		}
	}
}

func TestArrangeRefuses(t *testing.T) {
	tests := []struct{ in, problem, hint string }{
		{"mbox|sned|x", `mbox has no command "sned"`, "mbox send x"},
		{"mbox|decision|lst", `mbox decision has no command "lst"`, "mbox decision list"},
		{"mbox|send|x|--too|coder", "mbox send has no flag --too", "mbox send x --to coder"},
		{"mbox|send|x|--prioritty=high", "mbox send has no flag --prioritty=high", "mbox send x --priority=high"},
		{"mbox|send|x|-to|coder", "mbox send has no flag -to", "mbox send x --to coder"},
		{"mbox|ls|--n|3", "mbox ls has no flag --n", "mbox ls -n 3"},
		{"mbox|send|it's|here", `mbox send takes TITLE|FILE|-, but there is also "here"`, `mbox send "it's here"`},
		{"mbox|send|$(rm)|it", `mbox send takes TITLE|FILE|-, but there is also "it"`, "mbox send '$(rm) it'"},
		{"mbox|release|f1|f2|--token|T", `mbox release takes ID, but there is also "f2"`, "a token is of one claim, so one id at a time: mbox release f1"},
		{"mbox|complete|f1|f2", `mbox complete takes ID, but there is also "f2"`, "a token is of one claim, so one id at a time: mbox complete f1"},
		{"mbox|create-channel|a|b|--token|T", `mbox create-channel takes NAME, but there is also "b"`, "one NAME at a time: mbox create-channel a"},
		{"mbox|dream|ada|bob|--undo", `mbox dream takes NAME, but there is also "bob"`, "one at a time: mbox dream ada --undo"},
		{"mbox|show|--label|a=b c|--json", "mbox show has no flag --label, and is about those that are named", "mbox ls --label \"a=b c\" lists those that fit"},
		{"mbox|why|--failed", "mbox why has no flag --failed, and is about those that are named", "mbox ls --state failed lists those that fit"},
		{"mbox|show|--live", "mbox show has no flag --live, and is about those that are named", "mbox ls --state pending --state in-progress lists those that fit"},
		{"mbox|ls|--format|csv", "mbox ls has no flag --format", "mbox export --format csv"},
		{"mbox|secret|set|grace|KEY", `mbox secret set takes NAME, but there is also "KEY"`, "mbox secret set --agent grace KEY"},
		{"mbox|show", "mbox show needs ID…", "mbox show ID…"},
		{"mbox|memory|forget|--agent|keeper", "mbox memory forget needs ID…", "mbox memory forget --agent=keeper ID…"},
		{"mbox|decision|outcome|d1", "mbox decision outcome needs ID TEXT|-", "mbox decision outcome ID TEXT|-"},
		{"mbox|start|t1", `mbox has no command "start"`, "mbox up --help"},
		{"mbox|start", `mbox has no command "start"`, "mbox up"},
		{"mbox|stop", `mbox has no command "stop"`, "mbox cancel --help"},
		{"mbox|stop|t1", `mbox has no command "stop"`, "mbox cancel t1"},
		{"mbox|complete|--token|t0p", "mbox complete needs ID", "mbox complete ID"},
		{"mbox|version|now", `mbox version takes no arguments, but there is "now"`, "mbox version --help"},
		{"mbox|doctor|--nope|--json", "mbox doctor has no flag --nope", "mbox doctor --help"},
		{"mbox|ls|--foo", "mbox ls has no flag --foo", "mbox ls --help"},
		{"mbox|edit|t1|--foo", "mbox edit has no flag --foo", "mbox edit --help"},
		{"mbox|ls|--jsn", "mbox ls has no flag --jsn", "mbox ls --json"},
		{"mbox|send|x|--zzz", "mbox send has no flag --zzz", "mbox send --help"},
		{"mbox|send|x|--\x1b[31m", `mbox send has no flag --\x1b[31m`, "mbox send --help"},
	}
	for _, tt := range tests {
		_, err := arrangeLine(t, tt.in)
		var usage *usageError
		if !errors.As(err, &usage) {
			t.Errorf("%s: %v, want a usage error", tt.in, err)
			continue
		}
		if usage.problem != tt.problem || usage.hint != tt.hint {
			t.Errorf("%s\ngot  %s | %s\nwant %s | %s", tt.in, usage.problem, usage.hint, tt.problem, tt.hint)
		}
	}
}

// What other programs call it leads to the verb; and a word that is like none is led to
// nothing that changes the mailbox.
func TestArrangeMeans(t *testing.T) {
	for word, want := range map[string]string{
		"rm": "cancel", "add": "send", "done": "complete", "stop": "cancel", "LOG": "logs", "list": "ls", "cliam": "claim", "fial": "fail",
		"hait": "wait", "unti": "unit", "ail": "tail", "lend": "", "ip": "", "zzz": "", "toktn": "token", "relase": "release",
		"find": "search", "grep": "search", "pause": "agent pause", "resume": "agent resume", "cron": "schedule", "undo": "",
	} {
		_, err := arrangeLine(t, "mbox|"+word+"|t")
		var usage *usageError
		if !errors.As(err, &usage) {
			t.Fatalf("%s: %v", word, err)
		}
		if got := strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(usage.hint, "mbox "), " t"), " --help"); got != want && (want != "" || got != "--help") {
			t.Errorf("%s leads to %q, want %q", word, got, want)
		}
	}
	for word, name := range otherNames() {
		if tree().path(name) == nil || tree().verb(word) != nil {
			t.Errorf("%s leads to %s", word, name)
		}
	}
	for _, name := range onlyLook {
		if tree().verb(name) == nil {
			t.Errorf("there is no %s", name)
		}
	}
}

// What a hint says must be right: following it never leads to another usage
// error about commands and flags.
func TestHintsAreLines(t *testing.T) {
	for _, in := range []string{"mbox|sned|x", "mbox|send|x|--too|coder", "mbox|send|a|b|--to|c", "mbox|ls|--hom|h"} {
		_, err := arrangeLine(t, in)
		var usage *usageError
		if !errors.As(err, &usage) {
			t.Fatalf("%s: %v", in, err)
		}
		words := strings.Fields(strings.ReplaceAll(usage.hint, `"a b"`, "ab"))
		if _, err := arrange(tree(), newSession().globals(), words); err != nil {
			t.Errorf("%s: the hint %q is refused: %v", in, usage.hint, err)
		}
	}
}

// Every command tells what it needs to: a line, a text, its exit codes, and
// flags that say what they take.
func TestEveryVerbIsTold(t *testing.T) {
	var walk func(v *verb, path []string)
	walk = func(v *verb, path []string) {
		name := strings.Join(path, " ")
		if v.brief == "" || v.about == "" || strings.HasSuffix(v.brief, ".") {
			t.Errorf("%s: brief %q, about %q", name, v.brief, v.about)
		}
		if (v.run == nil) == (len(v.verbs) == 0) {
			t.Errorf("%s: is neither a command nor a group", name)
		}
		if v.most > 0 && v.args == "" || v.most >= 0 && v.least > v.most {
			t.Errorf("%s: takes %d to %d arguments called %q", name, v.least, v.most, v.args)
		}
		for _, c := range v.exits {
			if exitMeaning[c] == "" {
				t.Errorf("%s: exit code %d has no meaning", name, c)
			}
		}
		if slices.Contains(v.exits, exitIO) && !slices.Contains(v.exits, exitData) && v.name != "doctor" {
			t.Errorf("%s: reads mbox.toml, where mistakes may be, and does not list %d", name, exitData)
		}
		var flags []string
		for _, f := range v.flags {
			flag, usage := describe(f)
			flags = append(flags, flag)
			if usage == "" || takesValue(f) && strings.HasSuffix(flag, " VALUE") {
				t.Errorf("%s %s: %q does not say what it takes", name, flag, usage)
			}
		}
		if !slices.Equal(flags, slices.Compact(slices.Clone(flags))) {
			t.Errorf("%s: flags %v", name, flags)
		}
		for _, sub := range v.verbs {
			walk(sub, append(slices.Clone(path), sub.name))
		}
	}
	for _, v := range tree().verbs {
		walk(v, []string{"mbox", v.name})
	}
}
