package agents

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"mbox/agents/secret"
	"mbox/audit/delegation"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// Logs bound what is kept of what an agent says: agents/<agent>/logs/<id>.<epoch>.log,
// a file for each attempt that said something. A zero field is that of [DefaultLogs].
type Logs struct {
	File  int64         // bytes of one attempt: what was said last is kept
	Total int64         // bytes of all attempts of the agent: the last are kept
	Age   time.Duration // since the last word of an attempt
}

// DefaultLogs are the bounds where nothing else is said.
var DefaultLogs = Logs{File: 4 << 20, Total: 256 << 20, Age: 30 * 24 * time.Hour}

// mostLogs is how many attempts of an agent are kept, however little they said.
const mostLogs = 10_000

// The kinds of what an agent says.
const (
	SaidStderr  = "stderr"  // a line of its command
	SaidReply   = "reply"   // what its model replied
	SaidRefused = "refused" // why that was not done
)

// logName is the name of an attempt's log, and of what it put aside when there were too
// many words: the first part is .1, and of the parts that were put aside the last is kept.
var logName = schemas.Pattern(`^(.+)\.log(?:\.([1-9][0-9]{0,8}))?$`)

// said keeps what is said in one attempt. The file is made at the first word, in a folder
// that the agent's command cannot reach if it is confined, and is nobody else's: what
// lies at its name is neither followed nor written into.
type said struct {
	home string // the agent's folder
	name string
	most int64
	warn func(error)

	mu   sync.Mutex
	root *os.Root
	file *os.File
	size int64
	part int  // that was put aside last
	dead bool // it could not be written
}

// say keeps a text, which is made harmless line by line.
func (l *said) say(kind, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		if l.dead {
			return
		}
		if err := l.put(time.Now().UTC().Format(timeForm) + " " + kind + " " + schemas.Sentence(line, maxRemark) + "\n"); err != nil {
			l.dead = true
			l.warn(err)
		}
	}
}

// timeForm is how the time stands before each line.
const timeForm = "2006-01-02T15:04:05.000Z"

func (l *said) put(line string) (err error) {
	if l.root == nil {
		if l.root, err = os.OpenRoot(l.home); err != nil {
			return err
		}
	}
	if l.file != nil && l.size+int64(len(line)) > l.most/2 {
		l.file.Close()
		l.file = nil
		if err := l.turn(); err != nil {
			return err
		}
	}
	if l.file == nil {
		if l.file, err = l.root.OpenFile(l.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, durable.FileMode); err != nil {
			return err
		}
		l.size = 0
	}
	l.size += int64(len(line))
	_, err = l.file.WriteString(line)
	return err
}

// turn puts what was said so far aside, in the place of what was put aside before.
func (l *said) turn() error {
	l.part++
	if err := l.root.Rename(l.name, l.name+"."+strconv.Itoa(l.part)); err != nil || l.part == 1 {
		return err
	}
	return l.root.Remove(l.name + "." + strconv.Itoa(l.part-1))
}

func (l *said) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	if l.file != nil {
		l.file.Close()
	}
	if l.root != nil {
		l.root.Close()
	}
}

// Listen keeps what a command that no worker runs says on its stderr, as the log of its
// attempt. stop ends that, and removes old logs.
func (w *Worker) Listen(claim *mailbox.Claim) (stderr io.Writer, stop func(context.Context), err error) {
	home := w.Box.AgentDir(w.Agent)
	if err := durable.MkdirAll(filepath.Join(home, "logs"), durable.None); err != nil {
		return nil, nil, err
	}
	l := &said{
		home: home, name: filepath.Join("logs", attemptName(claim.Task)+".log"), most: w.Logs.File,
		warn: func(err error) { w.Log.Warn().Err(err).Msg("what it says is not kept") },
	}
	hidden := []string{claim.Token()}
	r := &remarks{
		log:   func(line string) { l.say(SaidStderr, line) },
		hide:  func(line string) string { return hide(hidden, line) },
		heard: func() {}, progress: func(mailbox.Progress) {},
	}
	return r, func(ctx context.Context) {
		r.end()
		l.close()
		(&shift{Worker: *w}).sweepLogs(ctx)
	}, nil
}

// hide takes secrets out of a text: those that the agent is known to have, and what looks
// like one.
func hide(secrets []string, text string) string {
	return delegation.WithoutMarked(hideWords(secrets, text))
}

// hideWords takes those that the agent is known to have out of a text.
func hideWords(secrets []string, text string) string {
	for _, word := range secrets {
		if len(word) >= secret.Least {
			text = strings.ReplaceAll(text, word, "<redacted>")
		}
	}
	return text
}

// without takes the secrets of an attempt out of a text.
func (a *attempt) without(text string) string { return hideWords(a.hidden, text) }

// withoutBegun takes secrets out of a text that was cut off, and from its end as much as
// the beginning of another one can be.
func withoutBegun(hide func(string) string, text string) string {
	text = hide(text)
	return text[:max(0, len(text)-secret.Most)]
}

// known are the secrets that an attempt's command gets to know, the longest first.
func (a *attempt) known() []string {
	all := append(append(slices.Clone(a.Secrets), a.secrets.Words()...), a.claim.Token())
	slices.SortFunc(all, func(x, y string) int { return len(y) - len(x) })
	return all
}

// speak keeps what a model says, and what became of that.
func (a *attempt) speak(kind, text string) { a.said.say(kind, hide(a.hidden, text)) }

// AttemptLog is what an agent said in one attempt.
type AttemptLog struct {
	Agent string // whose folder it is in
	Task  mailbox.ID
	Epoch int64     // of the claim
	Last  time.Time // when the last was said
	Size  int64     // bytes

	parts []logPart // the oldest first
}

// logPart is one file of an attempt's log.
type logPart struct {
	number int // from 1; 0 while that is not known
	path   string
	info   fs.FileInfo
}

// AttemptLogs lists what agents of a mailbox have said, the oldest attempt first: the one
// agent, or all if it is "", and about the one task, or all if that is "".
func AttemptLogs(home, agent string, id mailbox.ID) ([]AttemptLog, error) {
	folders := []string{agent}
	if agent == "" {
		entries, err := os.ReadDir(filepath.Join(home, "agents"))
		if err != nil {
			return nil, err
		}
		folders = folders[:0]
		for _, e := range entries {
			folders = append(folders, e.Name())
		}
	}
	var found []AttemptLog
	for _, name := range folders {
		logs, err := logsIn(filepath.Join(home, "agents", name, "logs"))
		if err != nil {
			return nil, err
		}
		for _, l := range logs {
			if l.Agent = name; id == "" || l.Task == id {
				found = append(found, l)
			}
		}
	}
	slices.SortFunc(found, func(a, b AttemptLog) int {
		return cmp.Or(a.Last.Compare(b.Last), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Epoch, b.Epoch))
	})
	return found, nil
}

// logsIn lists the attempts in a folder of logs, in no order.
func logsIn(dir string) ([]AttemptLog, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return nil, err
	}
	found := map[string]*AttemptLog{}
	for _, e := range entries {
		m := logName().FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		id, attempt, ok := copyOf(m[1], "", "")
		info, err := e.Info()
		if !ok || err != nil || !info.Mode().IsRegular() {
			continue
		}
		l := found[attempt]
		if l == nil {
			epoch, _ := strconv.ParseInt(strings.TrimPrefix(attempt, string(id)+"."), 10, 64)
			l = &AttemptLog{Task: id, Epoch: epoch}
			found[attempt] = l
		}
		number, _ := strconv.Atoi(m[2])
		l.parts = append(l.parts, logPart{number, filepath.Join(dir, e.Name()), info})
		l.Size += info.Size()
		if info.ModTime().After(l.Last) {
			l.Last = info.ModTime()
		}
	}
	var out []AttemptLog
	for _, l := range found {
		l.order()
		out = append(out, *l)
	}
	return out, nil
}

// order puts the parts in their order: that without a number is the last.
func (l *AttemptLog) order() {
	most := 0
	for _, p := range l.parts {
		most = max(most, p.number)
	}
	for i := range l.parts {
		if l.parts[i].number == 0 {
			l.parts[i].number = most + 1
		}
	}
	slices.SortFunc(l.parts, func(a, b logPart) int { return a.number - b.number })
}

// Said is one line of what was said.
type Said struct {
	At   mailbox.Time `json:"time"`
	Kind string       `json:"kind"` // SaidStderr and its like
	Text string       `json:"text"`
}

// Place is how far a log was read; its zero value is the beginning.
type Place struct {
	part int
	at   int64
}

// Lines calls each with what was said in the attempt behind a place, and returns the
// place of what follows. A line that has not ended yet is left to that, and so is what
// was put aside meanwhile.
func (l *AttemptLog) Lines(from Place, each func(Said) error) (Place, error) {
	for _, p := range l.parts {
		if p.number < from.part {
			continue
		}
		f, info, err := durable.OpenRegular(p.path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(info, p.info) {
			if err == nil {
				f.Close()
			}
			return from, nil
		}
		if err != nil {
			return from, err
		}
		if p.number > from.part {
			from = Place{part: p.number}
		}
		from.at, err = linesOf(f, from.at, each)
		f.Close()
		if err != nil {
			return from, err
		}
	}
	return from, nil
}

// linesOf reads the lines of a file from an offset on, and returns that of what follows.
func linesOf(f *os.File, from int64, each func(Said) error) (int64, error) {
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return from, err
	}
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return from, nil
		}
		if err == nil {
			from += int64(len(line))
			err = each(parseSaid(strings.TrimSuffix(line, "\n")))
		}
		if err != nil {
			return from, err
		}
	}
}

func parseSaid(line string) (s Said) {
	when, rest, _ := strings.Cut(line, " ")
	s.Kind, s.Text, _ = strings.Cut(rest, " ")
	if at, err := time.Parse(timeForm, when); err == nil {
		s.At = task.At(at)
	} else {
		s.Kind, s.Text = "", line // written by hand
	}
	return s
}

// sweepLogs removes what attempts said that is too old, or too much, but for those that
// run, and bounds what units have told.
func (s *shift) sweepLogs(ctx context.Context) {
	s.trimOutputs()
	dir := filepath.Join(s.Box.AgentDir(s.Agent), "logs")
	logs, err := logsIn(dir)
	if err != nil {
		s.Log.Warn().Err(err).Msg("old logs are not removed")
		return
	}
	slices.SortFunc(logs, func(a, b AttemptLog) int { return b.Last.Compare(a.Last) })
	total, removed, now := int64(0), 0, time.Now()
	for i, l := range logs {
		total += l.Size
		if total <= s.Logs.Total && now.Sub(l.Last) <= s.Logs.Age && i < mostLogs {
			continue
		}
		if ctx.Err() != nil || removed == sweptAtMost {
			return
		}
		if !s.isOver(ctx, l.Task, string(l.Task)+"."+strconv.FormatInt(l.Epoch, 10)) {
			continue
		}
		removed++
		for _, p := range l.parts {
			clearIn(dir, filepath.Base(p.path))
		}
	}
}
