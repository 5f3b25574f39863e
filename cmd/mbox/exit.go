package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"mbox/agents"
	"mbox/agents/chat"
	"mbox/agents/memory"
	"mbox/agents/memory/adapter"
	"mbox/agents/secret"
	"mbox/audit"
	"mbox/cmd/mbox/check"
	"mbox/cmd/mbox/config"
	"mbox/cmd/mbox/gateway/token"
	"mbox/cmd/mbox/top"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/lifecycle"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// The exit codes that scripts depend on.
const (
	exitOK        = 0
	exitError     = 1
	exitUsage     = 2
	exitNotFound  = 4
	exitConflict  = 5
	exitStale     = 6
	exitData      = 65
	exitPolicy    = 73
	exitIO        = 74
	exitBusy      = 75
	exitCommitted = 76
)

var exitMeaning = map[int]string{
	exitOK:        "ok",
	exitError:     "integrity or other error",
	exitUsage:     "usage",
	exitNotFound:  "not found",
	exitConflict:  "conflict, or nothing to claim",
	exitStale:     "stale token",
	exitData:      "bad data",
	exitPolicy:    "refused by policy",
	exitIO:        "I/O error, or read-only",
	exitBusy:      "busy",
	exitCommitted: "committed, not yet applied",
}

// exitMore is what else is to be known of some of them, or done.
func exitMore(code int) string {
	switch code {
	case exitUsage:
		return "nothing was touched, and the hint has the corrected line, or names the help"
	case exitStale:
		return "somebody else has the task, or it has ended"
	case exitPolicy:
		return "a role, a policy, a depth or a budget says no, or the mailbox is another user's (sudo mbox); nothing was done"
	case exitBusy:
		return "try again"
	case exitCommitted:
		return "it counts; the next command brings the files in line"
	}
	return ""
}

// exitTold is an exit code's meaning with that.
func exitTold(code int) string {
	if more := exitMore(code); more != "" {
		return exitMeaning[code] + ": " + more
	}
	return exitMeaning[code]
}

// usageError is a command line that mbox does not do. Nothing was touched.
type usageError struct{ problem, hint string }

func (e *usageError) Error() string { return e.problem }

// usagef makes a usageError. The hint is the line that would have been right.
func usagef(hint, format string, a ...any) error {
	return &usageError{fmt.Sprintf(format, a...), hint}
}

// hinted is an error with the command that helps.
type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return e.error }

func hint(err error, format string, a ...any) error {
	if err == nil {
		return nil
	}
	return &hinted{err, fmt.Sprintf(format, a...)}
}

// unwell ends a command that has printed what it found wrong.
type unwell struct{ summary string }

func (e *unwell) Error() string { return e.summary }

// wayOut is the hint of a damaged ledger, also for a home whose ledger and VERSION are of two mailboxes.
func (s *session) wayOut() string {
	home, err := s.homeDir()
	if err != nil {
		return check.WayOut
	}
	b, err := mailbox.Look(home, mailbox.Options{})
	if err != nil {
		return check.WayOut
	}
	defer b.Close()
	if _, err := audit.Identity(home, b.MailboxID()); !errors.Is(err, audit.ErrOther) {
		return check.WayOut
	}
	return "audit/ and .mbox are of two mailboxes; is it .mbox that is not this home's: move " +
		schemas.ShellWord(clean(filepath.Join(home, ".mbox", "VERSION"), maxLine)) + " out of the home, else bring audit/ back from a backup; then mbox recover --after-io-error; mbox help damage tells the rest"
}

// judge is the one place where an error becomes an exit code and a hint. The
// order matters: a committed operation counts whatever else went wrong, and a
// mailbox that is read-only says so before the error that made it so.
func judge(err error) (code int, hint string) {
	var usage *usageError
	var unread *config.Error
	var data *schemas.Error
	var unsound *unwell
	var denied *agents.RefusedError
	var refused *mailbox.Refusal
	var archive *badArchive
	var owner *mailbox.OwnerError
	var sealed *audit.SealedError
	var paused *mailbox.PausedError
	var ended *mailbox.EndedError
	var replaced *home.ReplacedError
	var blocked *mailbox.BlockedError
	var database *memory.Fault
	var held *durable.HeldError
	var stopped signalled
	switch {
	case err == nil:
		return exitOK, ""
	case errors.Is(err, mailbox.ErrCommitted):
		return exitCommitted, "it counts; mbox recover brings the files in line"
	case errors.As(err, &usage):
		return exitUsage, usage.hint
	case errors.As(err, &archive):
		return exitData, "the file is no whole backup, as mbox backup writes it; what can still be read of it: tar --zstd -xf FILE, then mbox doctor --fix and mbox recover"
	case errors.As(err, &owner):
		return exitPolicy, "sudo -u " + schemas.ShellWord(check.UserName(owner.Owner)) + " mbox …"
	case errors.As(err, &sealed):
		return exitIO, check.Unseal(sealed.Files) + ", then the same command again"
	case errors.As(err, &refused) && refused.Step == "cycle":
		return exitPolicy, "mbox why TASK tells what a task waits for; mbox edit TASK --not-after OTHER takes that away, and --to names another agent"
	case errors.As(err, &denied), errors.As(err, &refused):
		return exitPolicy, "mbox audit delegation shows the decision; mbox.toml says who may do what"
	case errors.Is(err, mailbox.ErrStale):
		return exitStale, "the task was given to somebody else or has ended, or it is another token than mbox claim printed; mbox why ID tells more"
	case errors.As(err, &replaced):
		return exitError, "start it again: it then reads what is here now"
	case errors.Is(err, mailbox.ErrGone):
		return exitIO, "put them back as they were, and it ends by itself; if they are to be deleted: mbox recover --adopt-deleted"
	case errors.Is(err, mailbox.ErrLost):
		return exitError, "mbox recover makes .mbox anew of the ledger and the tasks; mbox help damage tells what that costs"
	case errors.Is(err, home.ErrSalt):
		return exitError, "put .mbox/keys/salt back as it was, 0600 (mbox backup keeps it); if it is lost, mbox recover makes another, and mbox help damage tells what that costs"
	case errors.Is(err, mailbox.ErrReadOnly) && errors.Is(err, audit.ErrDamaged):
		return exitIO, check.WayOut
	case errors.Is(err, audit.ErrDamaged):
		return exitError, check.WayOut
	case errors.Is(err, mailbox.ErrReadOnly):
		return exitIO, "mbox doctor tells why; when the disk is well again: mbox recover --after-io-error"
	case errors.Is(err, mailbox.ErrByHand):
		return exitError, adoptIt
	case errors.Is(err, mailbox.ErrIntegrity):
		return exitError, "mbox recover brings the files in line; mbox verify names what is left"
	case errors.Is(err, mailbox.ErrOldFormat):
		return exitError, "mbox ls brings it to the format of this mbox, for good; mbox help damage tells what that changes"
	case errors.Is(err, mailbox.ErrFormat):
		return exitError, "a newer mbox has made it; mbox version tells what this one reads"
	case errors.Is(err, mailbox.ErrFileSystem):
		return exitError, "use a folder on a local disk, or allow_network_fs = true in mbox.toml at your own risk"
	case errors.Is(err, errTimeOver):
		return exitBusy, ""
	case errors.Is(err, mailbox.ErrUnsettled):
		return exitIO, "the file that is named is another user's, immutable or a mount point, and it goes on when it is not; all else goes on meanwhile"
	case errors.Is(err, mailbox.ErrOlderAtWork):
		return exitBusy, "stop it, or let it end its task, and say this again"
	case errors.As(err, &held) && held.Stopped:
		return exitBusy, fmt.Sprintf("kill -CONT %d has it go on; then say it again", held.PID)
	case errors.Is(err, mailbox.ErrBusy):
		return exitBusy, "try again in a moment"
	case errors.Is(err, syscall.EADDRINUSE):
		return exitBusy, "[serve] address in mbox.toml names another one; one door is enough"
	case errors.Is(err, mailbox.ErrNoMailbox):
		return exitNotFound, "mbox init makes one; --home or MBOX_HOME names another folder"
	case errors.Is(err, mailbox.ErrNotFound):
		return exitNotFound, tasksThere
	case errors.As(err, &paused):
		return exitConflict, resumeHint(paused)
	case errors.As(err, &ended):
		return exitConflict, "mbox agent restore " + schemas.ShellWord(ended.Name) + " brings one back that is dead; mbox agent list shows the others"
	case errors.Is(err, mailbox.ErrEmpty):
		return exitConflict, "mbox claim --wait 10m waits for a task; mbox ls --state pending shows who they are for"
	case errors.Is(err, mailbox.ErrExists):
		return exitConflict, "mbox doctor looks at the one that is here"
	case errors.Is(err, token.ErrExists):
		return exitConflict, "mbox token list shows those there are; mbox token revoke NAME ends one, or one that is damaged"
	case errors.Is(err, token.ErrUnknown):
		return exitNotFound, "mbox token list shows those there are"
	case errors.Is(err, token.ErrDamaged):
		return exitData, "mbox token revoke NAME removes NAME.json; move what has no token's name out of the home"
	case errors.Is(err, secret.ErrUnknown):
		return exitNotFound, "mbox secret list shows those there are"
	case errors.Is(err, secret.ErrFull):
		return exitConflict, "mbox secret rm makes room"
	case errors.Is(err, secret.ErrKeyring):
		return exitIO, "unlock it, where you are logged in to a desktop; mbox help secrets tells what a service needs. An identity that is kept elsewhere, put into .mbox/keys/identity (0600), goes without a keyring"
	case errors.Is(err, secret.ErrIdentity):
		return exitData, "put .mbox/keys/identity back as it was, 0600 (mbox backup --with-keys keeps it); if it is lost, mbox secret rm each secret and set it again"
	case errors.Is(err, secret.ErrDamaged):
		return exitData, "mbox secret set --agent AGENT NAME sets it again, mbox secret rm removes it; or put back the identity for which it was encrypted"
	case errors.Is(err, memory.ErrUnknown):
		return exitNotFound, "mbox memory list --agent NAME shows the entries and their ids"
	case errors.Is(err, memory.ErrNone):
		return exitConflict, `memory.backend = "markdown" in the agent's table of mbox.toml gives it one`
	case errors.Is(err, memory.ErrModel):
		return exitConflict, "mbox memory embed --agent NAME --again makes them anew"
	case errors.Is(err, memory.ErrNoModel):
		return exitConflict, `memory.backend = "sqlite" and memory.embed_model = "nomic-embed-text" in the agent's table of mbox.toml let it find by meaning`
	case errors.Is(err, adapter.ErrAdapter):
		return exitIO, "its table in mbox.toml says which program it is; mbox help memory tells what it has to answer"
	case errors.As(err, &database):
		return exitIO, database.Fix
	case errors.Is(err, memory.ErrFull):
		return exitConflict, "mbox memory export keeps what is there, mbox memory forget makes room"
	case errors.As(err, &blocked):
		return exitConflict, top.RetryAll(append(blocked.Failed, blocked.ID))
	case errors.Is(err, mailbox.ErrConflict):
		return exitConflict, "mbox show ID tells the state that it is in"
	case errors.Is(err, chat.ErrSetup):
		return exitData, "mbox help bridges tells what a bridge needs; mbox bridge NAME --check when it is mended"
	case errors.As(err, &unread):
		return exitData, unread.Hint
	case errors.As(err, &data):
		return exitData, ""
	case errors.Is(err, syscall.EROFS):
		return exitIO, "the disk is mounted read-only, and dmesg tells why; when it is well: sudo mount -o remount,rw its mount point (df tells it); mbox ls, show and verify work meanwhile"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return exitIO, "make room on the disk (df tells which is full) and say it again; nothing that was acknowledged is lost"
	case refusedBySystem(err):
		return exitIO, ""
	case errors.As(err, &stopped):
		return exitBySignal + int(stopped.Signal), ""
	case errors.As(err, &unsound), errors.Is(err, context.Canceled):
		return exitError, ""
	}
	return exitError, ""
}

// resumeHint is what lets an agent claim again, where that can be had.
func resumeHint(e *mailbox.PausedError) string {
	if e.State == lifecycle.Paused {
		return "a person ends the pause: mbox agent resume " + schemas.ShellWord(e.Name) + "; mbox claim --wait 10m waits for its end"
	}
	if e.State == lifecycle.Renamed {
		return "claim as " + schemas.ShellWord(e.Agent.Name)
	}
	if e.State == lifecycle.Provisioning {
		return "mbox up, or mbox worker --agent " + schemas.ShellWord(e.Name) + ", has it begin"
	}
	return "mbox agent list shows the agents that may claim"
}

// wayFree is the hint of an error that comes of what lies in the home and not of
// the disk: something in the place of a file or folder, or one that is closed.
func wayFree(s *session, err error) string {
	home, failed := s.homeDir()
	path, ok := durable.Obstacle(err)
	switch {
	case failed != nil || path != home && !strings.HasPrefix(path, home+"/"):
		return ""
	case ok:
		return check.MoveOut(path)
	case errors.Is(err, syscall.EACCES): // EPERM is no matter of modes
		return check.OpenUp(home)
	}
	return ""
}

// refusedBySystem tells whether the disk or the system said no, as opposed to a
// name that is not there.
func refusedBySystem(err error) bool {
	if errors.Is(err, io.ErrShortWrite) {
		return true // a full disk takes what still fits, and says no more
	}
	var number syscall.Errno
	if !errors.As(err, &number) {
		return false
	}
	switch number {
	case syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.EFBIG,
		syscall.EACCES, syscall.EPERM, syscall.EPIPE, syscall.EINTR:
		return true
	}
	return false
}

// judged is judge with what is known of this home and this command.
func (s *session) judged(err error) (code int, hint string) {
	code, hint = judge(err)
	var own *hinted
	if errors.As(err, &own) {
		hint = own.hint
	} else if way := wayFree(s, err); way != "" && code != exitCommitted {
		hint = way
	}
	switch hint {
	case check.WayOut:
		hint = s.wayOut()
	case tasksThere:
		hint = cmp.Or(hintOf(s, err, keptUnder), hint)
	case adoptIt:
		hint = cmp.Or(hintOf(s, err, mendFile), hint)
	}
	if err != nil {
		hint = aboutIt(err, hint)
	}
	return code, s.proposes.named(hint)
}

// tasksThere is the hint of a task that is not there.
const tasksThere = "mbox ls shows the tasks there are"

// keptUnder is the hint of what lies in quarantine under this name, or was put there from
// it; "" where nothing does.
func keptUnder(in string, name mailbox.ID) string {
	kept, _ := home.Kept(in) // what cannot be read, verify and doctor tell of
	for _, k := range kept {
		switch string(name) {
		case k.Entry:
			return "that lies in quarantine: mbox why " + schemas.ShellWord(k.Entry)
		case k.Name, strings.TrimSuffix(k.Name, ".json"):
			return "a file of that name lies in quarantine: mbox why " + schemas.ShellWord(k.Name)
		}
	}
	return ""
}

// adoptIt is the hint of a task that was changed by hand.
const adoptIt = "mbox why ID tells more; mbox recover --adopt ID takes over what was done by hand"

// mendFile is the hint of a task whose file cannot be adopted as it lies; "" of any other.
func mendFile(in string, id mailbox.ID) string {
	path, err := mailbox.Unfit(in, id)
	if path == "" {
		return ""
	}
	file, name := schemas.ShellWord(path), schemas.ShellWord(string(id))
	if errors.Is(err, durable.ErrNotRegular) {
		return fmt.Sprintf("move %s out of the home and put the task's file there, from a backup; then mbox recover --adopt %s takes it, and without the file gives the task up", file, name)
	}
	return fmt.Sprintf("mend %s where it lies, then mbox recover --adopt %s takes it; mbox recover alone would put it into tasks/quarantine", file, name)
}

// hintOf is the hint of the task that an error is about; "" where it is about none.
func hintOf(s *session, err error, way func(in string, id mailbox.ID) string) string {
	id, ok := taskOf(err)
	in, failed := s.homeDir()
	if !ok || failed != nil {
		return ""
	}
	return way(in, mailbox.ID(id))
}

// taskOf is the id of the task that an error is about.
func taskOf(err error) (id string, ok bool) {
	rest, ok := strings.CutPrefix(err.Error(), "task ")
	id, _, found := strings.Cut(rest, ": ")
	return id, ok && found && task.CheckID(mailbox.ID(id)) == nil
}

// aboutIt is a hint with the id of the task that the error is about in the place of ID.
func aboutIt(err error, hint string) string {
	id, ok := taskOf(err)
	if !ok {
		return hint
	}
	return strings.ReplaceAll(hint, " ID ", " "+id+" ")
}

// report tells a person what went wrong and what helps, and returns the code.
func (s *session) report(err error) int {
	s.endProgress()
	var command exited
	if errors.As(err, &command) {
		return int(command)
	}
	code, hint := s.judged(err)
	if err == nil {
		return code
	}
	var excerpt *config.Error
	text := strings.ReplaceAll(err.Error(), "\n", "; ") // of errors that are joined
	if (code == exitError || code > exitBySignal) && errors.Is(err, context.Canceled) {
		text = "interrupted"
	}
	if s.json {
		return reportJSON(s, err, text, hint, code)
	}
	fmt.Fprintln(s.err, s.tells.red("mbox: ")+clean(schemas.LocalTimes(text), maxLine))
	if errors.As(err, &excerpt) && excerpt.Excerpt != "" {
		fmt.Fprintln(s.err, cleanLines(excerpt.Excerpt))
	}
	if hint != "" {
		fmt.Fprintln(s.err, s.tells.dim("hint: ")+clean(hint, maxLine))
	}
	return code
}

// failure is an error as a program reads it.
type failure struct {
	Error   string `json:"error"`
	Exit    int    `json:"exit"`
	Meaning string `json:"meaning"`       // of the exit code
	File    string `json:"file,omitzero"` // in which something is wrong
	Path    string `json:"path,omitzero"` // JSON path of the field at fault
	Hint    string `json:"hint,omitzero"` // a line that helps
}

// reportJSON is report for a line with --json: one object on stderr.
func reportJSON(s *session, err error, text, hint string, code int) int {
	f := failure{Error: strings.ToValidUTF8(text, "\uFFFD"), Exit: code, Meaning: cmp.Or(exitMeaning[code], "ended by a signal"), Hint: strings.ToValidUTF8(hint, "\uFFFD")}
	var data *schemas.Error
	var unread *config.Error
	switch {
	case errors.As(err, &unread):
		f.File = strings.ToValidUTF8(unread.File, "\uFFFD")
	case errors.As(err, &data):
		f.File, f.Path = strings.ToValidUTF8(data.File, "\uFFFD"), data.Path
	}
	line, err := jsonLine(f)
	if err == nil {
		_, err = s.err.Write(line)
	}
	if err != nil {
		fmt.Fprintln(s.err, "mbox: "+clean(text, maxLine))
	}
	return code
}

// asksJSON tells whether a line wants JSON, also one that mbox does not understand.
func asksJSON(argv []string) bool {
	if end := slices.Index(argv, "--"); end >= 0 {
		argv = argv[:end]
	}
	return slices.Contains(argv, "--json")
}
