package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"mbox/agents"
	"mbox/audit"
	"mbox/cmd/mbox/check"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
)

// session is one run of mbox: its streams, the global flags, and what has been
// opened for it.
type session struct {
	printer
	in       *os.File
	err      io.Writer // stderr: everything but data
	tells    palette   // for stderr
	people   bool      // stderr is a terminal: somebody looks on
	meter    *meter
	home     string    // --home, as given
	level    choice    // --log-level
	json     bool      // --json: errors are JSON as well
	literal  bool      // the arguments stand behind --
	line     *line     // the command line
	proposes proposals // what it gives to type
	config   *config.File
	team     *agents.Team // of config
}

// printer prints data to stdout.
type printer struct {
	out      *bufio.Writer
	paint    palette
	wide     int    // columns of the terminal; 0 where it is none
	terminal bool   // it is one
	folder   string // the home, where paths are printed from it
}

func newSession() *session {
	s := &session{printer: printer{out: bufio.NewWriter(os.Stdout)}, in: os.Stdin, err: os.Stderr, meter: &meter{}, level: choice{among: levels, value: "info"}}
	if fd := int(os.Stdout.Fd()); term.IsTerminal(fd) {
		s.terminal = true
		s.wide, _, _ = term.GetSize(fd)
		s.paint = colours()
	}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		s.people = true
		s.tells = colours()
	}
	return s
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, argv []string) int {
	s := newSession()
	s.json = asksJSON(argv)
	err := enoughDescriptors()
	if err == nil {
		err = s.execute(ctx, argv)
	}
	if flushed := s.out.Flush(); err == nil && flushed != nil {
		err = fmt.Errorf("stdout: %w", flushed)
	}
	return s.report(err)
}

// enoughDescriptors refuses to begin without them: Go's runtime crashes if it
// cannot open its poller.
func enoughDescriptors() error {
	const least = 32
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	free, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
	if errors.Is(err, unix.EBADF) {
		return nil // no standard input: the first that is opened will be that
	}
	if err == nil {
		unix.Close(free)
	}
	if err != nil || uint64(free)+least > uint64(limit.Cur) {
		return hint(fmt.Errorf("too few file descriptors: %d are allowed: %w", limit.Cur, unix.EMFILE), "ulimit -n 1024")
	}
	return nil
}

func (s *session) execute(ctx context.Context, argv []string) error {
	root := tree()
	if completing(argv) {
		s.offer(root, argv[:len(argv)-1])
		return nil
	}
	line, err := arrange(root, s.globals(), argv)
	s.line, s.proposes = line, line.proposals()
	if err != nil {
		return err
	}
	s.literal = line.ended
	if line.help {
		s.printHelp(line.verb, line.path)
		return nil
	}
	return s.app(root).RunContext(ctx, line.arranged())
}

// homeDir is the mailbox's folder: --home, MBOX_HOME or ~/agents, or where a link in its
// place leads: below a home nothing is a link.
func (s *session) homeDir() (string, error) {
	dir, err := homeNamed(s.home)
	if err != nil {
		return dir, err
	}
	if info, err := os.Lstat(dir); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return dir, nil
	}
	to, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return dir, nil // who needs it says that there is none
	}
	return to, err
}

// homeNamed is the mailbox's folder as the command line or the environment names it.
func homeNamed(given string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	user, err := os.UserHomeDir()
	if err != nil {
		return "", usagef("mbox --home DIR …", "no home folder is known: %v", err)
	}
	return filepath.Join(user, "agents"), nil
}

// options reads the home's configuration and makes the mailbox's options of it.
func (s *session) options() (dir string, o mailbox.Options, err error) {
	if dir, err = s.homeDir(); err != nil {
		return dir, o, err
	}
	if err = home.CheckOwner(dir); err != nil {
		return dir, o, err
	}
	if s.config, err = config.Load(dir); err == nil {
		err = config.CheckBridges(s.config, chatKinds())
	}
	if err != nil {
		return dir, o, err
	}
	if s.team, err = assemble(s.config, dir); err != nil {
		return dir, o, err
	}
	o = s.config.Options()
	o.Review, o.Approval, o.Folders = s.team.Review, s.team.Approval, s.team.Folders
	c, team := s.config, s.team
	o.Unable = func(agent string) string { return cmp.Or(check.Unable(c, dir, agent), team.Unable(agent)) }
	o.Accept, o.Progress = s.team.Accept, s.progress
	return dir, o, nil
}

// open opens the mailbox. What a crash left is settled on the way.
func (s *session) open(ctx context.Context) (*mailbox.Box, error) {
	home, o, err := s.options()
	if err != nil {
		return nil, err
	}
	box, err := mailbox.Open(ctx, home, o)
	s.endProgress()
	tellUnsettled(s, box)
	return box, err
}

// tellUnsettled warns of what keeps verbs from some tasks, and only from those.
func tellUnsettled(s *session, box *mailbox.Box) {
	if box == nil {
		return
	}
	for _, err := range mailbox.Unsettled(box) {
		s.warnf("%s", clean(err.Error(), maxLine))
	}
}

// with opens the mailbox for one action and closes it behind it.
func (s *session) with(ctx context.Context, action func(*mailbox.Box) error) error {
	box, err := s.open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(action(box), box.Close())
}

// tidied is with for verbs that first do what a running router would have done:
// settle, take back, admit.
func (s *session) tidied(ctx context.Context, action func(*mailbox.Box) error) error {
	return s.with(ctx, func(box *mailbox.Box) error {
		err := box.Tidy(ctx)
		s.endProgress()
		if err != nil {
			return err
		}
		if gone := box.InPlace(); errors.Is(gone, mailbox.ErrGone) {
			s.warnf("%v", gone)
		}
		return action(box)
	})
}

// looking is tidied for verbs that only show. What there is can always be seen:
// a mailbox that cannot be opened is shown as it lies, and what is wrong with it
// is said beside that.
func (s *session) looking(ctx context.Context, action func(*mailbox.Box) error) error {
	return doubting(ctx, s, func(box *mailbox.Box, _ error) error { return action(box) })
}

// doubting is looking for a verb that tells by itself, too, why the tree is shown as it lies.
func doubting(ctx context.Context, s *session, action func(box *mailbox.Box, doubt error) error) error {
	box, doubt, err := s.look(ctx)
	if err != nil {
		return err
	}
	if doubt != nil {
		s.warnf("%s", clean(strings.ReplaceAll(doubt.Error(), "\n", "; "), maxLine))
		s.warnf("what follows is the tree as it lies; mbox help damage tells the way out")
	}
	return errors.Join(action(box, doubt), box.Close())
}

// look opens the mailbox for looking. doubt is why it is shown as it lies, where it is.
func (s *session) look(ctx context.Context) (box *mailbox.Box, doubt, err error) {
	home, o, err := s.options()
	if err != nil {
		return nil, nil, err
	}
	box, err = mailbox.Open(ctx, home, o)
	if err == nil {
		err = errors.Join(box.Tidy(ctx), audit.CheckWritable(home), box.InPlace())
	}
	s.endProgress()
	if err == nil {
		tellUnsettled(s, box)
		return box, nil, nil
	}
	if box != nil {
		box.Close()
	}
	for _, no := range []error{mailbox.ErrNoMailbox, mailbox.ErrFormat, mailbox.ErrFileSystem, mailbox.ErrBusy, context.Canceled} {
		if errors.Is(err, no) {
			return nil, nil, err
		}
	}
	if box, failed := mailbox.Look(home, o); failed == nil {
		return box, err, nil
	}
	return nil, nil, err
}

// warnUnsynced says once that nothing is flushed, where that is configured.
func (s *session) warnUnsynced(m durable.Mode) {
	if m == durable.None {
		s.warnf(`sync = "none": what is acknowledged can be lost in a power cut; this is for tmpfs and tests`)
	}
}
