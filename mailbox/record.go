package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mbox/audit"
	records "mbox/audit/record"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// recorder writes decision and change records.
type recorder struct {
	*books
}

// recordDetails are the details of a decision, change or message line.
type recordDetails struct {
	File   string `json:"file"`            // from the home
	SHA256 string `json:"sha256"`          // of the file
	Before string `json:"before,omitzero"` // of the file that it replaces
	Kind   string `json:"kind,omitzero"`   // of a change: config, code, data, system
	TX     string `json:"tx"`
	// Of a message: its channel, the hash of its id, and those of the keys of the inbox
	// items that are made for it.
	Channel string   `json:"channel,omitzero"`
	Key     string   `json:"key,omitzero"`
	Inbox   []string `json:"inbox,omitempty"`
	People  bool     `json:"people,omitzero"` // it names the people, whom [notify] tells
	// Approves is set where the decision is an operator's approval of a task.
	Approves *Approval `json:"approves,omitzero"`
	audit.Writer
}

// filing is a record or message that is to be written.
type filing struct {
	event         audit.Event
	by            string
	task          string
	action        string
	data          []byte
	recordDetails // of its line, which fills in the hash of the data, the transaction and the writer
}

// line is what the ledger says of the record that is written in the transaction.
func (f *filing) line(b *books, tx string) audit.Entry {
	f.SHA256, f.TX, f.Writer = audit.Hash(f.data), tx, b.writer
	e := audit.Entry{Agent: f.by, Event: f.event, Action: f.action, Details: audit.Details(f.recordDetails)}
	if f.task != "" {
		e.TaskID = &f.task
	}
	return e
}

// Decide writes a decision record and returns its id. ID and Date are made
// where they are empty.
func (b *Box) Decide(ctx context.Context, d records.Decision) (string, error) {
	return b.recorder.decide(ctx, d, nil)
}

func (b *recorder) decide(ctx context.Context, d records.Decision, approves *Approval) (string, error) {
	d.Date = cmp.Or(d.Date, b.now().UTC().Format(time.DateOnly))
	return b.file(ctx, "decisions", "decision", d.Date, d.ID, func(id string) (*filing, error) {
		d.ID = id
		data, err := d.Markdown()
		return &filing{
			event: audit.DecisionEvent, by: d.Agent, task: d.Task, data: data, action: d.Agent + " decided " + id,
			recordDetails: recordDetails{Approves: approves},
		}, err
	})
}

// Change writes a change record and returns its id. ID and Date are made where
// they are empty.
func (b *Box) Change(ctx context.Context, c records.Change) (string, error) {
	c.Date = cmp.Or(c.Date, b.now().UTC().Format(time.DateOnly))
	return b.recorder.file(ctx, "changes", "change", c.Date, c.ID, func(id string) (*filing, error) {
		c.ID = id
		data, err := c.Markdown()
		return &filing{
			event: audit.ChangeEvent, by: c.Agent, data: data, action: c.Agent + " changed " + c.Type + ": " + id,
			recordDetails: recordDetails{Kind: c.Type},
		}, err
	})
}

// Outcome fills in the outcome of a decision, behind what was told before: the file is
// replaced and another line names its new hash. What was told last is not told again.
func (b *Box) Outcome(ctx context.Context, id, by, text string) error {
	if !records.IsDecision(id) {
		return fmt.Errorf("decision %s: %w", schemas.Sentence(id, 60), ErrNotFound)
	}
	if err := task.CheckActor(by); err != nil {
		return err
	}
	if text = records.Normal(text); text == "" {
		return task.Fault("outcome", "is empty", "what came of "+id)
	}
	name := id + ".md"
	s, err := b.lockShard(ctx, name)
	if err != nil {
		return err
	}
	defer s.unlock()
	data, err := durable.Read(b.path("decisions", name), MaxTask)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("decision %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return err
	}
	d, err := records.ParseDecision(data)
	if err != nil {
		return task.InFile(err, "decisions/"+name)
	}
	if err := b.recorder.checkRecord("decisions/"+name, audit.Hash(data)); err != nil {
		return err
	}
	if strings.HasSuffix("\n\n"+d.Outcome, "\n\n"+text) {
		return nil
	}
	d.Outcome = strings.TrimPrefix(d.Outcome+"\n\n"+text, "\n\n")
	changed, err := d.Markdown()
	if err != nil {
		return err
	}
	return b.recorder.writeRecord(ctx, s, &filing{
		event: audit.DecisionEvent, by: by, task: d.Task, data: changed, action: by + " recorded the outcome of " + id,
		recordDetails: recordDetails{File: "decisions/" + name, Before: audit.Hash(data)},
	})
}

// checkRecord refuses to replace a record that was edited by hand.
func (b *recorder) checkRecord(file, hash string) error {
	e, err := b.ledger.LineWith("file", file)
	if err != nil {
		return err
	}
	var d recordDetails
	if e == nil || e.Detail(&d) != nil || d.SHA256 != hash {
		return fmt.Errorf("%s: %w: changed by hand: its bytes are not those of its last ledger line", file, ErrIntegrity)
	}
	return nil
}

// file finds a free id for a record and writes it under that id's lock.
func (b *recorder) file(ctx context.Context, folder, prefix, date, id string, make func(id string) (*filing, error)) (string, error) {
	if id != "" {
		return id, b.fileAs(ctx, folder, id, audit.Position{}, make)
	}
	last, end, err := b.lastRecord(ctx, folder, prefix+"-"+date+"-")
	if err != nil {
		return "", err
	}
	for next := last + 1; ; next++ {
		id := fmt.Sprintf("%s-%s-%03d", prefix, date, next)
		err := b.fileAs(ctx, folder, id, end, make)
		if !errors.Is(err, ErrConflict) {
			return id, err
		}
	}
}

// fileAs writes a record whose id no line up to since has used.
func (b *recorder) fileAs(ctx context.Context, folder, id string, since audit.Position, make func(id string) (*filing, error)) error {
	f, err := make(id)
	if err != nil {
		return err
	}
	f.File = folder + "/" + id + ".md"
	if err := task.CheckActor(f.by); err != nil {
		return err
	}
	s, err := b.lockShard(ctx, id+".md")
	if err != nil {
		return err
	}
	defer s.unlock()
	if _, err := os.Lstat(b.path(f.File)); err == nil {
		return fmt.Errorf("%s: %w: it exists already", f.File, ErrConflict)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	prefix, number, _ := home.CutLast(id, "-")
	used, _, err := b.recordNumbers(ctx, folder, prefix+"-", since)
	if n, bad := strconv.Atoi(number); err == nil && bad == nil && used[n] {
		err = fmt.Errorf("%s: %w: there was one, and a number is used once", f.File, ErrConflict)
	}
	if err != nil {
		return err
	}
	return b.writeRecord(ctx, s, f)
}

// lastRecord is the highest number that a record of the folder has or had, and
// where the ledger ended when it was looked for.
func (b *recorder) lastRecord(ctx context.Context, folder, prefix string) (last int, end audit.Position, err error) {
	used, end, err := b.recordNumbers(ctx, folder, prefix, audit.Position{})
	if err != nil {
		return 0, end, err
	}
	names, err := durable.Names(b.path(folder))
	if err != nil {
		return 0, end, err
	}
	for _, name := range names {
		if n, ok := recordNumber(name, prefix); ok {
			used[n] = true
		}
	}
	for n := range used {
		last = max(last, n)
	}
	return last, end, nil
}

// recordNumbers collects the numbers behind prefix that the ledger's lines from
// a place on have used. A record that was removed has no file and keeps its
// number: its lines tell of it.
func (b *recorder) recordNumbers(ctx context.Context, folder, prefix string, since audit.Position) (used map[int]bool, end audit.Position, err error) {
	used = map[int]bool{}
	r := b.ledger.Read(since)
	for line, err := range r.Lines() {
		if err != nil {
			return nil, since, err
		}
		name, ok := strings.CutPrefix(line.Text("file"), folder+"/")
		if n, is := recordNumber(name, prefix); ok && is {
			used[n] = true
		}
	}
	return used, r.Position(), ctx.Err()
}

// recordNumber takes the number out of <prefix><number>.md.
func recordNumber(name, prefix string) (int, bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	number, md := strings.CutSuffix(rest, ".md")
	n, err := strconv.Atoi(number)
	return n, ok && md && err == nil && n > 0
}

// writeRecord writes a record like a task: mark, stage, line, rename.
func (b *recorder) writeRecord(ctx context.Context, s *shard, f *filing) error {
	tx, name := home.RandomHex(16), path.Base(f.File)
	staged, e := home.StagedPath(b.home, name, tx), f.line(b.books, tx)
	return b.transact(ctx, s, home.Intent{Kind: "record", Name: name, TX: tx},
		func() (audit.Entry, audit.Payload, error) {
			return e, audit.Payload{}, durable.Stage(staged, f.data, b.o.Sync)
		},
		func() error { return durable.RemoveIfThere(staged) },
		func(context.Context, audit.Line) error { return b.placeRecord(&e) })
}

// placeRecord renames the staged record that a line names into its place. Run
// again it changes nothing.
func (b *books) placeRecord(e *audit.Entry) error {
	var d recordDetails
	if err := e.Detail(&d); err != nil {
		return err
	}
	to := b.path(d.File)
	staged := home.StagedPath(b.home, filepath.Base(d.File), d.TX)
	ready, err := home.Look(staged)
	if err != nil {
		return err
	}
	there, err := home.Look(to)
	if err != nil {
		return err
	}
	if d.Channel != "" && !there.There { // a channel's folder is made with its first message
		if err := durable.MkdirAll(filepath.Dir(to), b.o.Sync); err != nil {
			return err
		}
	}
	switch {
	case there.Hash == d.SHA256:
		return durable.RemoveIfThere(staged)
	case !ready.There:
		return fmt.Errorf("%s: %w: the content that the ledger names is nowhere", d.File, ErrIntegrity)
	case !there.There:
		err = durable.Move(staged, to)
	default:
		if err = durable.Exchange(staged, to); err == nil {
			err = durable.Remove(staged)
		}
	}
	if err == nil && b.o.Sync == durable.Strict {
		err = durable.SyncDir(filepath.Dir(to), b.o.Sync)
	}
	return err
}

// Decisions reads all decision records, in the order of their ids.
func (b *Box) Decisions(ctx context.Context) ([]records.Decision, error) {
	return readRecords(ctx, b.path("decisions"), records.ParseDecision)
}

// Changes reads all change records, in the order of their ids.
func (b *Box) Changes(ctx context.Context) ([]records.Change, error) {
	return readRecords(ctx, b.path("changes"), records.ParseChange)
}

func readRecords[T any](ctx context.Context, dir string, parse func([]byte) (T, error)) ([]T, error) {
	names, err := durable.Names(dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var out []T
	for _, name := range names {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		r, err := oneRecord(filepath.Join(dir, name), parse)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, ctx.Err()
}

// RecordIDs are the ids of all records, the latest first. No record is read for it.
func RecordIDs(b *Box) ([]string, error) {
	var ids []string
	for _, dir := range []string{"decisions", "changes"} {
		names, err := durable.Names(b.path(dir))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if id, is := strings.CutSuffix(name, ".md"); is {
				ids = append(ids, id)
			}
		}
	}
	day := func(id string) string { _, of, _ := strings.Cut(id, "-"); return of }
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(compareIDs(day(b), day(a)), cmp.Compare(b, a)) })
	return ids, nil
}

// Record reads one record: a decision, or a change. None with this id is ErrNotFound.
func Record(b *Box, id string) (*records.Decision, *records.Change, error) {
	if task.CheckID(ID(id)) != nil {
		return nil, nil, fmt.Errorf("record: %w", ErrNotFound)
	}
	d, err := oneRecord(b.path("decisions", id+".md"), records.ParseDecision)
	if !errors.Is(err, fs.ErrNotExist) {
		return &d, nil, err
	}
	c, err := oneRecord(b.path("changes", id+".md"), records.ParseChange)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("record %s: %w", id, ErrNotFound)
	}
	return nil, &c, err
}

func oneRecord[T any](path string, parse func([]byte) (T, error)) (r T, err error) {
	data, err := durable.Read(path, MaxTask)
	if err != nil {
		return r, err
	}
	if r, err = parse(data); err != nil {
		err = task.InFile(err, filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path))
	}
	return r, err
}
