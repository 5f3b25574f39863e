package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"mbox/schemas"
)

// commands looks for the programs that are to do agents' tasks whole.
func (e *Exam) commands() {
	if e.Config == nil {
		return
	}
	for _, name := range e.Config.AgentNames() {
		a := e.Config.Agents[name]
		program := programOf(a.Command())
		if !a.Enabled || program == "" {
			continue
		}
		if path := e.lookFor(program, name); path != "" {
			e.add("command", Fine, "", "%s runs %s", name, path)
		} else {
			e.add("command", Doubt, "install it, or name it with its whole path in [agents."+name+"]", "%s cannot run: %s is not there", name, schemas.Quote(program))
		}
	}
}

// lookFor is where a program is that an agent's command names; "" if it is not there.
func (e *Exam) lookFor(program, agent string) string {
	user, _ := os.UserHomeDir()
	switch rest, ofUser := strings.CutPrefix(program, "~/"); {
	case ofUser:
		program = filepath.Join(user, rest)
	case strings.Contains(program, "/") && !filepath.IsAbs(program):
		program = filepath.Join(e.Home, e.Config.Agents[agent].Workspace.Path, program)
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return ""
	}
	return path
}

// programOf is the program that a shell's line begins with; "" where only a shell can
// tell.
func programOf(line string) string {
	for word := range strings.FieldsSeq(line) {
		switch name, _, sets := strings.Cut(word, "="); {
		case strings.ContainsAny(word, "`$'\"\\();|&<>*?[]{}!#"):
			return ""
		case sets && !strings.ContainsAny(name, "/.~-"), word == "exec":
		case strings.Contains(" . : test [ cd echo printf read export set eval source true false exit if for while case umask ulimit trap command type ", " "+word+" "):
			return ""
		default:
			return word
		}
	}
	return ""
}
