package check

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"mbox/agents"
	"mbox/cmd/mbox/config"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

// Workers tells of each enabled agent, in the order of their names, whether it can do
// its tasks, by what, and if not, why: whether its command is there, and whether its
// brain answers, which it is asked until ctx ends.
func Workers(ctx context.Context, c *config.File, home string, team *agents.Team) []Finding {
	var names []string
	for _, name := range c.AgentNames() {
		if c.Agents[name].Enabled {
			names = append(names, name)
		}
	}
	found := make([]Finding, len(names))
	var asking sync.WaitGroup
	for i, name := range names {
		asking.Go(func() {
			found[i] = worker(ctx, c, home, team.Members[name].Brain, name)
			pinned(ctx, &found[i], Pin(c, home, name, team))
		})
	}
	asking.Wait()
	return found
}

// pinned adds whether the agent's program is the version that it has to be.
func pinned(ctx context.Context, f *Finding, fit func(context.Context) error) {
	if fit == nil || f.Level != Fine {
		return
	}
	if err := fit(ctx); err != nil {
		f.Level, f.Hint = Doubt, "bring that version back, or mbox agent upgrade "+f.Agent+" --pin VERSION"
		f.Text = f.Agent + " cannot run: " + schemas.Sentence(err.Error(), 400)
	}
}

// worker tells by what an agent works.
func worker(ctx context.Context, c *config.File, home string, brain agents.Brain, name string) Finding {
	f := Finding{Check: "agent", Level: Fine, Agent: name}
	switch a := c.Agents[name]; {
	case a.Command() != "":
		return Command(c, home, name)
	case a.Whole():
		f.Text = name + " has its tasks done by the service at " + schemas.Sentence(a.AgentZero.URL, 200)
	case brain != nil:
		return mind(c, name, brain.Ready(ctx))
	case a.Role != "":
		f.Text = name + " has no brain, and does what carries an action"
	default:
		f.Text = name + " is whoever claims as " + name
	}
	return f
}

// Command tells whether the program is there that is to do an agent's tasks whole.
// What only a shell can tell is taken to be there.
func Command(c *config.File, home, name string) Finding {
	a := c.Agents[name]
	return Line(name, a.Command(), filepath.Join(home, a.Workspace.Path))
}

// Line is Command for a line that a shell runs in dir.
func Line(name, line, dir string) Finding {
	f := Finding{Check: "command", Level: Fine, Agent: name}
	program := programOf(line)
	path := ""
	if program != "" {
		path = lookFor(program, dir)
	}
	switch {
	case program == "":
		f.Text = name + " runs " + schemas.Quote(schemas.Sentence(line, 60))
	case path != "":
		f.Text = name + " runs " + path
		if needs := interpreter(path); needs != "" && lookFor(needs, "/") == "" {
			f.Level, f.Hint = Doubt, "install "+needs+", or name another one in the first line of "+path
			f.Text = name + " cannot run: " + path + " needs " + schemas.Quote(needs) + ", which is not there"
		}
	case inert(program, dir) != "":
		path = inert(program, dir)
		f.Level, f.Hint = Doubt, "chmod +x "+schemas.ShellWord(path)
		f.Text = name + " cannot run: " + path + " is not executable"
	default:
		f.Level = Doubt
		f.Hint = "install it, or name it with its whole path in [agents." + name + "]"
		f.Text = name + " cannot run: " + schemas.Quote(program) + " is not there"
	}
	return f
}

// Unable tells why an agent's command cannot run; "" if it can, or if the agent has none.
func Unable(c *config.File, home, name string) string {
	if a := c.Agents[name]; a == nil || a.Command() == "" {
		return ""
	}
	f := Command(c, home, name)
	return f.Lack()
}

// Lack is why the command of a finding cannot run; "" if it can.
func (f *Finding) Lack() string {
	if f.Level == Fine {
		return ""
	}
	return strings.TrimPrefix(f.Text, f.Agent+" cannot run: ")
}

// interpreter is the program that a script names in its first line; "" if it names none.
// Behind env it is the word there.
func interpreter(path string) string {
	f, _, err := durable.OpenRegular(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, _ := bufio.NewReaderSize(io.LimitReader(f, 256), 256).ReadString('\n')
	rest, script := strings.CutPrefix(line, "#!")
	words := strings.Fields(rest)
	if !script || len(words) == 0 {
		return ""
	}
	if filepath.Base(words[0]) == "env" && len(words) == 2 && !strings.ContainsAny(words[1], "-=") {
		return words[1]
	}
	return words[0]
}

// lookFor is where a program is that a command names which runs in dir; "" if it is
// not there.
func lookFor(program, dir string) string {
	path, err := exec.LookPath(inDir(program, dir))
	if err != nil {
		return ""
	}
	return path
}

// inDir is the path of a program that is named by one.
func inDir(program, dir string) string {
	user, _ := os.UserHomeDir()
	switch rest, ofUser := strings.CutPrefix(program, "~/"); {
	case ofUser:
		return filepath.Join(user, rest)
	case strings.Contains(program, "/") && !filepath.IsAbs(program):
		return filepath.Join(dir, program)
	}
	return program
}

// inert is the file that a command names by its path, and that may not be executed; "" if
// there is none.
func inert(program, dir string) string {
	path := inDir(program, dir)
	if info, err := os.Stat(path); !strings.Contains(path, "/") || err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return path
}

// builtIn are the words that sh, or bash as sh, does itself.
const builtIn = " . : test [ cd chdir echo printf read export set eval source true false exit if for while until case umask ulimit trap command type" +
	" alias bg break continue fg getopts hash jobs kill local pwd readonly return shift times unalias unset wait" +
	" builtin declare enable function let mapfile popd pushd readarray select shopt time typeset "

// programOf is the program that a shell's line begins with; "" where only a shell can
// tell.
func programOf(line string) string {
	for word := range strings.FieldsSeq(line) {
		switch name, _, sets := strings.Cut(word, "="); {
		case strings.ContainsAny(word, "`$'\"\\();|&<>*?[]{}!#"):
			return ""
		case sets && !strings.ContainsAny(name, "/.~-"), word == "exec":
		case strings.Contains(builtIn, " "+word+" "):
			return ""
		default:
			return word
		}
	}
	return ""
}
