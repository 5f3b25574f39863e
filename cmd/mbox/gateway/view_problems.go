package gateway

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/mailbox/verify"
	"mbox/schemas"
)

// troubles is the page of what is wrong, and of the chain.
type troubles struct {
	Health     Health
	Alarms     []*mailbox.Why
	MoreAlarms int
	End        audit.Position
	Report     *verify.Report // nil: not asked for
	Entries    int
	Kept       []home.Reason
	Older      string
}

const mostAlarms, mostKept = 30, 50

func (v view) problems() error {
	h, err := v.look()
	if err != nil {
		return err
	}
	p := troubles{Health: h}
	if p.End, err = v.Box.Ledger().Newest(); err != nil {
		return err
	}
	if err := v.alarms(&p); err != nil {
		return err
	}
	if err := v.quarantine(&p); err != nil {
		return err
	}
	if v.value("prove") != "" {
		report, err := v.proven(false)
		if err != nil {
			return err
		}
		p.Report = &report
		return v.still("problems", "/problems", "Problems", p) // it is not proven again by itself
	}
	return v.show("problems", "/problems", "Problems", p)
}

func (v view) alarms(p *troubles) error {
	x, err := v.Box.Index()
	if err != nil {
		return err
	}
	late := slices.DeleteFunc(x.Live, func(l mailbox.Live) bool { return !l.Alarmed })
	slices.SortFunc(late, func(a, b mailbox.Live) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	for i, l := range late {
		if i == mostAlarms {
			p.MoreAlarms = len(late) - i
			break
		}
		w, err := v.Box.Why(v.ctx, l.ID)
		if errors.Is(err, mailbox.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		p.Alarms = append(p.Alarms, w)
	}
	return nil
}

// quarantine lists what lies there, the newest first, page by page.
func (v view) quarantine(p *troubles) error {
	if err := v.door.listing.take(v.ctx); err != nil {
		return err
	}
	defer v.door.listing.leave()
	names, err := durable.Names(v.quarantined(""))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var all []home.Reason
	for _, name := range names {
		entry, is := strings.CutSuffix(name, home.ReasonSuffix)
		if !is {
			continue
		}
		k, err := v.kept(entry)
		if err != nil {
			continue // mbox verify tells of what is no reason
		}
		all = append(all, k.Why)
		if v.ctx.Err() != nil {
			return v.ctx.Err()
		}
	}
	slices.SortFunc(all, func(a, b home.Reason) int { return cmp.Or(b.At.Compare(a.At.Time), cmp.Compare(b.Entry, a.Entry)) })
	p.Entries = len(all)
	if before := v.value("before"); before != "" {
		all = all[slices.IndexFunc(all, func(r home.Reason) bool { return r.Entry == before })+1:]
	}
	if len(all) > mostKept {
		all = all[:mostKept]
		p.Older = v.link("/problems", map[string]string{"before": all[mostKept-1].Entry})
	}
	p.Kept = all
	return nil
}

func (v view) quarantined(name string) string {
	return filepath.Join(v.Box.Home(), "tasks", "quarantine", name)
}

// relic is one entry of the quarantine.
type relic struct {
	Why   home.Reason
	Bytes string
	Told  string // why Bytes are not there
	path  string
}

// kept reads why an entry lies in quarantine.
func (v view) kept(entry string) (*relic, error) {
	const most = 1 << 20
	gone := &refusal{404, "nothing of that name lies in quarantine", "Problems lists what does"}
	if entry == "" || entry != filepath.Base(entry) || strings.HasPrefix(entry, ".") {
		return nil, gone
	}
	data, err := durable.Read(v.quarantined(entry+home.ReasonSuffix), most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, gone
	}
	if err != nil {
		return nil, err
	}
	k := &relic{path: v.quarantined(entry)}
	if err := json.Unmarshal(data, &k.Why); err != nil || k.Why.Entry != entry {
		return nil, gone
	}
	return k, nil
}

// claimToken is where a task's file has the token of its claim. The copy of one that is in
// progress may lie in quarantine, and whoever has the token can end the task.
var claimToken = schemas.Pattern(`("token"\s*:\s*")[^"]*(?:"|$)`)

// read reads the beginning of what lies there, without a claim's token.
func (k *relic) read() {
	const most = 64 << 10
	f, _, err := durable.OpenRegular(k.path)
	if err != nil {
		k.Told = "they cannot be shown: " + err.Error()
		return
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		k.Told = "they cannot be read: " + err.Error()
		return
	}
	if k.Bytes = claimToken().ReplaceAllString(string(data), `$1…"`); len(data) == most {
		k.Bytes += "\n…"
	}
}

// salvaged is what can be read of an entry as a task.
func (k *relic) salvaged() *mailbox.Task {
	k.read()
	t, err := task.ParseDrop("", []byte(k.Bytes))
	if err != nil {
		t = task.Salvage("", []byte(k.Bytes))
	}
	return t
}

func (v view) entry() error {
	k, err := v.kept(v.r.PathValue("entry"))
	if err != nil {
		return err
	}
	k.read()
	return v.still("entry", "/problems", "Quarantine", k)
}
