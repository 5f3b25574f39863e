package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

// Places are where a Markdown store lies.
type Places struct {
	Workspace string // of the agent: MEMORY.md, and memory/<date>.md for what is not core
	Private   string // a folder that the agent does not write to: lock, and where entries come from
	Salt      []byte // the mailbox's
	Sync      durable.Mode
	Wait      time.Duration // for the lock
}

// Markdown is the store whose pages people and the agent read and write as well. Where an
// entry comes from stands beside them, in a file that the agent does not write to, by a
// salted hash of the entry: what mbox did not write, or somebody has changed, comes from
// nobody. A page is replaced as a whole, so a crash leaves the old one or the new one.
type Markdown struct {
	at   Places
	lock *durable.Lock
}

var _ Store = (*Markdown)(nil)

const (
	corePage  = "MEMORY.md"
	dayFolder = "memory"
	maxPage   = 4 << 20 // bytes of a page, and of where its entries come from
	sources   = "provenance.jsonl"

	coreTitle = "Long-Term Memory"
	dayTitle  = "Daily Log — "
)

var dayPage = schemas.Pattern(`^\d{4}-\d\d-\d\d\.md$`)

// OpenMarkdown opens a store. It makes nothing yet.
func OpenMarkdown(at Places) *Markdown {
	if at.Sync == durable.Standard {
		at.Sync = durable.Strict // no recovery redoes a rename here
	}
	return &Markdown{at, durable.NewLock(filepath.Join(at.Private, "lock"))}
}

// Close does nothing.
func (m *Markdown) Close() error { return nil }

// source is where an entry comes from.
type source struct {
	Entry    string    `json:"entry"` // salted hash of page, key and content
	Category string    `json:"category"`
	At       time.Time `json:"at,omitzero"`
	By       string    `json:"by,omitzero"`
	Task     string    `json:"task,omitzero"`
}

func (m *Markdown) hash(file, key, content string) string {
	return audit.Hash([]byte(string(m.at.Salt) + "memory-page\n" + file + "\n" + key + "\n" + content + "\n"))
}

// pageOf is the page that an entry belongs on, and its title.
func pageOf(e Entry) (file, title string) {
	if e.Category == Core {
		return corePage, coreTitle
	}
	day := e.At
	if day.IsZero() {
		day = time.Now()
	}
	date := day.UTC().Format(time.DateOnly)
	return dayFolder + "/" + date + ".md", dayTitle + date
}

// Add puts an entry on its page.
func (m *Markdown) Add(ctx context.Context, e Entry) (id string, err error) {
	if err := e.Check(); err != nil {
		return "", err
	}
	err = m.change(ctx, func() error {
		file, title := pageOf(e)
		p, err := m.page(file)
		if err != nil {
			return err
		}
		id = idOf(file, p.add(title, e.Key, e.Content))
		if len(p.text()) > maxPage {
			return fmt.Errorf("%s: %w: %d bytes, at most %d", filepath.Join(m.at.Workspace, file), ErrFull, len(p.text()), maxPage)
		}
		from := source{m.hash(file, e.Key, e.Content), e.Category, e.At, e.By, e.Task}
		if err := m.keepSources(&from); err != nil { // before: without it the entry would come from nobody
			return err
		}
		return m.write(file, p)
	})
	return id, err
}

func idOf(file string, n int) string {
	return strings.TrimSuffix(filepath.Base(file), ".md") + ":" + strconv.Itoa(n)
}

// Forget takes entries off their pages, and what stands beside about them.
func (m *Markdown) Forget(ctx context.Context, ids ...string) error {
	return m.change(ctx, func() error {
		pages, err := m.without(ids)
		if err != nil {
			return err
		}
		for _, file := range slices.Sorted(maps.Keys(pages)) {
			if err := m.write(file, pages[file]); err != nil {
				return err
			}
		}
		return m.keepSources(nil)
	})
}

// without are the pages that lose entries, as they are then.
func (m *Markdown) without(ids []string) (map[string]page, error) {
	files, err := m.files()
	if err != nil {
		return nil, err
	}
	left, changed := slices.Clone(ids), map[string]page{}
	for _, file := range files {
		p, err := m.page(file)
		if err != nil {
			return nil, err
		}
		all, _ := p.pieces()
		for _, one := range slices.Backward(all) { // the lines of those before stay where they are
			if i := slices.Index(left, idOf(file, one.n)); i >= 0 {
				p.remove(one)
				left, changed[file] = slices.Delete(left, i, i+1), p
			}
		}
	}
	if len(left) > 0 {
		return nil, Unknown(left[0])
	}
	return changed, nil
}

// Recall ranks all entries.
func (m *Markdown) Recall(ctx context.Context, query string, limit int) ([]Entry, error) {
	var all []Entry
	for e, err := range m.All(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return Rank(all, query, limit), nil
}

// All yields the entries of all pages, oldest first. What a person has written on the
// core page has no time, and comes first.
func (m *Markdown) All(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		all, err := m.entries()
		if err = errors.Join(err, ctx.Err()); err != nil {
			yield(Entry{}, err)
			return
		}
		slices.SortStableFunc(all, func(a, b Entry) int { return a.At.Compare(b.At) })
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (m *Markdown) entries() (all []Entry, err error) {
	files, err := m.files()
	if err != nil {
		return nil, err
	}
	from, err := m.sources()
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		p, err := m.page(file)
		if err != nil {
			return nil, err
		}
		pieces, _ := p.pieces()
		for _, one := range pieces {
			all = append(all, m.entry(file, one, from))
		}
	}
	return all, nil
}

// entry is an entry of a page with where it comes from, which it takes out of from.
func (m *Markdown) entry(file string, one piece, from map[string][]source) Entry {
	e := Entry{ID: idOf(file, one.n), Key: one.key, Content: one.content, Category: Core}
	if file != corePage {
		e.Category = Daily
		e.At, _ = time.Parse(time.DateOnly, strings.TrimSuffix(filepath.Base(file), ".md"))
	}
	h := m.hash(file, one.key, one.content)
	if known := from[h]; len(known) > 0 {
		e.Category, e.At, e.By, e.Task = known[0].Category, known[0].At, known[0].By, known[0].Task
		from[h] = known[1:]
	}
	return e
}

// files are the pages that there are, by their names from the workspace.
func (m *Markdown) files() ([]string, error) {
	files := []string{corePage}
	folder, info, err := durable.OpenBelow(m.at.Workspace, dayFolder)
	if errors.Is(err, fs.ErrNotExist) {
		return files, nil
	}
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	if !info.IsDir() {
		return nil, fmt.Errorf("%s: it is no folder: %w", folder.Name(), durable.ErrNotRegular)
	}
	names, err := folder.Readdirnames(-1)
	slices.Sort(names)
	for _, name := range names {
		if dayPage().MatchString(name) {
			files = append(files, dayFolder+"/"+name)
		}
	}
	return files, err
}

// page reads a page; one that is not there is empty.
func (m *Markdown) page(file string) (page, error) {
	f, info, err := durable.OpenBelow(m.at.Workspace, file)
	if errors.Is(err, fs.ErrNotExist) {
		return page{}, nil
	}
	if err != nil {
		return page{}, err
	}
	defer f.Close()
	if !info.Mode().IsRegular() {
		return page{}, fmt.Errorf("%s: %w", f.Name(), durable.ErrNotRegular)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxPage+1))
	if err == nil && len(text) > maxPage {
		err = fmt.Errorf("%s: more than %d bytes: %w", f.Name(), maxPage, durable.ErrTooLarge)
	}
	return readPage(string(text)), err
}

// write replaces a page. No step leaves the workspace.
func (m *Markdown) write(file string, p page) error {
	root, err := os.OpenRoot(m.at.Workspace)
	if err != nil {
		return err
	}
	defer root.Close()
	if folder := filepath.Dir(file); folder != "." {
		if err := durable.MkdirIn(root, folder, m.at.Sync); err != nil {
			return err
		}
		below, err := root.OpenRoot(folder)
		if err != nil {
			return err
		}
		defer below.Close()
		root = below
	}
	return durable.ReplaceIn(root, filepath.Base(file), []byte(p.text()), m.at.Sync)
}

// change does something under the store's lock.
func (m *Markdown) change(ctx context.Context, do func() error) error {
	if err := durable.MkdirAll(m.at.Private, m.at.Sync); err != nil {
		return err
	}
	if err := durable.MkdirAll(m.at.Workspace, m.at.Sync); err != nil {
		return err
	}
	file, err := durable.Create(m.lock.Path())
	if err == nil {
		err = file.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := m.lock.Acquire(ctx, m.at.Wait); err != nil {
		return err
	}
	if err = m.sweep(); err == nil {
		err = do()
	}
	return errors.Join(err, m.lock.Unlock())
}

// sweep removes pages that a crash has left half replaced: what is forgotten later would
// stay in them. Their names are those of other temporary files in a workspace, so they
// are told by how they begin.
func (m *Markdown) sweep() error {
	for _, folder := range []string{".", dayFolder} {
		if err := m.sweepFolder(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// sweepFolder is sweep of one folder. A link that takes the place of that meanwhile
// leads nowhere out of the workspace.
func (m *Markdown) sweepFolder(folder string) error {
	workspace, err := os.OpenRoot(m.at.Workspace)
	if err != nil {
		return err
	}
	defer workspace.Close()
	root, err := workspace.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	in, err := root.Open(".")
	if err != nil {
		return err
	}
	defer in.Close()
	names, err := in.Readdirnames(-1)
	for _, name := range names {
		if durable.Temporary(name) && begun(root, name) {
			err = errors.Join(err, durable.RemoveIn(root, name))
		}
	}
	return err
}

// begun tells whether a file begins as a page does.
func begun(root *os.Root, name string) bool {
	f, _, err := durable.OpenIn(root, name, os.O_RDONLY)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 64)
	n, _ := io.ReadFull(f, head)
	text := string(head[:n])
	return strings.HasPrefix(text, headings+coreTitle) || strings.HasPrefix(text, headings+dayTitle)
}

// sources reads where entries come from, by their hashes, in the order of the pages.
func (m *Markdown) sources() (map[string][]source, error) {
	all := map[string][]source{}
	path := filepath.Join(m.at.Private, sources)
	data, err := durable.Read(path, 2*maxPage)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	for line := range bytes.Lines(data) {
		var s source
		if err := schemas.Decode(bytes.TrimSpace(line), &s); err != nil {
			return nil, fmt.Errorf("%s: %w; moved away, the entries stay and come from nobody", path, err)
		}
		all[s.Entry] = append(all[s.Entry], s)
	}
	return all, err
}

// keepSources writes where the entries come from that stand on the pages, and that of a
// new one.
func (m *Markdown) keepSources(added *source) error {
	from, err := m.sources()
	if err != nil {
		return err
	}
	files, err := m.files()
	if err != nil {
		return err
	}
	var kept []source
	for _, file := range files {
		p, err := m.page(file)
		if err != nil {
			return err
		}
		pieces, _ := p.pieces()
		for _, one := range pieces {
			if h := m.hash(file, one.key, one.content); len(from[h]) > 0 {
				kept, from[h] = append(kept, from[h][0]), from[h][1:]
			}
		}
	}
	if added != nil {
		kept = append(kept, *added)
	}
	var out bytes.Buffer
	for _, s := range kept {
		line, err := schemas.Canonical(s)
		if err != nil {
			return err
		}
		out.Write(append(line, '\n'))
	}
	return durable.Replace(filepath.Join(m.at.Private, sources), out.Bytes(), m.at.Sync)
}
