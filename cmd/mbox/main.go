// Command mbox is the post office for AI agents on one machine: it makes
// mailboxes, puts tasks in, hands them out, and proves what happened.
//
// One file is one verb; it holds the verb's flags, help text and action, and
// nothing that the packages below do. What all verbs share:
//
//   - args.go puts flags in front of arguments and refuses what nobody meant,
//     before anything is touched;
//   - team.go makes the agents of what package config read;
//   - exit.go is the one place where an error becomes an exit code and a hint;
//   - print.go is the one way from a task's text to a terminal.
//
// Data goes to stdout, everything else to stderr.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"mbox/agents/sandbox"
)

// One-shot commands do their file work on one thread, so that a tracer can
// count and break their system calls in order.
func init() { runtime.LockOSThread() }

// gcPercent lets the heap grow to five times what is in use before the collector
// runs: a command holds little and lives briefly, and following the ledger leaves
// much behind. GOGC in the environment goes before it.
const gcPercent = 400

func main() {
	sandbox.Main() // this binary is also what confines commands
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	os.Exit(run(untilSignal(), os.Args))
}

// signalled is the cause of a context that a signal has ended.
type signalled struct{ syscall.Signal }

func (s signalled) Error() string { return "interrupted: " + s.String() }

// Is makes it a cancellation like any other.
func (signalled) Is(target error) bool { return target == context.Canceled }

// untilSignal ends with the first signal, which asks for a graceful end. The second one
// kills.
func untilSignal() context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		got := <-signals
		signal.Stop(signals)
		end(signalled{got.(syscall.Signal)})
	}()
	return ctx
}
