package top

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"mbox/cmd/mbox/check"
	"mbox/mailbox"
)

// A board that is printed has what stands, in lines that fit, with colours only where
// they are wanted, and nothing that a task or an agent says moves the cursor.
func TestBoardIsPrinted(t *testing.T) {
	box, _ := newBox(t, mailbox.Options{Agents: map[string]mailbox.Capabilities{"coder": {}, "lame": {}, "off": {Disabled: true}, "acts": {Actions: []string{"write_file"}}}})
	send(t, box, "work", func(s *mailbox.Task) { s.Assignment.TargetAgent = "coder" })
	send(t, box, "wait", func(s *mailbox.Task) { s.Assignment.TargetAgent = "lame" })
	send(t, box, "act", func(s *mailbox.Task) {
		s.Assignment.TargetAgent, s.Mbox.Action = "acts", &mailbox.Action{Name: "write_file"}
	})
	c, err := box.Claim(t.Context(), mailbox.ClaimRequest{Agent: "coder", Process: true})
	must(t, err)
	defer c.Close()
	forty := 40
	must(t, c.Progress(t.Context(), mailbox.Progress{Percent: &forty, Message: "reading"}))
	must(t, os.WriteFile(filepath.Join(box.Home(), "tasks", "quarantine", "odd~1"), []byte("x"), 0o600))
	b, err := Read(t.Context(), box, true, nil)
	must(t, err)
	for i := range b.Agents {
		if said := b.Agents[i].Said; said != nil {
			said.Message = "evil \x1b[2J" + strings.Repeat(" long", 60) // as a task file may have it that is no work of mbox
		}
	}
	b.Tell([]check.Finding{
		{Agent: "coder", Level: check.Fine, Text: "coder runs \x1b[2Jthings"},
		{Agent: "lame", Level: check.Doubt, Text: "lame cannot run: gone is not there", Hint: "install it"},
		{Agent: "nobody", Level: check.Doubt, Text: "nobody cannot run"},
	})
	b.Tell([]check.Finding{{Check: check.Brain, Agent: "acts", Level: check.Doubt, Text: "acts cannot think: no model"}})
	if strings.Contains(fmt.Sprint(b.Problems), "acts") {
		t.Errorf("a task with an action needs no brain: %+v", b.Problems)
	}
	if got := b.problem(kindAgent); got != ": lame cannot run: gone is not there; 1 task waits for it; install it" {
		t.Errorf("the agent that cannot work: %q", got)
	}
	if len(b.Problems) != 2 || b.Quarantine != 1 || b.Free == 0 || b.Every != "5s" {
		t.Errorf("%+v", b)
	}
	colours := regexp.MustCompile("\x1b\\[[0-9;]*m")
	for _, s := range []Style{{}, {Wide: 80}, {Wide: 80, Colours: true}, {Wide: 120, Colours: true}, {Wide: 5}} {
		var out bytes.Buffer
		b.Print(&out, s)
		text := colours.ReplaceAllString(out.String(), "")
		if strings.Contains(text, "\x1b") || (text != out.String()) != s.Colours {
			t.Errorf("%+v: %q", s, out.String())
		}
		for line := range strings.Lines(text) {
			if wide := ansi.StringWidthWc(strings.TrimSuffix(line, "\n")); s.Wide > 2*margin && wide > s.Wide {
				t.Errorf("%+v: %d cells: %s", s, wide, line)
			}
		}
		for _, want := range []string{"(?m)^router +no mbox up", "(?m)^pending +2, the oldest 0s$", `(?m)^agent +coder +work for 0s: 40% evil \\x1b\[2J`, "(?m)^agent +off +not enabled$", "(?m)^quarantine +1$"} {
			if s.Wide != 5 && !regexp.MustCompile(want).MatchString(text) {
				t.Errorf("%+v: no %s in\n%s", s, want, text)
			}
		}
	}
}

// Of a home with many completed tasks a status looks at none of their files.
func TestStatusLooksAtNothingCompleted(t *testing.T) {
	box, _ := newBox(t, mailbox.Options{})
	send(t, box, "done", nil)
	c, err := box.Claim(t.Context(), mailbox.ClaimRequest{Agent: "coder"})
	must(t, err)
	must(t, c.Complete(t.Context(), mailbox.Result{}))
	b, err := Read(t.Context(), box, true, nil)
	must(t, err)
	if c := column(b, mailbox.Completed); c.Count != 1 || len(c.Rows) != 0 || c.Oldest != nil {
		t.Errorf("completed: %+v", c)
	}
	looks := 0
	ctx, end := t.Context(), time.Now().Add(20*time.Second)
	stop := bytes.ErrTooLarge
	if err := Watch(ctx, box, true, nil, func(*Board) error {
		if looks++; looks == 2 || time.Now().After(end) {
			return stop
		}
		return nil
	}); err != stop || looks != 2 {
		t.Errorf("%d looks, %v", looks, err)
	}
}

// However long the ledger is, a status asks about an old task without it: the days that
// are over may even be locked away.
func TestStatusReadsNoOldDays(t *testing.T) {
	box, turn := newBox(t, mailbox.Options{})
	send(t, box, "old", nil)
	turn(48 * time.Hour)
	_, err := box.Scan(t.Context()) // raises the alarm
	must(t, err)
	send(t, box, "new", nil)
	days, err := filepath.Glob(filepath.Join(box.Home(), "audit", "shared", "*.jsonl"))
	must(t, err)
	if len(days) != 2 {
		t.Fatalf("days: %v", days)
	}
	must(t, os.Rename(days[0], filepath.Join(t.TempDir(), "away")))
	b, err := Read(t.Context(), box, true, nil)
	must(t, err)
	i := slices.IndexFunc(b.Problems, func(p Problem) bool { return p.Kind == kindAlarm && p.Task == "old" })
	if i < 0 || !strings.Contains(b.Problems[i].Text, "nobody has taken it") {
		t.Errorf("problems: %+v", b.Problems)
	}
	// What somebody has edited by hand is seen by the index, too.
	must(t, os.WriteFile(filepath.Join(box.Home(), "tasks", "pending", "old.json"), []byte("{}"), 0o600))
	b, err = Read(t.Context(), box, true, nil)
	must(t, err)
	if found := b.problem(kindAlarm); !strings.Contains(found, "edited by hand") {
		t.Errorf("of an edited file: %s", found)
	}
}
