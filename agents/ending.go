package agents

import (
	"fmt"
	"strconv"
	"syscall"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox"
)

// ending is how a command ended.
type ending struct {
	unstarted error              // it never began
	lapsed    string             // killed, or not begun, because somebody else had ended the claim: how; it goes first
	stopped   bool               // killed, or not begun, because the worker stops
	timedOut  time.Duration      // killed because it took so long
	silent    time.Duration      // killed because it wrote nothing for so long
	status    syscall.WaitStatus // how it ended
	delay     time.Duration      // what it asks for with exit code 75
	tail      string             // the end of its stderr
}

// exitDefer is the exit code that gives the task back: EX_TEMPFAIL of sysexits.h.
const exitDefer = 75

// defaultDelay is how long a task waits that was given back without mbox:delay.
const defaultDelay = 5 * time.Second

// verdict is what an ending means for the task.
type verdict struct {
	complete bool
	output   jsontext.Value // with complete, of work by actions
	release  string         // the reason
	delay    time.Duration
	failure  *mailbox.Failure
	said     bool // nothing is left to do
}

func failed(code, message string) verdict {
	return verdict{failure: &mailbox.Failure{TaskError: mailbox.TaskError{Code: code, Message: message}}}
}

func (e ending) verdict() verdict {
	if e.unstarted != nil {
		return failed("start", e.unstarted.Error())
	}
	if e.stopped {
		return verdict{release: "worker stopping"}
	}
	status := e.status
	switch {
	case e.timedOut > 0:
		return failed("timeout", e.with(fmt.Sprintf("no end after %v", e.timedOut)))
	case e.silent > 0:
		return failed("silence", e.with(fmt.Sprintf("it wrote nothing for %v", e.silent)))
	case status.Signaled():
		return failed("signal", e.with("killed by signal: "+status.Signal().String()))
	case status.ExitStatus() == 0:
		return verdict{complete: true}
	case status.ExitStatus() == exitDefer:
		return verdict{release: "exit 75", delay: e.delay}
	}
	return failed("exit", e.with("exit status "+strconv.Itoa(status.ExitStatus())))
}

func (e ending) with(what string) string {
	if e.tail == "" {
		return what
	}
	return what + ": " + e.tail
}
