package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"mbox/agents/memory/sqlite"
	"mbox/agents/secret"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/mailbox/backup"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/schemas"
)

func backupVerb() *verb {
	var o backupOptions
	return &verb{
		name: "backup", args: "FILE.tar.zst|-", least: 1, most: 1,
		brief: "copy a running mailbox",
		about: `Writes the whole mailbox into one archive while others go on working, cut at one
line of the ledger, so that mbox restore gives a mailbox that verifies. A plain
copy of a running home does not. The file must not be there yet, nor lie in the home; -
is standard output. What is no file, sparse or cannot be read is named and left out; the
exit code is 74 where that is part of the mailbox itself. A database of memories that is
damaged is in it as it lies, with the same exit code.

The archive ends with a manifest of every path, size and SHA-256; --check reads
it all and holds it against that. To restore by hand: tar --zstd -xf FILE, then
mbox doctor --fix and mbox recover.

What agents remember in Postgres and Qdrant is not in it, which is said: pg_dump and
snapshots keep that.

Secrets of agents are in it encrypted, as they lie. What opens them is not, nor are
passwords that somebody has laid in .mbox/keys, unless --with-keys says so: then
whoever has the archive can read them, also where their identity lies in a keyring.`,
		shows: []string{"mbox backup ~/agents-$(date +%F).tar.zst", "mbox backup --check ~/agents-2026-02-16.tar.zst"},
		exits: []int{exitNotFound, exitConflict, exitData, exitIO, exitBusy},
		flags: []cli.Flag{
			boolFlag("check", "read FILE and say whether it is whole", &o.check),
			boolFlag("with-keys", "put in what opens the secrets of agents, and passwords in .mbox/keys", &o.withKeys),
			boolFlag("json", "print what is in it, as JSON", &o.json),
		},
		run: func(ctx context.Context, s *session, args []string) error {
			if o.check && o.withKeys {
				return usagef("mbox backup --check agents.tar.zst", "--with-keys is for making a backup")
			}
			if o.check {
				return s.checkBackup(ctx, args[0], o.json)
			}
			if args[0] == "-" && o.json {
				return usagef("mbox backup agents.tar.zst --json", "standard output is the archive, --json would be in it")
			}
			if args[0] == "-" && term.IsTerminal(int(os.Stdout.Fd())) {
				return usagef("mbox backup - > agents.tar.zst", "an archive does not belong on a terminal")
			}
			return s.with(ctx, func(box *mailbox.Box) error { return o.run(ctx, s, box, args[0]) })
		},
	}
}

type backupOptions struct {
	check, withKeys, json bool
	left                  []string // files that are not in it, since they are in clear
	harmed                error    // why the database of memories could not be copied
}

// checkBackup reads an archive to its end.
func (s *session) checkBackup(ctx context.Context, name string, inJSON bool) error {
	from, err := s.openInput(ctx, name)
	if err != nil {
		return err
	}
	defer from.Close()
	report, err := backup.Check(ctx, from)
	if err != nil {
		return refusedArchive(fmt.Errorf("%s: %w", name, err))
	}
	if inJSON {
		return s.printLine(report)
	}
	s.warnSkipped(report)
	if name == "-" {
		name = "standard input"
	}
	s.printf("%s is whole, up to line %d of the ledger\n", clean(name, maxLine), report.Seq)
	return nil
}

// backUp writes the archive, with a copy of the database of memories, and without what
// opens secrets unless that is wanted.
func (o *backupOptions) backUp(ctx context.Context, box *mailbox.Box, to io.Writer) (backup.Report, error) {
	path := memoryDatabase(box.Home())
	copied, end, err := sqlite.Snapshot(ctx, path, box.Options().LockWait)
	if err != nil && (ctx.Err() != nil || errors.Is(err, durable.ErrBusy)) {
		return backup.Report{}, err
	}
	o.harmed = err
	instead, texts, err := o.keys(ctx, box)
	if err != nil {
		return backup.Report{}, errors.Join(err, end())
	}
	for _, name := range append(sqlite.Beside(path), path) {
		if o.harmed != nil && strings.HasPrefix(name, path) {
			continue // it and its journal as they lie
		}
		rel, err := filepath.Rel(box.Home(), name)
		if err != nil {
			return backup.Report{}, errors.Join(err, end())
		}
		instead[rel] = ""
		if name == path {
			instead[rel] = copied
		}
	}
	report, err := box.Backup(ctx, to, instead, texts)
	return report, errors.Join(err, end())
}

// keys is what the backup has in the place of what opens secrets. What lies in a keyring
// gets into no file but the archive, and not there unless that is wanted.
func (o *backupOptions) keys(ctx context.Context, box *mailbox.Box) (instead map[string]string, texts map[string][]byte, err error) {
	instead = map[string]string{secret.IdentityFile: ""}
	if !o.withKeys {
		if o.left, err = laidIn(box.Home()); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range o.left {
		instead[name] = ""
	}
	text, err := secret.Carry(ctx, box.Home(), o.withKeys)
	if text != nil {
		delete(instead, secret.IdentityFile)
		texts = map[string][]byte{secret.IdentityFile: text}
	}
	return instead, texts, err
}

// ownKeys are what mbox keeps among the keys: none of it opens anything that is elsewhere.
var ownKeys = []string{"salt", "tokens", "secrets", "identity"}

// laidIn lists the files that a person has laid in .mbox/keys, from the home: passwords in
// clear, such as that of a database.
func laidIn(dir string) (files []string, err error) {
	keys := home.Private(dir, "keys")
	err = filepath.WalkDir(keys, func(path string, d fs.DirEntry, err error) error {
		own := filepath.Dir(path) == keys && slices.Contains(ownKeys, filepath.Base(path))
		switch {
		case err != nil:
			return err
		case own && d.IsDir():
			return fs.SkipDir
		case own || d.IsDir():
			return nil
		}
		rel, err := filepath.Rel(dir, path)
		files = append(files, filepath.ToSlash(rel))
		return err
	})
	return files, err
}

// run writes to a file of another name first, so that what has the right
// name is whole. That file is locked: two backups at once do not share it.
func (o *backupOptions) run(ctx context.Context, s *session, box *mailbox.Box, name string) error {
	if name == "-" {
		report, err := o.backUp(ctx, box, os.Stdout)
		s.endProgress()
		s.warnSkipped(report)
		o.tellKeys(ctx, s, box)
		tellServers(s)
		return errors.Join(err, o.lacking(box.Home(), report))
	}
	if inside(name, box.Home()) {
		out := filepath.Join(filepath.Dir(box.Home()), filepath.Base(name))
		return usagef("mbox backup "+schemas.ShellWord(clean(out, maxLine)), "%s lies in the home %s: each backup would hold those before it", clean(name, maxLine), clean(box.Home(), maxLine))
	}
	if _, err := os.Lstat(name); err == nil {
		return hint(fmt.Errorf("%s: %w: the file is there already", name, mailbox.ErrConflict), "give another name, or remove it")
	}
	part := name + ".part"
	f, lock, err := openPart(part)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	report, err := o.backUp(ctx, box, f)
	s.endProgress()
	if err == nil {
		err = durable.SyncFile(f)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = durable.Move(part, name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	if err := durable.SyncDir(filepath.Dir(name), durable.Standard); err != nil {
		return err
	}
	o.tellKeys(ctx, s, box)
	tellServers(s)
	return errors.Join(s.tellBackup(name, report, o.json), o.lacking(box.Home(), report))
}

// inside tells whether a file would lie in the folder, by whatever links that may be. The
// folder of the file may not be there: then it does not.
func inside(name, folder string) bool {
	dir, err := filepath.Abs(filepath.Dir(name))
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	there, failed := os.Stat(folder)
	if err != nil || failed != nil {
		return false
	}
	for ; ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && os.SameFile(info, there) {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// tellKeys says that passwords, and what opens the secrets, have to be kept elsewhere.
func (o *backupOptions) tellKeys(ctx context.Context, s *session, box *mailbox.Box) {
	if len(o.left) > 0 {
		s.infof("not in it, since it is not encrypted: %s; keep a copy elsewhere, or say --with-keys", clean(strings.Join(o.left, ", "), maxLine))
	}
	all, _ := secret.List(ctx, box.Home(), "")
	if len(all) == 0 || o.withKeys {
		return
	}
	what, elsewhere := clean(secret.Identity(box.Home()), maxLine), "keep a copy of that elsewhere"
	if at, _ := secret.Where(ctx, box.Home()); at.In == secret.InKeyring {
		what, elsewhere = "the identity "+at.String(), "keep the keyring"
	}
	s.infof("%s in it cannot be opened without %s: %s, or say --with-keys", schemas.Count(len(all), "secret", "secrets"), what, elsewhere)
}

// tellServers says that what agents remember in servers is kept elsewhere.
func tellServers(s *session) {
	for _, in := range []struct{ backend, name, copies string }{
		{config.MemoryPostgres, "Postgres", "pg_dump copies that"},
		{config.MemoryQdrant, "Qdrant", "snapshots of its collections copy that"},
	} {
		var names []string
		for _, name := range s.config.AgentNames() {
			if remembersIn(s.config, in.backend, name) {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			s.warnf("not in the backup: what is remembered in %s (%s); %s", in.name, clean(strings.Join(names, ", "), maxLine), in.copies)
		}
	}
}

// openPart makes the file that a backup is written to. One that a killed backup
// left is taken over.
func openPart(part string) (*os.File, *durable.Lock, error) {
	const flags = os.O_WRONLY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	made, err := os.OpenFile(part, flags|os.O_CREATE, durable.FileMode)
	if err != nil {
		return nil, nil, err
	}
	made.Close()
	lock, err := durable.TryLock(part)
	if err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(part, flags|os.O_TRUNC, 0) // with the lock nobody else moves it away
	if err != nil {
		lock.Unlock()
		return nil, nil, err
	}
	return f, lock, nil
}

func (s *session) tellBackup(name string, r backup.Report, inJSON bool) error {
	if inJSON {
		return s.printLine(r)
	}
	s.warnSkipped(r)
	s.done("%s: %s, %s, up to line %d of the ledger", name, schemas.Count(r.Files, "file", "files"), schemas.Size(uint64(r.Bytes)), r.Seq)
	return nil
}

// warnSkipped names what a backup does not hold.
func (s *session) warnSkipped(r backup.Report) {
	for i, skipped := range r.Skipped {
		if i == 10 {
			s.warnf("%d more are not in the backup: mbox backup --check --json names all", len(r.Skipped)-i)
			return
		}
		s.warnf("not in the backup: %s: %s", clean(skipped.Path, maxLine), skipped.Why)
	}
}

// lacking is an error where something of the mailbox itself, or the database of memories,
// could not be read. What agents keep in their folders is theirs.
func (o *backupOptions) lacking(home string, r backup.Report) error {
	for _, skipped := range r.Skipped {
		top, _, _ := strings.Cut(skipped.Path, "/")
		if skipped.Unread && slices.Contains([]string{".mbox", "audit", "changes", "channels", "decisions", "tasks"}, top) {
			return hint(fmt.Errorf("%w: the backup lacks %s: %s", syscall.EIO, filepath.Join(home, skipped.Path), skipped.Why),
				"the rest is in it; mend this (mbox doctor), then make another one")
		}
	}
	if o.harmed != nil {
		return hint(fmt.Errorf("%w: what agents remember is in the backup as it lies, and may be of no use: %v", syscall.EIO, o.harmed),
			"the rest is in it; put the database back from an older backup, or move it out of the home, then make another one")
	}
	return nil
}
