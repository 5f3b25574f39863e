package agents

import (
	"cmp"
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
	unfit     error              // it was not begun, for it may do nothing now
	lapsed    string             // killed, or not begun, because somebody else had ended the claim: how; it goes first
	stopped   bool               // killed, or not begun, because the worker stops
	timedOut  time.Duration      // killed because it took so long
	silent    time.Duration      // killed because it wrote nothing for so long
	status    syscall.WaitStatus // how it ended
	exits     map[int]Meaning    // what its exit codes mean, beside 0 and 75
	delay     time.Duration      // what it asks for with exit code 75
	tail      string             // the end of its stderr
	fault     string             // why it failed, as its stdout tells in the format that it has
	quota     time.Duration      // for how long its account has nothing left
	account   string
}

// Meaning is what an exit code means for the task.
type Meaning string

// The meanings that an exit code can be given.
const (
	MeansRelease Meaning = "release" // give it back for later, without burning the attempt
	MeansFinal   Meaning = "final"   // it has failed for good
)

// Meanings are the names of all meanings.
func Meanings() []string { return []string{string(MeansRelease), string(MeansFinal)} }

// exitDefer is the exit code that gives the task back: EX_TEMPFAIL of sysexits.h.
const exitDefer = 75

// The exit codes of a shell that could not run a command: it is not executable or lacks
// its interpreter; it is not there.
const (
	exitNotRun   = 126
	exitNotFound = 127
)

// defaultDelay is how long a task waits that was given back without mbox:delay.
const defaultDelay = 5 * time.Second

// releaseDelay is how long one waits whose command has no exit code 75 and so
// cannot say: a turn limit, say, costs money each time it is reached.
const releaseDelay = time.Minute

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
	if e.unfit != nil {
		return verdict{release: "the command cannot run: " + e.unfit.Error(), delay: releaseDelay}
	}
	status := e.status
	switch {
	case e.quota > 0:
		return verdict{release: quotaWords(e.account, e.quota), delay: e.quota}
	case e.timedOut > 0:
		return failed("timeout", e.with(fmt.Sprintf("no end after %v", e.timedOut)))
	case e.silent > 0:
		return failed("silence", e.with(fmt.Sprintf("it wrote nothing for %v", e.silent)))
	case status.Signaled():
		return failed("signal", e.with("killed by signal: "+status.Signal().String()))
	case status.ExitStatus() == 0 && e.fault == "":
		return verdict{complete: true}
	case status.ExitStatus() == 0:
		return failed("agent", e.fault)
	case status.ExitStatus() == exitDefer:
		return verdict{release: "exit 75", delay: e.delay}
	}
	code := strconv.Itoa(status.ExitStatus())
	if e.setup() {
		return verdict{release: e.with("the command cannot run: exit status " + code), delay: releaseDelay}
	}
	switch v := failed("exit", e.with("exit status "+code)); e.exits[status.ExitStatus()] {
	case MeansRelease:
		return verdict{release: "exit " + code, delay: releaseDelay}
	case MeansFinal:
		v.failure.Final = true
		return v
	default:
		return v
	}
}

// setup tells whether the command could not be run at all, which is no task's fault. One
// that says itself what such a code means has run.
func (e ending) setup() bool {
	code := e.status.ExitStatus()
	_, own := e.exits[code]
	if e.unfit != nil {
		return true
	}
	return e.unstarted == nil && e.status.Exited() && (code == exitNotRun || code == exitNotFound) && !own && e.fault == ""
}

func (e ending) with(what string) string {
	if said := cmp.Or(e.fault, e.tail); said != "" {
		return what + ": " + said
	}
	return what
}
