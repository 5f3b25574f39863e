package agents

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"mbox/mailbox/durable"
)

// ownFiles are those in the home of an agent that was born by which it knows who it is, in
// the order in which its brain is told them; ownMemory is what it has written down.
var ownFiles = []string{"CLAUDE.md", "SOUL.md", "IDENTITY.md"}

const ownMemory = "memory/memory.md"

const (
	mostOwn   = 4 << 20 // bytes of one of these files
	ownTokens = 4096    // of all of them, where nobody knows how much the brain has room for
	spare     = 256     // tokens: what a server puts around messages, and the words that something is cut
)

// himself puts into a conversation who the agent is, and what it remembers, as far as the
// brain has room for it beside the rest: what does not fit is left out, of memory first,
// of CLAUDE.md last. Only one that was born has these texts. They are of its person and
// its own, and stand where instructions do; what it remembers may come from anybody, and
// stands between marks.
func (p *performance) himself(mark string, talk []Message) []Message {
	if p.Home == nil {
		return talk
	}
	room := p.room(talk)
	var own strings.Builder
	told := ""
	for _, name := range ownFiles {
		// A soul that stands in CLAUDE.md, too, is told once.
		if text := p.ownText(name); text != "" && !strings.Contains(told, text) {
			told += text + "\n"
			own.WriteString(fitting(&room, "\n# "+name+"\n\n", text, "\n", false, name))
		}
	}
	if own.Len() > 0 {
		talk[0].Content += "\nWho you are, from the files in your home:\n" + own.String()
	}
	if text := p.ownText(ownMemory); text != "" {
		begin, end, _ := strings.Cut(data(mark, "your "+ownMemory, "\x00"), "\x00")
		talk[1].Content = fitting(&room, begin, text, end, true, ownMemory) + talk[1].Content
	}
	return talk
}

// room is how much text of its own fits into an agent's prompt, as weight counts.
func (p *performance) room(talk []Message) int {
	context, taken := p.Team.Members[p.Agent].Context, 0
	tokens := forPrompt(context, p.role.MaxTokens)
	if context > 0 {
		for _, m := range talk {
			taken += weight(m.Content)
		}
	}
	room := int(float64(tokens)*p.gauge.token()) - taken
	if p.rounds() > 1 {
		room /= 2 // the conversation grows
	}
	return max(room, 0)
}

// forPrompt is how many tokens of a brain's context, 0 if nobody knows it, are for texts of
// an agent's own: a reply may have so many.
func forPrompt(context, reply int) int {
	if context <= 0 {
		return ownTokens
	}
	return context - min(reply, context/2) - spare
}

// Newest is what a brain is shown of a text that is longer than its context, of so many
// tokens (0 if nobody knows), has room for beside an instruction and a reply: the last
// lines of it, and that the others are not there. The brain may count tokens as it likes.
func Newest(text, name, instruction string, context, reply int) string {
	room := int(float64(forPrompt(context, reply))*firstToken) - weight(instruction)
	return fitting(&room, "", text, "", true, name)
}

// ownText is a file of the agent's home; "" where it is not there. One that cannot be read
// keeps the agent from nothing.
func (p *performance) ownText(name string) string {
	path := filepath.Join(p.Box.AgentDir(p.Agent), filepath.FromSlash(name))
	if dir, err := os.Lstat(filepath.Dir(path)); err == nil && !dir.IsDir() {
		p.tell(zerolog.WarnLevel, errors.New(filepath.Dir(path)+" is no folder"), "is not told "+name)
		return ""
	}
	text, err := durable.Read(path, mostOwn)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			p.tell(zerolog.WarnLevel, err, "is not told "+name)
		}
		return ""
	}
	return apart(strings.ToValidUTF8(strings.Trim(string(text), "\n"), "\uFFFD"))
}

// fitting is a text between begin and end, as far as there is room: whole lines, the first
// of them or the last, and that the others are not there.
func fitting(room *int, begin, text, end string, last bool, name string) string {
	frame := weight(begin) + weight(end)
	if n := frame + weight(text); n <= *room {
		*room -= n
		return begin + text + end
	}
	said := fmt.Sprintf("(cut off: %s has more lines than there is room for here)", name)
	lines := slices.Collect(strings.Lines(text))
	left := *room - frame - weight(said) - 1
	kept := 0
	for ; kept < len(lines); kept++ {
		at := kept
		if last {
			at = len(lines) - 1 - kept
		}
		if n := weight(lines[at]); n <= left {
			left -= n
			continue
		}
		break
	}
	*room = 0 // what comes after is of less weight than what was cut
	if last {
		return begin + said + "\n" + strings.Join(lines[len(lines)-kept:], "") + end
	}
	return begin + strings.Join(lines[:kept], "") + said + end
}

// weight is how much of a prompt a text takes: its bytes, those of no ASCII twice, since
// models have fewer tokens for these.
func weight(text string) int {
	n := len(text)
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			n++
		}
	}
	return n
}

// gauge is how much text a token of a brain's model stands for, as its last replies tell.
type gauge struct {
	mu    sync.Mutex
	model string
	seen  []float64
}

const (
	firstToken = 2.0 // the weight of a token before any was counted: few texts have less
	leastToken = 0.5
	mostToken  = 8.0 // a server that has kept a prompt may count only what is new
	lastTokens = 8   // replies that count
)

// token is the weight of a token: the least one of the last replies.
func (g *gauge) token() float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.seen) == 0 {
		return firstToken
	}
	return slices.Min(g.seen)
}

// counts keeps what a reply tells of the tokens of its prompt.
func (g *gauge) counts(talk []Message, r Reply) {
	if r.Input <= 0 {
		return
	}
	n := 0
	for _, m := range talk {
		n += weight(m.Content)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.model != r.Model {
		g.model, g.seen = r.Model, nil
	}
	g.seen = append(g.seen, min(max(float64(n)/float64(r.Input), leastToken), mostToken))
	g.seen = g.seen[max(0, len(g.seen)-lastTokens):]
}
