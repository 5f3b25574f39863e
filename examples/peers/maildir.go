package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The Maildir loop is what a careful worker writes by hand: files are made in
// tmp, flushed and renamed; every folder that a rename has touched is flushed
// before the answer. There is no ledger, no lease and no lock.
//
//	submit    tmp/N, fsync, rename to new/N, fsync new
//	claim     rename new/N to cur/N, fsync cur, fsync new
//	complete  tmp/N.result, fsync, rename to done/N.result, rename cur/N to
//	          done/N, fsync done, fsync cur
//
// The folders' descriptors stay open. A worker lists new once, and again only
// when it has tried every name of its list.
func maildirPeer(name, base string, processes bool) *peer {
	return &peer{
		name: name, base: base, processes: processes,
		what: "a loop of write, fsync, rename, fsync of the folders; no ledger",
		create: func(dir string) error {
			for _, f := range maildirFolders {
				if err := os.MkdirAll(filepath.Join(dir, f), 0o700); err != nil {
					return err
				}
			}
			return nil
		},
		open: func(_ context.Context, dir string, _ int) (queue, error) { return maildir{dir: dir}, nil },
		lazy: func(_ context.Context, dir string) (queue, error) { return maildir{dir, true}, nil },
		drop: func(dir string, n int) (part, to string) {
			name := fmt.Sprintf("drop-%d", n)
			return filepath.Join(dir, "tmp", name), filepath.Join(dir, "new", name)
		},
	}
}

var maildirFolders = []string{"tmp", "new", "cur", "done"}

type maildir struct {
	dir  string
	lazy bool // flushes nothing
}

func (m maildir) worker(_ context.Context, n int) (worker, error) {
	w := &maildirWorker{maildir: m, n: n, folders: map[string]*os.File{}}
	for _, f := range maildirFolders {
		d, err := os.Open(filepath.Join(w.dir, f))
		if err != nil {
			return nil, errors.Join(err, w.close())
		}
		w.folders[f] = d
	}
	return w, nil
}

func (m maildir) drain(context.Context) error { return nil }
func (m maildir) close() error                { return nil }

func (m maildir) tally(context.Context) (tally, error) {
	var t tally
	for _, f := range maildirFolders {
		names, err := readNames(filepath.Join(m.dir, f))
		if err != nil {
			return t, err
		}
		if f != "done" {
			t.left += int64(len(names))
			continue
		}
		for _, name := range names {
			if !strings.HasSuffix(name, result) {
				t.done++
			}
		}
		if int64(len(names)) != 2*t.done {
			return t, fmt.Errorf("%d files in done for %d tasks: some have no result", len(names), t.done)
		}
	}
	return t, nil
}

func readNames(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

const result = ".result"

type maildirWorker struct {
	maildir
	n       int
	made    int
	folders map[string]*os.File
	listed  []string // what is left of the last listing, oldest first
	news    *os.File // tells of what comes to new; nil before the first wait
}

func (w *maildirWorker) path(folder, name string) string { return w.dir + "/" + folder + "/" + name }

func (w *maildirWorker) flush(folders ...string) error {
	if w.lazy {
		return nil
	}
	for _, f := range folders {
		if err := w.folders[f].Sync(); err != nil {
			return err
		}
	}
	return nil
}

// deliver makes a file and renames it to where it belongs.
func (w *maildirWorker) deliver(name, folder string, data []byte) error {
	f, err := os.OpenFile(w.path("tmp", name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && !w.lazy {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(w.path("tmp", name), w.path(folder, name))
}

func (w *maildirWorker) submit(_ context.Context, body []byte) error {
	w.made++
	name := fmt.Sprintf("%d.%d_%d_%d.host", time.Now().UnixNano(), os.Getpid(), w.n, w.made)
	if err := w.deliver(name, "new", body); err != nil {
		return err
	}
	return w.flush("new")
}

func (w *maildirWorker) claim(context.Context) (job, error) {
	name, err := w.take()
	if err != nil {
		return job{}, err
	}
	if err := w.flush("cur", "new"); err != nil {
		return job{}, err
	}
	body, err := os.ReadFile(w.path("cur", name))
	return job{body: body, handle: name}, err
}

// take renames the first of the listed names that nobody else has taken.
func (w *maildirWorker) take() (string, error) {
	if len(w.listed) == 0 {
		names, err := readNames(w.path("new", ""))
		if err != nil {
			return "", err
		}
		slices.Sort(names)
		w.listed = names
	}
	for len(w.listed) > 0 {
		name := w.listed[0]
		w.listed = w.listed[1:]
		err := os.Rename(w.path("new", name), w.path("cur", name))
		if !errors.Is(err, fs.ErrNotExist) {
			return name, err
		}
	}
	return "", errEmpty
}

// wait returns when something has come to new; the first returns at once and looks
// out from then on.
func (w *maildirWorker) wait() error {
	if w.news != nil {
		_, err := w.news.Read(make([]byte, 4096))
		return err
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return err
	}
	w.news = os.NewFile(uintptr(fd), "inotify")
	_, err = unix.InotifyAddWatch(fd, w.path("new", ""), unix.IN_MOVED_TO)
	return err
}

func (w *maildirWorker) complete(_ context.Context, j job) error {
	name := j.handle.(string)
	if err := w.deliver(name+result, "done", []byte(`"done"`)); err != nil {
		return err
	}
	if err := os.Rename(w.path("cur", name), w.path("done", name)); err != nil {
		return err
	}
	return w.flush("done", "cur")
}

func (w *maildirWorker) close() error {
	var errs []error
	if w.news != nil {
		errs = append(errs, w.news.Close())
	}
	for _, d := range w.folders {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}
