package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"mbox/agents/policy"
	"mbox/agents/secret"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// Worker claims an agent's tasks and does them: by a command, or as a member of
// a team by actions. The package comment tells what either gets and gives. Of its
// fields Box, Agent, and one of Exec and Team are needed.
type Worker struct {
	Box   *mailbox.Box // the mailbox, open
	Agent string       // who claims
	Exec  string       // the command, for /bin/sh -c; goes before Team
	Team  *Team        // whose member the agent is
	// Runtime, if not nil, does its tasks, in the place of Exec. Of a command's
	// fields below those that a program of its needs count for it, too.
	Runtime Runtime
	// Confine, if not nil, puts each command into a sandbox before it is started;
	// an error keeps it from being started.
	Confine func(*exec.Cmd) error
	// Fit, if not nil, tells why the agent's program may do no task now, such as that it
	// is not the version that it has to be: the task is given back then, and no attempt
	// is burnt.
	Fit func(context.Context) error
	// Lacks, if not nil, tells why the command cannot run at all; "" if it can. Nothing is
	// claimed meanwhile.
	Lacks       func() string
	Env         []string      // of commands, besides the variables of their task; nil: the worker's own
	Concurrency int           // tasks at once; 1
	Timeout     time.Duration // the longest an attempt may take; 0 is for ever
	Silence     time.Duration // the longest a command may write nothing; 0 is for ever
	// Format is how the command writes on stdout; "" is FormatJSON. Exit is what its
	// exit codes mean, beside 0 and 75.
	Format Format
	Exit   map[int]Meaning
	// Quota are the words by which a failure says that its account has nothing left;
	// the group "reset", else the first, is when that ends. Then the task is given back
	// until then, and the agents of the account are paused until then: this one, and its
	// Fellows.
	Quota   []*regexp.Regexp
	Account string   // "" is the agent's own
	Fellows []string // the other agents that work on it
	Logs    Logs     // what is kept of what is said
	Measure bool     // and of how long models and actions took, for Measures
	Secrets []string // of commands: they are taken out of what is kept of their words
	// Unlock, if not nil, opens the secrets of the agent at the beginning of each attempt.
	// They are variables of its commands, go before those of Env, and are taken out of its
	// results, too. An error gives the task back without burning the attempt.
	Unlock func(ctx context.Context) (secret.Values, error)
	Type   string // only tasks of this type; "" is all
	Named  bool   // only tasks that name the agent
	Once   bool   // end when there is nothing to claim and nothing runs
	// Retired, if not nil, is closed when another worker takes the agent over: this
	// one claims no more, finishes what it has without a limit, and ends.
	Retired <-chan struct{}
	// Alive, if not nil, is called each time that the claiming loop comes around, at least
	// once in each scan interval, also while tasks are worked at.
	Alive func()
	Home  Home           // of an agent that was born; nil for one without
	Idle  time.Duration  // how often the worker of a home says that it is there; 30 s
	Cycle int            // tasks that the worker of a home claims from one such tick to the next; 0: any number
	Grace time.Duration  // from SIGTERM to SIGKILL, and from a stop to giving back; 10 s
	Log   zerolog.Logger // what the worker does; ids and names, no text of tasks
}

// Run works until the context ends, or with Once until there is nothing to
// claim. When the context ends it claims no more; what runs gets up to Grace to
// finish, then it is killed and its task given back without burning the attempt.
// nil is returned then.
//
// A mailbox that is busy, read-only or out of space is waited out (with Once
// only one that is busy). Any other error that keeps it from claiming ends Run,
// after the same Grace. An agent that is put away with its home has nothing to do.
func (w *Worker) Run(ctx context.Context) error {
	s, err := w.begin(ctx)
	if w.Home != nil && errors.Is(err, fs.ErrNotExist) {
		if _, at := os.Lstat(w.Box.AgentDir(w.Agent)); errors.Is(at, fs.ErrNotExist) {
			w.Log.Warn().Err(err).Msg("its home is put away")
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("worker %s: %w", w.Agent, err)
	}
	defer s.journal.close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	hard, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	context.AfterFunc(ctx, func() { s.grant(hard, kill) })
	s.live(ctx)
	if err = s.work(s.claiming(ctx), hard); err != nil {
		stop()
	}
	s.attempts.Wait()
	stop()
	kill()
	s.watching.Wait()
	return err
}

// claiming ends with ctx, or when the worker is retired.
func (s *shift) claiming(ctx context.Context) context.Context {
	if s.Retired == nil {
		return ctx
	}
	claiming, end := context.WithCancel(ctx)
	s.watching.Go(func() {
		defer end()
		select {
		case <-s.Retired:
		case <-ctx.Done():
		}
	})
	return claiming
}

// begin checks the options and prepares the agent's folders.
func (w *Worker) begin(ctx context.Context) (*shift, error) {
	s := &shift{Worker: *w, running: map[*attempt]bool{}, ended: make(chan struct{}, 1), ticks: make(chan struct{}, 1)}
	if s.Concurrency == 0 {
		s.Concurrency = 1
	}
	s.Grace, s.Idle = cmp.Or(s.Grace, 10*time.Second), cmp.Or(s.Idle, DefaultIdle)
	s.Account = cmp.Or(s.Account, s.Agent)
	s.Logs.File = cmp.Or(s.Logs.File, DefaultLogs.File)
	s.Logs.Total = cmp.Or(s.Logs.Total, DefaultLogs.Total)
	s.Logs.Age = cmp.Or(s.Logs.Age, DefaultLogs.Age)
	switch {
	case s.Box == nil:
		return nil, errors.New("it has no mailbox")
	case s.Runtime != nil && (s.Exec != "" || s.Team == nil):
		return nil, errors.New("what has a runtime has no command, and a team")
	case s.Runtime == nil && s.Exec == "" && (s.Team == nil || s.Team.Members[s.Agent].Role == ""):
		return nil, errors.New("it has neither a command nor a role")
	case strings.ContainsRune(s.Exec, 0):
		return nil, errors.New("its command has a NUL")
	case s.Home != nil && s.Concurrency > 1:
		return nil, errors.New("an agent that was born has one home, and does one task at a time")
	case s.Cycle < 0:
		return nil, errors.New("the tasks of a cycle cannot be fewer than none")
	case s.Concurrency < 0 || s.Idle < 0 || s.Grace < 0 || s.Timeout < 0 || s.Silence < 0:
		return nil, errors.New("concurrency, idle, grace, timeout and silence cannot be negative")
	}
	if err := task.CheckAgent(s.Agent); err != nil {
		return nil, err
	}
	return s, s.prepare(ctx)
}

func (s *shift) prepare(ctx context.Context) (err error) {
	home := s.Box.AgentDir(s.Agent)
	s.workspace = filepath.Join(home, "workspace")
	if s.byActions() || s.Runtime != nil {
		if s.policy, err = policy.ForAgent(s.Team.Policies, s.Agent); err != nil {
			return err
		}
		s.workspace = s.policy.Workspace
	}
	mode := s.Box.Options().Sync
	for _, dir := range []string{s.workspace, filepath.Join(home, "logs")} {
		if err := s.furnish(home, dir); err != nil {
			return err
		}
	}
	for _, dir := range s.siblings() {
		if err := durable.MkdirAll(dir, mode); err != nil {
			s.Log.Warn().Err(err).Msg("the workspace of another agent is not there")
		}
	}
	if s.policy != nil {
		if err := s.recount(ctx); err != nil {
			return err
		}
	}
	s.sweep(ctx)
	s.sweepLogs(ctx)
	s.swept = time.Now()
	s.journal, err = openJournal(filepath.Join(home, "logs"), s.Agent)
	return err
}

// furnish makes a folder of the agent. It makes no home of one that was born: that is put
// away, or on its way back.
func (s *shift) furnish(home, dir string) error {
	mode := s.Box.Options().Sync
	if s.Home == nil || filepath.Dir(dir) != home {
		return durable.MkdirAll(dir, mode)
	}
	root, err := os.OpenRoot(home)
	if err != nil {
		return err
	}
	return errors.Join(durable.MkdirIn(root, filepath.Base(dir), mode), root.Close())
}

// siblings are the workspaces of other agents that this one may use: they may not
// have begun to work yet.
func (s *shift) siblings() (dirs []string) {
	if s.Team == nil {
		return nil
	}
	p, err := policy.ForAgent(s.Team.Policies, s.Agent)
	if err != nil {
		return nil // an agent of no table, which has none
	}
	for _, dir := range p.Siblings {
		if dir != "" {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// byActions tells whether the agent works by actions, not by a command.
func (w *Worker) byActions() bool { return w.Exec == "" && w.Runtime == nil && w.Team != nil }

// thinks tells whether the agent's brain would take a thought now.
func (s *shift) thinks(ctx context.Context) func() bool {
	if !s.byActions() {
		return nil
	}
	return func() bool { return s.Team.Ready(ctx, s.Agent) == nil }
}

// shift is one Run of a worker.
type shift struct {
	Worker
	workspace string
	policy    *policy.Policy // of an agent that works by actions
	journal   *journal
	attempts  sync.WaitGroup
	watching  sync.WaitGroup

	mu      sync.Mutex
	running map[*attempt]bool // guarded by mu
	ended   chan struct{}     // has one element when an attempt has ended
	swept   time.Time         // when old logs were removed; guarded by mu
	broken  time.Time         // until then nothing is claimed, for the command cannot run; guarded by mu
	lacks   string            // why; guarded by mu
	watched bool              // the ledger is being followed; the claiming goroutine's
	gauge   gauge             // of its brain's tokens
	ticks   chan struct{}     // has one element when a cycle of the home is over
	cycle   int               // tasks that were claimed in this one; the claiming goroutine's
	leave   func()            // of the home that was entered for the last claim; the claiming goroutine's
}

// grant waits for the grace that a stop gives.
func (s *shift) grant(hard context.Context, kill func()) {
	if n := s.busy(); n > 0 {
		s.Log.Info().Int("running", n).Dur("grace", s.Grace).Msg("stopping")
	}
	grace := time.NewTimer(s.Grace)
	defer grace.Stop()
	select {
	case <-grace.C:
		kill()
	case <-hard.Done():
	}
}

// work is the claiming loop. It alone claims.
func (s *shift) work(ctx, hard context.Context) error {
	pause := patience{}
	for ctx.Err() == nil {
		if s.Alive != nil {
			s.Alive()
		}
		if s.busy() >= s.Concurrency {
			s.rest(ctx)
			continue
		}
		if why := s.unable(); why != "" {
			if s.Once && s.busy() == 0 {
				return fmt.Errorf("%s cannot work: %s", s.Agent, why)
			}
			s.rest(ctx)
			continue
		}
		if s.rounded(ctx) {
			continue
		}
		busy := s.busy() // before: who ends during the claim may have made a task ready
		claim, err := s.claim(ctx)
		switch {
		case err == nil:
			pause = patience{}
			s.cycle++
			s.start(ctx, hard, claim)
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, mailbox.ErrEmpty):
			if busy == 0 {
				return nil
			}
			s.rest(ctx)
		case s.passes(err):
			s.Log.Warn().Err(err).Msg("cannot claim; will try again")
			s.sweepIfDue(ctx)
			pause.wait(ctx)
		default:
			return fmt.Errorf("worker %s: %w", s.Agent, err)
		}
	}
	return nil
}

func (s *shift) claim(ctx context.Context) (*mailbox.Claim, error) {
	search, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r := mailbox.ClaimRequest{Agent: s.Agent, Type: s.Type, OnlyNamed: s.Named, Process: true, Thinks: s.thinks(ctx), Enter: s.enter(ctx, stop), Looked: s.Alive}
	if !s.Once {
		c, err := s.Box.Wait(search, r)
		if err != nil && search.Err() != nil {
			err = context.Cause(search)
		}
		return c, err
	}
	if err := s.Box.Tidy(ctx); err != nil {
		return nil, err
	}
	if r.Enter == nil {
		return s.Box.Claim(ctx, r)
	}
	leave, err := s.Home.Enter(ctx, enterWait) // it is waited for: there is no next time
	if err != nil {
		return nil, err
	}
	s.leave, r.Enter = s.leaving(leave), nil
	c, err := s.Box.Claim(ctx, r)
	if err != nil {
		s.leave()
	}
	return c, err
}

// passes tells whether an error of a claim is worth waiting: what an operator
// or time puts right. A worker that is to end by itself waits for no operator.
func (s *shift) passes(err error) bool {
	if errors.Is(err, mailbox.ErrBusy) || errors.Is(err, mailbox.ErrCommitted) {
		return true
	}
	var home *shut
	return !s.Once && (errors.Is(err, mailbox.ErrReadOnly) || fromSystem(err) || errors.As(err, &home))
}

func fromSystem(err error) bool {
	var number syscall.Errno
	if !errors.As(err, &number) {
		return false
	}
	switch number {
	case syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM:
		return true
	}
	return false
}

func (s *shift) busy() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running)
}

// disable lets the worker claim nothing for a while, since its command cannot run.
func (s *shift) disable(why string) {
	s.mu.Lock()
	s.broken, s.lacks = time.Now().Add(releaseDelay), why
	s.mu.Unlock()
	s.Log.Error().Str("agent_alias", s.Agent).Msg(schemas.Sentence(why, maxTail) + "; nothing is claimed for " + releaseDelay.String())
}

// unable tells why nothing is to be claimed now; "" if something may be.
func (s *shift) unable() string {
	if why := s.stillUnable(); why != "" || s.Lacks == nil {
		return why
	}
	why := s.Lacks()
	if why != "" {
		s.disable("the command cannot run: " + why)
	}
	return why
}

func (s *shift) stillUnable() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken.After(time.Now()) {
		return s.lacks
	}
	return ""
}

// rest waits until an attempt ends, a cycle of its home, or a scan is due. Because this worker does not
// look for tasks meanwhile, it sees to it that lost ones are taken back, its own
// included.
func (s *shift) rest(ctx context.Context) {
	scan := time.NewTimer(s.Box.Options().ScanInterval)
	defer scan.Stop()
	select {
	case <-s.ended:
	case <-s.ticks:
		s.cycle = 0
	case <-ctx.Done():
	case <-scan.C:
		if err := s.Box.Tidy(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn().Err(err).Msg("cannot look after the mailbox")
		}
		s.sweepIfDue(ctx)
	}
}

// sweepEvery is how often old logs are looked for at most.
const sweepEvery = time.Minute

// sweepIfDue looks for old logs. A worker that can do nothing does so, too: it tells that
// again and again.
func (s *shift) sweepIfDue(ctx context.Context) {
	s.mu.Lock()
	due := time.Since(s.swept) > sweepEvery
	if due {
		s.swept = time.Now()
	}
	s.mu.Unlock()
	if due {
		s.sweepLogs(ctx)
	}
}

// start begins an attempt. From the moment in which the attempt is registered,
// each line that ends its claim reaches it; one that came before is found by
// Valid.
func (s *shift) start(ctx, hard context.Context, claim *mailbox.Claim) {
	a := newAttempt(hard, s, claim)
	leave := s.leave
	s.mu.Lock()
	s.running[a] = true
	s.mu.Unlock()
	if !s.watched {
		s.watched = true
		from := s.Box.Ledger().End() // behind the claim's line, which this process wrote
		s.watching.Go(func() { s.watch(hard, from) })
	}
	s.attempts.Go(func() {
		a.run(ctx, hard)
		s.settled(context.WithoutCancel(hard), a, leave)
		s.mu.Lock()
		delete(s.running, a)
		s.mu.Unlock()
		s.sweepIfDue(hard)
		select {
		case s.ended <- struct{}{}:
		default:
		}
	})
}

// patience is a pause that grows from 100 ms to 30 s.
type patience struct{ next time.Duration }

// wait returns false when the context ended first.
func (p *patience) wait(ctx context.Context) bool {
	p.next = min(max(2*p.next, 100*time.Millisecond), 30*time.Second)
	timer := time.NewTimer(p.next)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
