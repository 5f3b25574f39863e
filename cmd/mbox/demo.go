package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"mbox/agents"
	"mbox/audit/record"
	"mbox/cmd/mbox/config"
	"mbox/examples"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// demoSettings is where the demo's agents are set, from the home.
const demoSettings = config.Dir + "/demo.toml"

// demoPlace refuses a folder in which something lies: a demo is to be thrown away.
func demoPlace(dir string) error {
	lies, err := os.ReadDir(dir)
	if err == nil && len(lies) > 0 {
		err = hint(fmt.Errorf("%s: the folder of a demo has to be empty, and there is %s: %w", dir, schemas.Quote(lies[0].Name()), mailbox.ErrConflict), "mbox init --demo DIR, with a folder that is not there yet")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// writeDemoSettings sets the demo's agents.
func writeDemoSettings(dir string, mode durable.Mode) error {
	data, err := fs.ReadFile(examples.FS, "demo/mbox.toml")
	if err != nil {
		return err
	}
	target := filepath.Join(dir, demoSettings)
	if err := durable.MkdirAll(filepath.Dir(target), mode); err != nil {
		return err
	}
	return firstError(durable.Stage(target, data, mode), durable.SyncDir(filepath.Dir(target), mode))
}

// demo fills a new mailbox by the verbs that everybody has.
type demo struct {
	*session
	box *mailbox.Box
}

// fillDemo makes what there is to look at.
func fillDemo(ctx context.Context, s *session) error {
	return s.with(ctx, func(box *mailbox.Box) error {
		d := demo{s, box}
		for _, step := range []func(context.Context) error{d.begin, d.work, d.drop, d.leave, d.record} {
			if err := step(ctx); err != nil {
				return fmt.Errorf("the demo was not finished: %w", err)
			}
		}
		return nil
	})
}

// begin sends what will be done, or refused. One may not be sent at all: its agent's
// role does not allow it.
func (d demo) begin(ctx context.Context) error {
	err := d.send(ctx, "actions/tester-writes.json")
	if refused := new(agents.RefusedError); !errors.As(err, &refused) {
		return cmp.Or(err, errors.New("what the tester may not do was not refused"))
	}
	return d.send(ctx, "actions/write-note.json", "actions/check-note.json", "actions/ask-coder.json",
		"tasks/fix-login.json", "tasks/release-notes.json", "demo/tasks.jsonl")
}

// send sends the tasks of some examples.
func (d demo) send(ctx context.Context, names ...string) error {
	for _, name := range names {
		data, err := fs.ReadFile(examples.FS, name)
		if err != nil {
			return err
		}
		for _, line := range taskLines(data) {
			t, err := task.ParseDrop("", line.text)
			if err == nil {
				_, err = d.box.Submit(ctx, t)
			}
			if err != nil {
				return inFile(err, name)
			}
		}
	}
	return nil
}

// work has each agent do what there is for it. The coordinator comes twice: it waits
// for what it has handed to the coder.
func (d demo) work(ctx context.Context) error {
	script, err := fs.ReadFile(examples.FS, "summarise.sh")
	if err != nil {
		return err
	}
	folder, mode := filepath.Join(d.box.AgentDir("writer"), "workspace"), d.box.Options().Sync
	if err := durable.MkdirAll(folder, mode); err != nil {
		return err
	}
	if err := durable.Stage(filepath.Join(folder, "summarise.sh"), script, mode); err != nil {
		return err
	}
	for _, name := range []string{"coordinator", "coder", "tester", "coordinator", "writer", "copier"} {
		if err := mayStart(d.config, name); err != nil {
			return err
		}
		w := d.worker(d.box, name, d.config.Agents[name])
		w.Once, w.Log = true, zerolog.Nop()
		if err := w.Run(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// drop drops a file with a mistake, which mbox rejects.
func (d demo) drop(ctx context.Context) error {
	file := filepath.Join(d.box.Home(), "tasks", "pending", "sweep.json")
	if err := durable.Stage(file, []byte(`{"task":{"title":"Sweep the floor","priority":"hi"}}`+"\n"), d.box.Options().Sync); err != nil {
		return err
	}
	_, err := d.box.Scan(ctx)
	return err
}

// leave leaves what is not done: a task is cancelled, one has just come, and one is
// as far as its agent has got with it.
func (d demo) leave(ctx context.Context) error {
	if err := d.box.Cancel(ctx, "order-paper", "human", "there is enough until summer"); err != nil {
		return err
	}
	if err := d.send(ctx, "demo/figures.json"); err != nil {
		return err
	}
	c, err := d.box.Claim(ctx, mailbox.ClaimRequest{Agent: "reader", ID: "sort-mail"})
	if err != nil {
		return err
	}
	percent := 40
	return errors.Join(c.Progress(ctx, mailbox.Progress{Percent: &percent, Message: "12 of 30 letters read"}), c.Close())
}

// record writes a decision and a change.
func (d demo) record(ctx context.Context) error {
	_, err := d.box.Decide(ctx, record.Decision{
		Agent: "human", Task: "fix-login",
		Context:  "The login page answered 500 where a name had an umlaut.",
		Options:  []string{"Refuse such names: quick, and wrong.", "Read all names as UTF-8: two files change."},
		Decision: "Names are read as UTF-8 everywhere.",
	})
	if err != nil {
		return err
	}
	_, err = d.box.Change(ctx, record.Change{
		Agent: "human", Type: "config",
		Description:  "A demo has agents of its own.",
		Rationale:    "There is something to look at, without a model.",
		Before:       "There were the coordinator, the coder and the tester.",
		After:        "There are a writer, a copier and an editor besides, and none of them thinks.",
		Rollback:     "Remove " + demoSettings + ".",
		Verification: "mbox agent list names them.",
	})
	return err
}

// demoSteps is what to do next, as it can be pasted.
func demoSteps(home string) string {
	return fmt.Sprintf(`
A mailbox to look at. Nothing in it needs a model. Next:

export MBOX_HOME=%s
mbox status                      # what needs you
mbox ls                          # all tasks
mbox show fix-login              # one that is done
mbox logs copy-photos            # why one has failed
mbox why sweep                   # why one was rejected
mbox audit delegation --decision rejected
mbox approve publish-notes       # let the editor work,
mbox worker --agent editor --once
mbox worker --agent writer --once
mbox decision list
mbox verify                      # every byte compared with the ledger
`, schemas.ShellWord(clean(home, maxLine)))
}
