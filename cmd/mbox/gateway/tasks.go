package gateway

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"mbox/cmd/mbox/sight"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// How much one answer holds.
const (
	pageSize  = 100 // tasks, unless n says otherwise
	mostPage  = 1000
	pageBytes = 1 << 20
	mostWait  = 5 * time.Minute
	tidyPace  = time.Second
)

// What the routes have in common.
var (
	aFile  = []string{"application/octet-stream"}
	ranged = []param{{name: "Range", about: "only these bytes: bytes=0-99"}}
	keyed  = []param{{name: "Idempotency-Key", about: "a second request with the same key is the first task", form: form{schema: map[string]any{"type": "string", "minLength": 1, "maxLength": 256}}}}
)

func taskRoutes() []route {
	states := append(stateNames(), string(mailbox.Archived))
	return []route{
		{method: "POST", path: "/task", needs: post, agents: true, about: "leave a task", takes: orders{}, headers: keyed, gives: Sent{}, status: http.StatusAccepted, do: (*call).send},
		{method: "POST", path: "/run_task", needs: post, agents: true, about: "leave a task (another name of /task)", takes: orders{}, headers: keyed, gives: Sent{}, status: http.StatusAccepted, do: (*call).send},
		{
			method: "GET", path: "/tasks", agents: true, about: "list tasks, in each state by id, in which numbers count by their value: those that mbox has named come oldest first", gives: Tasks{}, do: (*call).list,
			query: []param{
				{name: "state", about: "only this state", many: true, form: among(states...)},
				{name: "to", about: "only those meant for this agent"},
				{name: "by", about: "only those that this agent has taken"},
				{name: "from", about: "only those that this agent has sent"},
				{name: "type", about: "only this type", form: among(task.Types...)},
				{name: "priority", about: "only this priority", form: among(task.Priorities...)},
				{name: "n", about: "at most so many (100)", form: between(1, mostPage)},
				{name: "cursor", about: "the next of the page before"},
			},
		},
		{
			method: "GET", path: "/tasks/{id}", agents: true, waits: true, about: "a task; with wait, once it has ended or the time is over", gives: mailbox.Task{}, do: (*call).show,
			query: []param{{name: "wait", about: "how long to wait for its end: 30s, 5m at most", form: waiting()}},
		},
		{method: "GET", path: "/tasks/{id}/why", agents: true, about: "why a task is where it is, and what proves it", gives: mailbox.Why{}, do: (*call).why},
		{method: "GET", path: "/tasks/{id}/artifacts/{name...}", agents: true, waits: true, about: "a file that the task has left", kinds: aFile, headers: ranged, do: (*call).artifact},
		{method: "GET", path: "/tasks/{id}/attachments/{name}", agents: true, waits: true, about: "a file that came with the task", kinds: aFile, headers: ranged, do: (*call).attachment},
	}
}

func stateNames() (names []string) {
	for _, s := range task.Folders {
		names = append(names, string(s))
	}
	return names
}

func among(words ...string) form {
	return form{map[string]any{"type": "string", "enum": words}, func(v string) error {
		if !slices.Contains(words, v) {
			return fmt.Errorf("%s is none of %s", schemas.Quote(v), strings.Join(words, ", "))
		}
		return nil
	}}
}

func between(least, most int) form {
	return form{map[string]any{"type": "integer", "minimum": least, "maximum": most}, func(v string) error {
		if n, err := strconv.Atoi(v); err != nil || n < least || n > most {
			return fmt.Errorf("%s is no number from %d to %d", schemas.Quote(v), least, most)
		}
		return nil
	}}
}

const waitForm = `^[0-9]+(\.[0-9]+)?(ms|s|m)$`

var waitPattern = schemas.Pattern(waitForm)

// waiting is a duration for which somebody waits.
func waiting() form {
	return form{map[string]any{"type": "string", "pattern": waitForm}, func(v string) error {
		if d, err := time.ParseDuration(v); err != nil || !waitPattern().MatchString(v) || d > mostWait {
			return fmt.Errorf("%s is no duration up to %v", schemas.Quote(v), mostWait)
		}
		return nil
	}}
}

// mostLooked is at how many tasks a page looks. A variable for tests.
var mostLooked = 5000

// Tasks is a page of a list.
type Tasks struct {
	Tasks []*mailbox.Task `json:"tasks" jsonschema:"description=as their files have them\\, without the tokens of claims"`
	Next  string          `json:"next,omitzero" jsonschema:"description=cursor of the next page\\, for as long as mbox runs\\, of which there may be one even behind a page without tasks; missing: this is the last"`
}

// cursor is where a page begins: behind the item with this path. That may be one that the
// caller may not see, so he gets it sealed.
type cursor string

// state is that of the folder in which the item lies.
func (at cursor) state() mailbox.State {
	folder, _, _ := strings.Cut(strings.TrimPrefix(string(at), "tasks/"), "/")
	return mailbox.State(folder)
}

// newSeal seals cursors by a key that is gone with the process.
func newSeal() cipher.AEAD {
	key := make([]byte, 32)
	rand.Read(key) // never fails (crypto/rand)
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err)
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return seal
}

func (d *Door) seal(at cursor) string {
	return base64.RawURLEncoding.EncodeToString(d.cursors.Seal(nil, nil, []byte(at), nil))
}

func (d *Door) unseal(text string) (cursor, error) {
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		data, err = d.cursors.Open(nil, nil, data, nil)
	}
	if err != nil {
		return "", badRequest("the cursor is none of ours, or of before mbox was started anew", "begin without a cursor")
	}
	return cursor(data), nil
}

func (c *call) list() error {
	if err := c.tidy(); err != nil {
		return err
	}
	f, err := c.filter()
	if err != nil {
		return err
	}
	mine := c.sight()
	page, err := c.page(f, c.number("n", pageSize), func(t *mailbox.Task) (bool, error) { return mine.Sees(c.ctx, t) })
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, page)
}

// filter is what the query asks for, from where its page begins.
func (c *call) filter() (mailbox.Filter, error) {
	f := mailbox.Filter{Agent: c.value("by"), Target: c.value("to"), Source: c.value("from"), Type: c.value("type"), Priority: c.value("priority")}
	for _, s := range c.query["state"] {
		if !slices.Contains(f.States, mailbox.State(s)) {
			f.States = append(f.States, mailbox.State(s))
		}
	}
	if len(f.States) == 0 {
		f.States = task.Folders
	}
	if text := c.value("cursor"); text != "" {
		at, err := c.door.unseal(text)
		if err != nil {
			return f, err
		}
		i := slices.Index(f.States, at.state())
		if i < 0 {
			return f, badRequest("the cursor is of another state", "begin without a cursor")
		}
		f.States, f.After = f.States[i:], string(at)
	}
	return f.Naming(c.Box)
}

// page is what is wanted of those that a filter names, up to n tasks and about pageBytes.
// Who seeks a few among many has them page by page, too: no page looks at more than
// mostLooked.
func (c *call) page(f mailbox.Filter, n int, wanted func(*mailbox.Task) (bool, error)) (p Tasks, err error) {
	if err := c.door.listing.take(c.ctx); err != nil {
		return p, err
	}
	defer c.door.listing.leave()
	var last cursor
	size, looked := 0, 0
	p.Tasks = []*mailbox.Task{}
	for it, err := range c.Box.List(c.ctx, mailbox.Filter{States: f.States, After: f.After}) {
		if err != nil {
			return p, err
		}
		if len(p.Tasks) == n || size > pageBytes || looked == mostLooked {
			p.Next = c.door.seal(last)
			return p, nil
		}
		last = cursor(it.Path)
		looked++
		if it.Err != nil || !f.Matches(it) {
			continue // what is no task mbox doctor tells of
		}
		if yes, err := wanted(it.Task); err != nil {
			return p, err
		} else if !yes {
			continue
		}
		shown := sight.Shown(it.Task)
		data, err := json.Marshal(shown)
		if err != nil {
			return p, err
		}
		p.Tasks = append(p.Tasks, shown)
		size += len(data)
	}
	return p, nil
}

// How soon a task is looked at again that somebody waits for: after a line about it,
// and without one.
const (
	soon   = time.Millisecond
	seldom = time.Second
)

// show answers with a task's file, as it is or once it has ended.
func (c *call) show() error {
	if err := c.tidy(); err != nil {
		return err
	}
	limit, _ := time.ParseDuration(c.value("wait")) // it was checked
	if limit > 0 {
		leave, err := c.stay()
		if err != nil {
			return err
		}
		defer leave()
	}
	ctx, stop := context.WithTimeout(c.ctx, limit)
	defer stop()
	changed, forget := c.watch(mailbox.ID(c.r.PathValue("id")))
	defer forget()
	for pause := seldom; ; pause = min(2*pause, seldom) {
		t, state, err := c.find()
		if err = cmp.Or(c.ctx.Err(), err); err != nil {
			return err
		}
		if limit == 0 || state.Terminal() || ctx.Err() != nil {
			return c.json(http.StatusOK, sight.Shown(t))
		}
		select {
		case <-changed: // the file moves behind the line
			pause = soon
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

func (c *call) why() error {
	t, _, err := c.find()
	if err != nil {
		return err
	}
	w, err := c.sight().Why(c.ctx, t.ID)
	if err != nil {
		return aboutTask(t.ID, err)
	}
	w.Task = sight.Shown(w.Task)
	return c.json(http.StatusOK, w)
}

// artifact hands out a file of the task's result. A browser stores it: it is what an
// agent has made, and no page of ours.
func (c *call) artifact() error {
	t, _, err := c.find()
	if err != nil {
		return err
	}
	name := c.r.PathValue("name")
	for i, a := range t.Result.Artifacts {
		if folder, ok := t.Keeps(i); ok && a.Path == folder+"/"+name {
			return c.file(a)
		}
	}
	return &refusal{http.StatusNotFound, "the task names no such artifact", "GET /tasks/" + string(t.ID) + " lists them in result.artifacts"}
}

// attachment hands out a file that came with the task, as artifact does.
func (c *call) attachment() error {
	t, state, err := c.find()
	if err != nil {
		return err
	}
	in := task.ArtifactsDir
	if state == mailbox.Archived {
		w, err := c.Box.Why(c.ctx, t.ID)
		if err != nil {
			return aboutTask(t.ID, err)
		}
		in = path.Dir(w.Path) // beside the task's file
	}
	for _, a := range t.Attached(in) {
		if path.Base(a.Path) == c.r.PathValue("name") {
			return c.file(a)
		}
	}
	return &refusal{http.StatusNotFound, "no such file came with the task", "GET /tasks/" + string(t.ID) + " lists them in mbox.attachments"}
}

func (c *call) file(a mailbox.Artifact) error {
	f, err := durable.OpenFile(path.Join(c.Box.Home(), a.Path), os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var sum string
	if info.Size() == a.Size {
		sum, err = c.hashed(f)
	}
	if err != nil {
		return err
	}
	if sum != a.SHA256 {
		return fmt.Errorf("%s is not as the task names it: %w", a.Path, mailbox.ErrIntegrity)
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="`+strings.Map(plain, path.Base(a.Path))+`"`)
	h.Set("X-Mbox-SHA256", a.SHA256)
	w := &worded{ResponseWriter: c.w}
	http.ServeContent(w, c.r, "", time.Time{}, f)
	return w.refused(fmt.Sprintf("it has %d bytes; without Range all of them come", a.Size))
}

// hashed is a file's SHA-256. It is made anew for each request, since whoever may write
// the file may also set back its times, and in turn, since the file may be large.
func (c *call) hashed(f *os.File) (string, error) {
	if err := c.door.hashing.take(c.ctx); err != nil {
		return "", err
	}
	defer c.door.hashing.leave()
	sum := sha256.New()
	for c.ctx.Err() == nil {
		_, err := io.CopyN(sum, f, 1<<20)
		if err == io.EOF {
			return fmt.Sprintf("sha256:%x", sum.Sum(nil)), nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", c.ctx.Err()
}

// plain keeps of a file's name what a header can hold.
func plain(r rune) rune {
	if r < ' ' || r > '~' || r == '"' || r == '\\' || r == '/' {
		return '_'
	}
	return r
}
