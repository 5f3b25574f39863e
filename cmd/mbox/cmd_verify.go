package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mbox/audit"
	"mbox/cmd/mbox/check"
	"mbox/mailbox"
	"mbox/mailbox/verify"
	"mbox/schemas"
)

func verifyVerb() *verb {
	var ledgerOnly, deep, inJSON bool
	return &verb{
		name:  "verify",
		brief: "prove the whole home",
		about: `Recomputes every hash of the ledger and its chain, folds it, and compares the
result with every file: the 14 invariants of the format. It writes nothing and
runs while everything works; a transition in flight is no fault. The first
fault, file, line and seq, comes first. A task whose bytes the ledger confirms is
what mbox wrote; --deep decodes it again all the same.

The last line of the output holds the checksum of the ledger's last line. A
chain proves tampering only to someone who kept an older checksum: keep it
somewhere else.`,
		shows: []string{"mbox verify", "mbox verify --ledger-only", "mbox verify --deep", "mbox verify --json"},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{
			boolFlag("ledger-only", "check the ledger and the agents' copies, not the files", &ledgerOnly),
			boolFlag("deep", "decode every task again, though the ledger confirms its bytes", &deep),
			jsonFlag(&inJSON),
		},
		run: func(ctx context.Context, s *session, _ []string) error {
			if ledgerOnly && deep {
				return usagef("mbox verify --deep", "--ledger-only looks at no task, and --deep at all of them")
			}
			home, o, err := s.options()
			if err != nil {
				return err
			}
			report, err := verify.Home(ctx, home, verify.Options{
				LedgerOnly: ledgerOnly,
				Wait:       o.LockWait,
				Deep:       deep,
				Progress:   func(done, total int64) { s.progress("verifying", done, total) },
			})
			s.endProgress()
			if err != nil {
				return err
			}
			if inJSON {
				err = s.printLine(report)
			} else {
				s.printVerified(report, ledgerOnly)
			}
			if err == nil && len(report.Findings) > 0 {
				err = fmt.Errorf("%w: %s, the first: %v", mailbox.ErrIntegrity, schemas.Count(len(report.Findings), "fault", "faults"), report.Findings[0])
				err = hint(err, "%s", nextStep(ctx, home, report))
			}
			return err
		},
	}
}

// nextStep is the hint of the first fault: what mends it, or shows that only a
// backup does.
func nextStep(ctx context.Context, home string, r verify.Report) string {
	f := r.Findings[0]
	path, mode := filepath.Join(home, f.File), strings.HasPrefix(f.What, "mode is")
	info, err := os.Lstat(path)
	private := strings.HasPrefix(f.File, ".mbox/")
	switch {
	case errors.Is(audit.CheckWritable(home), audit.ErrDamaged):
		return check.WayOut // the rest may follow from that
	case f.File == "audit/shared" && slices.ContainsFunc(r.Findings, func(f verify.Finding) bool { return f.Invariant == 10 }):
		return check.WayOut // lines were written, and their folder is missing
	case r.Gone != "":
		_, hint := judge(mailbox.ErrGone)
		return hint
	case err == nil && isStrange(info, f):
		return check.MoveOut(path)
	case f.Linked():
		return "remove the other names of " + clean(f.File, maxLine) + ", or copy the home while nothing runs: cp -a HOME NEW"
	case err == nil && info.Mode()&0o600 != 0o600:
		return check.OpenUp(home)
	case mode && f.Invariant == 13: // doctor leaves the quarantine alone
		return "chmod 0600 " + schemas.ShellWord(clean(path, maxLine))
	case mode, f.Invariant == 14 && !private:
		return "mbox doctor --fix mends modes and missing folders; mbox help damage tells the rest"
	case private, f.Invariant >= 9 && f.Invariant <= 11:
		return "mbox recover mends what can be mended; mbox help damage tells the rest"
	case f.Invariant == 13 && errors.Is(err, fs.ErrNotExist):
		return "bring " + clean(f.File, maxLine) + " back from a backup, or give up what was removed: mbox recover --adopt-deleted"
	case f.Invariant == 12, f.Invariant == 13:
		return "bring " + clean(f.File, maxLine) + " back from a backup; mbox help damage tells how"
	case f.Second():
		return "mbox recover removes it where it is an older version of mbox's own, and else puts it into tasks/quarantine"
	case f.Missing():
		return "mbox recover brings back what can be, and gives up nothing; then " + backOrUp(ctx, home, f.Task)
	}
	if way := mendFile(home, f.Task); way != "" {
		return way
	}
	return fmt.Sprintf("mbox why %[1]s tells more; mbox recover --adopt %[1]s takes over what was done by hand", cmp.Or(clean(string(f.Task), 128), "ID"))
}

// backOrUp are the ways to go on without what a task was.
func backOrUp(ctx context.Context, home string, id mailbox.ID) string {
	if box, err := mailbox.Look(home, mailbox.Options{}); err == nil {
		defer box.Close()
		if way := leftOf(ctx, box, id); way != "" {
			return way
		}
	}
	return "bring its file back from a backup, which mbox restore BACKUP DIR unpacks; at last mbox recover --adopt " + clean(string(id), 128) + " gives it up"
}

// isStrange tells whether the fault is that something lies there at all: what mbox
// knows nothing of, what is neither file nor folder, a folder for a file.
func isStrange(info fs.FileInfo, f verify.Finding) bool {
	kept := f.Invariant == 12 || f.Invariant == 13 && !strings.HasPrefix(f.File, ".mbox/")
	switch {
	case info.IsDir():
		return f.Strange() || kept || strings.HasSuffix(f.What, "regular file")
	case info.Mode().IsRegular():
		return f.Strange()
	}
	return true
}

func (s *session) printVerified(r verify.Report, ledgerOnly bool) {
	for _, f := range r.Findings {
		s.printf("%s\n", clean(f.String(), 1000))
	}
	if r.Truncated {
		s.printf("… and more\n")
	}
	for _, n := range r.Notes {
		s.infof("note: %s", clean(n, 1000))
	}
	what := schemas.Count(r.Lines, "ledger line", "ledger lines")
	if !ledgerOnly {
		what += ", " + schemas.Count(r.Tasks, "task", "tasks") + ", " + schemas.Count(r.Records, "record", "records")
	}
	verdict := "no faults"
	if len(r.Findings) > 0 {
		verdict = schemas.Count(len(r.Findings), "fault", "faults")
	}
	s.printf("%s: %s\n", what, verdict)
	if r.Checksum != "" {
		s.printf("seq %d %s\n", r.Seq, r.Checksum)
	}
}
