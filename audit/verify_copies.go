package audit

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mbox/mailbox/durable"
)

// copy compares the line with its agent's copy.
func (v *verification) copy(line *Line, agent string) {
	if agent == "" {
		agent = agentOf(line.Raw)
		if !agentForm().MatchString(agent) {
			return // that is a fault already
		}
	}
	r := v.readers[agent]
	if r == nil {
		r = v.copies.of(agent)
		v.readers[agent] = r
	}
	if r.differ != nil {
		return
	}
	if r.compare(v.home, line); r.differ != nil {
		v.differs[Folder(agent)] = line.At
	}
}

// checkCopies gives the verdict on copies that looked different: they are
// written behind the ledger, so one that only lacks lines of somebody who is
// at it is none.
func (v *verification) checkCopies() error {
	if _, err := os.Lstat(filepath.Join(v.home, "audit")); errors.Is(err, fs.ErrNotExist) {
		return nil // begin has told it
	}
	differing, err := v.copies.finish()
	if err != nil {
		return err
	}
	for _, d := range differing {
		again, err := v.recheck(Folder(d.Agent))
		if err != nil {
			return err
		}
		if again != nil {
			v.fault(Fault{Invariant: 11, File: again.File, Line: again.Line, What: again.Why})
		}
	}
	return v.strangers()
}

// recheck looks at a copy again from where it first differed, until nothing but
// the difference is left, and then with the copy's lock held.
func (v *verification) recheck(folder string) (*Difference, error) {
	r := v.copies.agents[folder]
	from, ok := v.differs[folder]
	if !ok {
		from = v.at
	}
	for range 3 {
		next, _, err := v.recompare(r, from)
		if err != nil || next.differ == nil {
			return nil, err
		}
		stands := next.at == from
		if r, from = next.copyReader, next.at; stands {
			break
		}
	}
	unlock, err := v.hold(copyLock(v.home, r.agent))
	if err != nil {
		return nil, err
	}
	defer unlock()
	next, missing, err := v.recompare(r, from)
	if err != nil || next.differ == nil {
		return nil, err
	}
	if missing != nil && next.lacks(v.home, missing) && v.o.InFlight != nil && v.o.InFlight(next.at) {
		return nil, nil
	}
	return next.differ, nil
}

// compared is how far a copy was compared with the ledger.
type compared struct {
	*copyReader
	at Position // of the first line that the copy has otherwise or not at all, or the end
}

// recompare compares a copy with the ledger from a place on, where r had come
// to. missing is the first line that the copy has otherwise or not at all; it
// is nil where the copy has too much.
func (v *verification) recompare(r *copyReader, from Position) (n compared, missing []byte, err error) {
	if n.copyReader, err = r.reopen(v.home); err != nil {
		return n, nil, err
	}
	check := copyCheck{home: v.home, agents: map[string]*copyReader{Folder(n.agent): n.copyReader}}
	defer check.close()
	lines := newReader(v.home, v.genesis, from)
	defer lines.Close()
	for n.differ == nil {
		line, err := lines.Next()
		if err == io.EOF || errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrMoved) { // a file that is gone is told elsewhere
			n.at = lines.Position()
			n.atEnd()
			return n, nil, check.leftOver(Folder(n.agent))
		}
		if err != nil {
			return n, nil, err
		}
		if Folder(agentOf(line.Raw)) != Folder(n.agent) {
			continue
		}
		if n.compare(v.home, &line); n.differ != nil {
			n.at, missing = line.At, bytes.Clone(line.Raw)
		}
	}
	return n, missing, v.ctx.Err()
}

// reopen makes a reader that stands before the line at which r stopped.
func (r *copyReader) reopen(home string) (*copyReader, error) {
	n := &copyReader{agent: r.agent, names: slices.Clone(r.names)}
	if len(n.names) == 0 {
		return n, nil
	}
	f, _, err := durable.OpenRegular(filepath.Join(home, r.path()))
	if err != nil { // the next comparison opens it, and tells
		n.names = n.names[:len(n.names)-1]
		return n, nil
	}
	in := &dayReader{file: f}
	for n.number < r.passed() {
		p, err := in.peek()
		if err != nil {
			f.Close()
			return nil, err
		}
		if !p.whole {
			break
		}
		in.step(p)
		n.number++
	}
	if _, err := f.Seek(in.offset, io.SeekStart); err != nil {
		f.Close()
		return nil, err
	}
	n.file, n.lines = f, bufio.NewReaderSize(f, copyBuffer)
	return n, nil
}

// passed is how many lines of the file at hand were the right ones.
func (r *copyReader) passed() int {
	if r.differ != nil && r.differ.Line > 0 {
		return r.differ.Line - 1
	}
	return r.number
}

// lacks tells whether the copy only ends too early: before the line, or inside it.
func (r *copyReader) lacks(home string, raw []byte) bool {
	f, _, err := durable.OpenRegular(filepath.Join(home, r.path()))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	in := &dayReader{file: f}
	for range r.passed() {
		p, err := in.peek()
		if err != nil || !p.whole {
			return false
		}
		in.step(p)
	}
	p, err := in.peek()
	return err == nil && !p.whole && bytes.HasPrefix(raw, p.raw)
}

// strangers finds what belongs to no copy in the folders of the copies.
func (v *verification) strangers() error {
	found, err := strangers(v.home)
	for _, name := range found {
		v.fault(Fault{Invariant: 11, File: name, What: NoDay + ", and only those belong to a copy"})
	}
	return err
}

// strangers lists, from the home, what is named like no file of a copy in the
// folders of the copies.
func strangers(home string) (found []string, err error) {
	folders, err := os.ReadDir(filepath.Join(home, "audit"))
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		if !folder.IsDir() || folder.Name() == "shared" || strings.HasPrefix(folder.Name(), ".") {
			continue
		}
		files, err := os.ReadDir(filepath.Join(home, "audit", folder.Name()))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if n := f.Name(); !dayFile().MatchString(strings.TrimSuffix(n, ".new")) && !strings.HasPrefix(n, ".") {
				found = append(found, filepath.Join("audit", folder.Name(), n))
			}
		}
	}
	return found, nil
}
