package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"mbox/audit"
	"mbox/cmd/mbox/config"
	"mbox/cmd/mbox/gateway/token"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

func TestExitCodes(t *testing.T) {
	tests := []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("something"), 1},
		{mailbox.ErrIntegrity, 1},
		{audit.ErrDamaged, 1},
		{context.Canceled, 1},
		{signalled{syscall.SIGINT}, 130},
		{fmt.Errorf("x: %w", signalled{syscall.SIGTERM}), 143},
		{&unwell{"two things"}, 1},
		{fs.ErrNotExist, 1},
		{usagef("", "no"), 2},
		{mailbox.ErrNoMailbox, 4},
		{mailbox.ErrNotFound, 4},
		{token.ErrUnknown, 4},
		{token.ErrExists, 5},
		{mailbox.ErrConflict, 5},
		{mailbox.ErrExists, 5},
		{mailbox.ErrEmpty, 5},
		{mailbox.ErrStale, 6},
		{&schemas.Error{Problem: "x"}, 65},
		{&config.Error{Problem: "x"}, 65},
		{token.ErrDamaged, 65},
		{mailbox.ErrReadOnly, 74},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, 74},
		{syscall.ENOSPC, 74},
		{syscall.EIO, 74},
		{syscall.EINTR, 74},
		{fmt.Errorf("x: %w", io.ErrShortWrite), 74},
		{mailbox.ErrBusy, 75},
		{fmt.Errorf("%w: %w", mailbox.ErrBusy, mailbox.ErrRouted), 75},
		{fmt.Errorf("%w, held by process 1 %w", mailbox.ErrBusy, mailbox.ErrOlderAtWork), 75},
		{mailbox.ErrCommitted, 76},
		// What counts most is told first.
		{fmt.Errorf("%w: %w", mailbox.ErrCommitted, syscall.ENOSPC), 76},
		{errors.Join(mailbox.ErrStale, syscall.EIO), 6},
		{fmt.Errorf("%w: %w", mailbox.ErrReadOnly, audit.ErrDamaged), 74},
	}
	if _, way := judge(fmt.Errorf("%w, held by process 1 %w", mailbox.ErrBusy, mailbox.ErrOlderAtWork)); !strings.HasPrefix(way, "stop it") {
		t.Errorf("the way past an older mbox: %q", way)
	}
	for err, want := range map[error]string{
		&durable.HeldError{Path: "x", PID: 42, Stopped: true}:      "kill -CONT 42 ",
		&durable.HeldError{Path: "x", PID: 42}:                     "try again",
		&fs.PathError{Op: "open", Path: "x", Err: syscall.EROFS}:   "the disk is mounted read-only",
		&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}: "make room",
	} {
		if _, way := judge(fmt.Errorf("task x: %w", err)); !strings.HasPrefix(way, want) {
			t.Errorf("%v: the way out: %q", err, way)
		}
	}
	for _, tt := range tests {
		if got, _ := judge(tt.err); got != tt.want {
			t.Errorf("%v: exit code %d, want %d", tt.err, got, tt.want)
		}
		if tt.err == nil {
			continue
		}
		if got, _ := judge(hint(fmt.Errorf("task x: %w", tt.err), "try")); got != tt.want {
			t.Errorf("%v, wrapped: exit code %d, want %d", tt.err, got, tt.want)
		}
	}
}
