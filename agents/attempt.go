package agents

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"mbox/agents/secret"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

// attempt is one claim and the command that works on it. Its goroutine owns the
// command; the watch, the reporter and the readers of its pipes only tell it
// things.
type attempt struct {
	*shift
	claim  *mailbox.Claim
	number int64 // of the attempt
	log    zerolog.Logger
	own    zerolog.Logger // the agent's log file
	stdout *output
	done   *Done    // of a runtime
	recite *recital // reads stdout in a format of lines; nil for none
	stderr *remarks
	said   *said // its words, for who asks
	report *reporter
	laid   laid // what its command got

	secrets secret.Values // of the agent; nil before unlock
	hidden  []string      // what is taken out of its words, the longest first

	live context.Context // ends when the command has to be killed at once; its cause tells why
	cut  context.CancelCauseFunc
}

// lapse is the cause that ends an attempt whose claim somebody else has ended.
type lapse string

func (l lapse) Error() string { return string(l) }

// newAttempt makes an attempt that lives no longer than hard, which ends when
// the worker has to stop.
func newAttempt(hard context.Context, s *shift, claim *mailbox.Claim) *attempt {
	a := &attempt{shift: s, claim: claim, number: claim.Task.Mbox.Attempt}
	a.live, a.cut = context.WithCancelCause(hard)
	a.log, a.own = s.logOf(s.Log, claim), s.logOf(s.journal.log(), claim)
	a.report = newReporter(a)
	a.stdout = &output{dir: s.workspace, heard: a.report.heard, hide: a.without}
	if s.Format != "" && s.Format != FormatJSON {
		a.stdout.text = s.Format == FormatLines
		a.recite = &recital{format: s.Format, prose: a.stdout, hide: a.without, progress: a.report.progress}
	}
	a.said = &said{
		home: s.Box.AgentDir(s.Agent), name: filepath.Join("logs", attemptName(claim.Task)+".log"), most: s.Logs.File,
		warn: func(err error) { a.log.Warn().Err(err).Msg("what it says is not kept") },
	}
	a.hidden = a.known()
	a.stderr = &remarks{log: func(line string) { a.said.say(SaidStderr, line) }, hide: func(line string) string { return hide(a.hidden, line) }, heard: a.report.heard, progress: a.report.progress, delay: defaultDelay}
	return a
}

// logOf is a log with who works on what: these fields come from here and from no
// other place.
func (s *shift) logOf(log zerolog.Logger, c *mailbox.Claim) zerolog.Logger {
	with := log.With().Str("agent_alias", s.Agent).Str("task_id", string(c.ID())).Int64("attempt", c.Task.Mbox.Attempt)
	if session := s.Box.Session(c.Task); session != nil {
		with = with.Str("session_key", schemas.Sentence(*session, 200))
	}
	if s.policy != nil {
		with = with.Str("risk_profile", s.policy.RiskProfileName)
	}
	return with.Logger()
}

// tell writes into the worker's log, and into the agent's.
func (a *attempt) tell(level zerolog.Level, err error, what string) {
	a.log.WithLevel(level).Err(err).Msg(what)
	a.own.WithLevel(level).Err(err).Msg(what)
}

// lapsed tells how somebody else ended the claim; "" if nobody did, or if the
// worker had to stop before.
func (a *attempt) lapsed() string {
	var l lapse
	errors.As(context.Cause(a.live), &l)
	return string(l)
}

// run works on the task until its claim has ended.
func (a *attempt) run(ctx, hard context.Context) {
	defer a.claim.Close()
	defer a.stdout.close()
	defer a.said.close()
	defer a.cut(nil)
	defer a.survive(hard)
	a.tell(zerolog.InfoLevel, nil, "claimed")
	if errors.Is(a.claim.Valid(context.WithoutCancel(hard)), mailbox.ErrStale) {
		a.cut(lapse("over before it began"))
	}
	e := ending{stopped: ctx.Err() != nil, lapsed: a.lapsed()}
	if !e.stopped && e.lapsed == "" && !a.unlock(hard) {
		return
	}
	if a.byActions() && !e.stopped && e.lapsed == "" {
		a.act(hard)
		return
	}
	if !e.stopped && e.lapsed == "" {
		p := &performance{attempt: a, hard: hard, task: a.claim.Task}
		if v, refused := p.entitled(); refused {
			a.end(hard, v)
			return
		}
		if err := a.fit(); err != nil {
			a.conclude(hard, ending{unfit: err})
			return
		}
		switch {
		case a.asked():
			a.end(hard, p.granted())
			return
		case a.Runtime != nil:
			a.hire(hard)
			return
		}
		e = a.work()
	}
	a.conclude(hard, e)
}

// fit tells why the agent's program may not do the task now.
func (a *attempt) fit() error {
	if a.Fit == nil {
		return nil
	}
	return a.Fit(a.live)
}

// work runs the command and returns how it ended. When it returns nothing of
// the command is left, and all that it wrote has been read.
func (a *attempt) work() (e ending) {
	err := a.lay()
	defer a.takeAway()
	if err != nil {
		return ending{unstarted: err}
	}
	c, err := a.spawn()
	if err != nil {
		return ending{unstarted: err}
	}
	begun := time.Now()
	quiet := a.report.begin(true)
	e = a.await(c)
	// The end is a sign of life too: what follows should not race the deadline.
	if err := a.claim.Renew(); err != nil {
		a.log.Debug().Err(err).Msg("lease not renewed")
	}
	c.End(a.live, a.Grace)
	if !c.drain() {
		a.log.Warn().Msg("something that could not be killed holds its output open")
	}
	quiet()
	a.log.Debug().Dur("took", time.Since(begun)).Msg("the command has ended")
	e.delay, e.tail, e.exits, e.account = a.stderr.delay, a.stderr.end(), a.Exit, a.Account
	e.status, e.unstarted = c.Status()
	a.heed(&e, time.Now())
	return e
}

// heed takes what the command's stdout tells of its end, and lets its account rest
// that has nothing left. A result is never taken for a word of that: only what is
// reported as a failure is looked at, by exit code or in the format's own way.
func (a *attempt) heed(e *ending, now time.Time) {
	r := a.recite
	events := r != nil && r.format != FormatLines
	if events {
		r.end()
		e.fault = r.fault
	}
	if e.verdict().complete {
		return
	}
	words := []string{e.tail, e.fault}
	if e.status.Exited() && e.status.ExitStatus() != 0 { // it was not ended
		words = append(words, a.stdout.sentence())
	}
	e.quota = a.quota(now, words...)
	if events && r.spent {
		e.quota = quotaUnknown
		if !r.resets.IsZero() {
			e.quota = within(r.resets.Sub(now))
		}
	}
	if e.quota > 0 {
		a.spend(context.WithoutCancel(a.live), e.quota)
		a.tell(zerolog.WarnLevel, nil, quotaWords(a.Account, e.quota))
	}
}

// await waits for the command's end, or for what ends it.
func (a *attempt) await(c *child) (e ending) {
	var timeout <-chan time.Time
	if a.Timeout > 0 {
		timer := time.NewTimer(a.Timeout)
		defer timer.Stop()
		timeout = timer.C
	}
	late, silent := false, false
	select {
	case <-c.Ended():
	case <-a.live.Done():
	case <-timeout:
		late = true
	case <-a.report.silence():
		silent = true
	}
	switch {
	case c.killed(): // not by this worker
		a.explain()
		e.lapsed = a.lapsed()
	case c.over(): // by itself, whatever came at the same moment
	case late:
		e.timedOut = a.Timeout
	case silent:
		e.silent = a.Silence
	default:
		e.lapsed, e.stopped = a.lapsed(), true
	}
	return e
}

// explain waits a moment for the line that explains a SIGKILL which this worker
// did not send: whoever takes a task back kills first and writes then.
func (a *attempt) explain() {
	moment := time.NewTimer(time.Second)
	defer moment.Stop()
	select {
	case <-a.live.Done():
	case <-moment.C:
	}
}

// laid are the files that a command gets.
type laid struct {
	task      *os.File // open for reading
	path      string
	artifacts string
	inputs    string
}

// takeAway removes what the command got, and the folder for its artifacts if it
// left nothing. What a killed worker leaves a later sweep removes.
func (a *attempt) takeAway() {
	l := a.laid
	a.reopen()
	if l.task != nil {
		l.task.Close()
	}
	if l.path != "" {
		clearIn(a.workspace, filepath.Base(l.path))
	}
	if l.inputs != "" {
		a.clear("inputs")
	}
	if root, err := os.OpenRoot(a.workspace); err == nil { // the command may have put a symlink there
		_ = root.Remove(a.folder("artifacts"))
		root.Close()
	}
}

// lay makes the folder for artifacts, the copies of what the task may read, and
// the copy of the task. The file in in-progress cannot be handed out: progress
// rewrites it.
func (a *attempt) lay() (err error) {
	l := &a.laid
	a.reopen()
	if l.artifacts, err = a.layArtifacts(); err != nil {
		return err
	}
	if _, err = a.layInputs(); err != nil {
		return err
	}
	l.inputs = filepath.Join(a.workspace, a.folder("inputs"))
	data, err := schemas.Encode(a.claim.Task)
	if err != nil {
		return err
	}
	l.path = filepath.Join(a.workspace, taskFile(a.claim.Task))
	clearIn(a.workspace, taskFile(a.claim.Task))
	if err := durable.Stage(l.path, data, durable.None); err != nil {
		return err
	}
	l.task, err = durable.OpenFile(l.path, os.O_RDONLY)
	return err
}

func (a *attempt) spawn() (*child, error) {
	c := a.command(a.Exec)
	c.stdin, c.stdout, c.stderr, c.started = a.laid.task, a.heardBy(), a.stderr, a.claim.Started
	return spawn(c)
}

// command is a line as the attempt runs it, without its streams.
func (a *attempt) command(line string) command {
	l, t := a.laid, a.claim.Task
	var told []string
	if t.Message() != "" {
		told = []string{"MBOX_CHANNEL=" + t.Channel(), "MBOX_MESSAGE=" + t.Message()}
	}
	if a.Home != nil {
		told = append(told, "MBOX_AGENT_HOME="+a.Box.AgentDir(a.Agent))
	}
	return command{
		confine: a.Confine, line: line, dir: a.workspace, hold: a.claim.Hold,
		env: append(append(a.environment(), told...),
			"PWD="+a.workspace,
			"MBOX_HOME="+a.Box.Home(),
			"MBOX_AGENT="+a.Agent,
			"MBOX_TASK_ID="+string(t.ID),
			"MBOX_ATTEMPT="+strconv.FormatInt(t.Mbox.Attempt, 10),
			"MBOX_TOKEN="+a.claim.Token(),
			"MBOX_TASK_FILE="+l.path,
			"MBOX_ARTIFACTS="+l.artifacts,
			"MBOX_INPUTS="+l.inputs,
		),
	}
}

// heardBy is what reads the command's stdout.
func (a *attempt) heardBy() io.Writer {
	if a.recite != nil {
		return a.recite
	}
	return a.stdout
}

// output is the result that the command has written.
func (a *attempt) output() (jsontext.Value, error) {
	switch {
	case a.done != nil:
		return a.done.Output, nil
	case a.recite != nil:
		return a.recite.value()
	}
	return a.stdout.value()
}

// environment is what a command gets besides the variables of its task. Of two of a name
// the last counts (os/exec).
func (a *attempt) environment() []string {
	env := slices.Clone(a.Env)
	if a.Env == nil {
		env = os.Environ()
	}
	return append(env, a.secrets.Environment()...)
}

// conclude ends the claim as the command's end says.
func (a *attempt) conclude(hard context.Context, e ending) {
	if e.setup() {
		a.disable(a.silenced(e.verdict()).release)
	}
	if e.lapsed != "" {
		a.log.Warn().Str("claim", e.lapsed).Msg("the claim is over, the command was killed")
		return
	}
	ctx := context.WithoutCancel(hard)
	stale := errors.Is(a.claim.Valid(ctx), mailbox.ErrStale)
	if stale && a.completed(ctx) {
		a.log.Info().Msg("completed by its command")
		return
	}
	v := e.verdict()
	if v.complete {
		v = a.complete(hard, stale)
	}
	switch v = a.silenced(v); {
	case v.said:
	case stale:
		a.log.Warn().Msg("the claim is over")
	case v.release != "":
		a.say(hard, "given back", func() error { return a.claim.Release(ctx, v.release, v.delay) })
	case v.failure != nil:
		a.say(hard, "failed: "+v.failure.Code, func() error { return a.claim.Fail(ctx, *v.failure) })
	}
}

// complete hands in what the command left. What mbox refuses of it becomes a
// failure. A late result is handed in all the same, if there is one: the mailbox
// keeps it as evidence.
func (a *attempt) complete(hard context.Context, stale bool) verdict {
	value, err := a.output()
	if err != nil {
		return failed("output", err.Error())
	}
	artifacts, err := a.claim.Keep(hard, a.laid.artifacts)
	if hard.Err() != nil && err != nil {
		return verdict{release: "worker stopping"}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it left nothing
		return failed("artifacts", err.Error())
	}
	if stale && len(value) == 0 && len(artifacts) == 0 {
		return verdict{said: true}
	}
	r := mailbox.Result{Output: unsaid(a.claim.Task, withoutWords(a.secrets.Words(), value))}
	if v, refused := a.refused(hard, r); refused {
		return v
	}
	err = a.say(hard, "completed", func() error { return a.claim.Complete(context.WithoutCancel(hard), r) })
	var refused *schemas.Error
	switch {
	case errors.As(err, &refused) && refused.Path == "result.artifacts":
		return failed("artifacts", refused.Error())
	case refused != nil:
		return failed("result", refused.Error())
	case err == nil:
		a.clear("artifacts") // mbox has copies
	}
	return verdict{said: true}
}

// refused tells whether a check has refused the result, or did not come to its end
// because the attempt has.
func (a *attempt) refused(hard context.Context, r mailbox.Result) (v verdict, no bool) {
	err := a.insist(hard, func() error {
		err := a.claim.Check(a.live, r)
		if a.live.Err() != nil {
			return nil
		}
		return err
	})
	switch {
	case a.lapsed() != "":
		a.tell(zerolog.WarnLevel, nil, "the claim is over, its result was not examined: "+a.lapsed())
		return verdict{said: true}, true
	case a.live.Err() != nil:
		return verdict{release: "worker stopping"}, true
	case err != nil:
		a.tell(zerolog.WarnLevel, err, "not completed")
		return verdict{said: true}, true
	}
	return v, false
}
