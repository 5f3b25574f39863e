package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"mbox/mailbox"
)

func verifyVerb() *verb {
	var ledgerOnly, inJSON bool
	return &verb{
		name:  "verify",
		brief: "prove the whole home",
		about: `Recomputes every hash of the ledger and its chain, folds it, and compares the
result with every file: the 14 invariants of the format. It writes nothing and
runs while everything works; a transition in flight is no fault. The first
fault, file, line and seq, comes first.

The last line of the output holds the checksum of the ledger's last line. A
chain proves tampering only to someone who kept an older checksum: keep it
somewhere else.`,
		shows: []string{"mbox verify", "mbox verify --ledger-only", "mbox verify --json"},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{
			boolFlag("ledger-only", "check the ledger and the agents' copies, not the files", &ledgerOnly),
			jsonFlag(&inJSON),
		},
		run: func(ctx context.Context, s *session, _ []string) error {
			home, o, err := s.options()
			if err != nil {
				return err
			}
			report, err := mailbox.Verify(ctx, home, o, mailbox.VerifyOptions{
				LedgerOnly: ledgerOnly,
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
			if err == nil && len(report.Faults) > 0 {
				err = fmt.Errorf("%w: %d faults, the first: %v", mailbox.ErrIntegrity, len(report.Faults), report.Faults[0])
				err = hint(err, "mbox why ID tells more; mbox recover --adopt ID takes over what was done to a task by hand")
			}
			return err
		},
	}
}

func (s *session) printVerified(r mailbox.VerifyReport, ledgerOnly bool) {
	for _, f := range r.Faults {
		s.printf("%s\n", clean(f.String(), 1000))
	}
	if r.Truncated {
		s.printf("… and more\n")
	}
	for _, n := range r.Notes {
		s.infof("note: %s", clean(n, 1000))
	}
	what := fmt.Sprintf("%d ledger lines, %d tasks, %d records", r.Lines, r.Tasks, r.Records)
	if ledgerOnly {
		what = fmt.Sprintf("%d ledger lines", r.Lines)
	}
	verdict := "no faults"
	if len(r.Faults) > 0 {
		verdict = fmt.Sprintf("%d faults", len(r.Faults))
	}
	s.printf("%s: %s\n", what, verdict)
	if r.Checksum != "" {
		s.printf("seq %d %s\n", r.Seq, r.Checksum)
	}
}
