package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	agentshome "mbox/agents-home"
	"mbox/cmd/mbox/check"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/schemas"
)

type initOptions struct {
	sync    choice
	network bool
	demo    bool
	json    bool
}

func initVerb() *verb {
	o := initOptions{sync: oneOf("standard", "strict", "none")}
	return &verb{
		name: "init", args: "[DIR]", most: 1,
		brief: "make a mailbox",
		about: `Makes the folders, lock files and the identity of a mailbox, and a commented
mbox.toml and a README.md beside them. DIR stands for --home. It is to be empty or
not there; an mbox.toml that is there already is kept, and an init that was cut
short is finished by calling it again. Where a ledger or tasks lie, there was a
mailbox: then mbox recover rebuilds what is missing.

With --demo it fills a new mailbox with tasks in every state, a decision and a change,
and says what to do with them. No model is needed. DIR is then to be named. To begin a
demo anew, remove the folder.`,
		shows: []string{"mbox init", "mbox init /srv/agents --sync strict", "mbox init --demo ~/mbox-demo"},
		exits: []int{exitConflict, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{
			valueFlag("sync", "what is flushed before an answer: `MODE` is standard (contents and ledger), strict (folders as well) or none (tmpfs and tests)", &o.sync),
			boolFlag("allow-network-fs", "work on NFS, SMB, 9p or FUSE, where locks and renames promise less", &o.network),
			boolFlag("demo", "fill it with tasks to look at, which need no model", &o.demo),
			jsonFlag(&o.json),
		},
		run: func(ctx context.Context, s *session, args []string) error { return o.run(ctx, s, args) },
	}
}

func (o *initOptions) run(ctx context.Context, s *session, args []string) error {
	if o.demo && len(args) == 0 {
		return usagef("mbox init --demo ~/mbox-demo", "--demo needs a folder of its own")
	}
	if len(args) == 1 {
		if s.home != "" && s.home != args[0] && os.Getenv("MBOX_HOME") != s.home {
			return usagef("mbox init "+schemas.ShellWord(args[0]), "the folder is given twice: %s and --home %s", args[0], s.home)
		}
		s.home = args[0]
	}
	home, err := s.homeDir()
	if err != nil {
		return err
	}
	if o.demo {
		if err := demoPlace(home); err != nil {
			return err
		}
	}
	if err := o.create(s, home); err != nil {
		return err
	}
	if o.demo {
		if err := fillDemo(ctx, s); err != nil {
			return err
		}
	}
	if o.json {
		return s.printLine(map[string]any{"home": home, "sync": s.config.Sync})
	}
	s.printf("%s\n", clean(home, maxLine))
	if o.demo {
		s.printf("%s", demoSteps(home))
		return nil
	}
	s.done(`made a mailbox; next: mbox send "Hello" and mbox ls`)
	return nil
}

// create makes the mailbox. The configuration goes first: VERSION, which makes
// a folder a mailbox, is written last, so that what --sync chose is never lost.
func (o *initOptions) create(s *session, dir string) error {
	if _, err := os.Lstat(filepath.Join(dir, ".mbox", "VERSION")); err == nil {
		return fmt.Errorf("%s: %w", dir, mailbox.ErrExists)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := home.CheckPlace(dir); err != nil {
		return err
	}
	if err := home.CheckVacant(dir); err != nil {
		return err
	}
	if err := checkStrangers(dir); err != nil {
		return err
	}
	mode := config.Mode(o.sync.value)
	if err := durable.MkdirAll(dir, mode); err != nil {
		return err
	}
	if err := o.copyTemplate(dir, mode); err != nil {
		return err
	}
	if o.demo {
		if err := writeDemoSettings(dir, mode); err != nil {
			return err
		}
	}
	var err error
	if s.config, err = config.Load(dir); err != nil {
		return err
	}
	if err := s.config.Contradicts(o.sync.value, o.network); err != nil {
		return err
	}
	options := s.config.Options()
	s.warnUnsynced(options.Sync)
	if name, _, _ := durable.FileSystem(dir); name == "tmpfs" && options.Sync != durable.None {
		s.warnf("%s is on tmpfs, %s", dir, check.InMemory)
	}
	err = mailbox.Create(dir, options)
	if errors.Is(err, mailbox.ErrFileSystem) {
		return hint(err, "mbox init --allow-network-fs %s, or a folder on a local disk", schemas.ShellWord(dir))
	}
	return err
}

// checkStrangers refuses a folder in which lies what is nothing of mbox's: mbox
// would shut it for all others.
func checkStrangers(dir string) error {
	name, err := check.Stranger(dir)
	if err != nil || name == "" {
		return err
	}
	err = fmt.Errorf("%s: there is %s, which is nothing of mbox's: %w", dir, schemas.Quote(name), mailbox.ErrConflict)
	return hint(err, "mbox init %s makes it in a new folder there, which MBOX_HOME or --home has to name then", schemas.ShellWord(filepath.Join(dir, "agents")))
}

// copyTemplate copies the template home out of the binary, leaving what is there.
func (o *initOptions) copyTemplate(home string, mode durable.Mode) error {
	tree, err := fs.Sub(agentshome.FS, "template")
	if err != nil {
		return err
	}
	err = fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		target := filepath.Join(home, filepath.FromSlash(path))
		if d.IsDir() {
			return durable.MkdirAll(target, mode)
		}
		data, err := fs.ReadFile(tree, path)
		if err != nil {
			return err
		}
		if path == config.Name {
			data = config.Template(o.sync.value, o.network)
		}
		if err := durable.Stage(target, data, mode); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	})
	return errors.Join(err, durable.SyncDir(home, mode))
}
