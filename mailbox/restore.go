package mailbox

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"mbox/mailbox/durable"
)

// CheckBackup reads a backup to its end and holds every file against the
// manifest. It writes nothing. An error says what is wrong with it.
func CheckBackup(ctx context.Context, r io.Reader) (BackupReport, error) {
	u := &unpacking{found: map[string]*newestEntry{}}
	err := u.read(ctx, r)
	return u.report, err
}

// Restore unpacks a backup into dir, which is made, with its parents, if it is
// not there, and must be empty otherwise; a symlink to a folder is that folder.
// The boot record is left out, so the first Open recovers the home in full.
//
// Everything is unpacked and checked in a folder of its own within dir, so that
// dir may be a mount point; then it is moved up, .mbox last. A backup that is
// damaged, cut short, or names a path outside leaves nothing behind.
func Restore(ctx context.Context, r io.Reader, dir string, o Options) (report BackupReport, err error) {
	dir, made, err := emptyDir(dir, o.Sync)
	defer func() {
		if err != nil {
			for _, d := range slices.Backward(made) {
				_ = os.Remove(d)
			}
		}
	}()
	if err != nil {
		return report, err
	}
	temp, err := os.MkdirTemp(dir, ".mbox-restore-")
	if err != nil {
		return report, err
	}
	defer os.RemoveAll(temp)
	root, err := os.OpenRoot(temp) // no name leads out of it
	if err != nil {
		return report, err
	}
	defer root.Close()
	u := &unpacking{root: root, sync: o.Sync, found: map[string]*newestEntry{}}
	if err := u.read(ctx, r); err != nil {
		return u.report, fmt.Errorf("the backup: %w", err)
	}
	if _, err := readVersion(temp); err != nil {
		return u.report, fmt.Errorf("the backup holds no mailbox: %w", err)
	}
	if err := prepare(temp, o); err != nil {
		return u.report, err
	}
	return u.report, moveUp(temp, dir, o.Sync)
}

// emptyDir resolves dir, makes what is missing of it, and refuses it if there is
// anything in it but what a new file system holds. It returns what it made.
func emptyDir(dir string, m durable.Mode) (real string, made []string, err error) {
	real, made, err = resolve(dir, m)
	if err != nil || len(made) > 0 {
		return real, made, err
	}
	names, err := listNames(real)
	if err != nil {
		return "", nil, err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == "lost+found" })
	if len(names) > 0 {
		return "", nil, fmt.Errorf("%s: %w: it is not empty, %s is in it", dir, ErrExists, slices.Min(names))
	}
	return real, nil, os.Chmod(real, durable.DirMode)
}

// resolve follows the symlinks of dir and makes the folders that are missing,
// which it returns, parents first.
func resolve(dir string, m durable.Mode) (real string, made []string, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return "", nil, err
	}
	real, err = filepath.EvalSymlinks(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return real, nil, err
	}
	if _, link := os.Lstat(dir); link == nil {
		return "", nil, fmt.Errorf("%s: a symlink that leads nowhere: %w", dir, err)
	}
	parent, made, err := resolve(filepath.Dir(dir), m)
	if err != nil {
		return "", made, err
	}
	real = filepath.Join(parent, filepath.Base(dir))
	return real, append(made, real), durable.MkdirAll(real, m)
}

// moveUp brings what was unpacked into its place. What a crash leaves of that is
// no mailbox, because .mbox comes last.
func moveUp(temp, dir string, m durable.Mode) error {
	names, err := listNames(temp)
	if err != nil {
		return err
	}
	slices.SortFunc(names, func(a, b string) int {
		if a == ".mbox" || b == ".mbox" {
			return strings.Compare(b, a) // no other name counts here
		}
		return strings.Compare(a, b)
	})
	for i, name := range names {
		if err := durable.Move(filepath.Join(temp, name), filepath.Join(dir, name)); err != nil {
			for _, done := range names[:i] {
				err = errors.Join(err, os.RemoveAll(filepath.Join(dir, done)))
			}
			return err
		}
	}
	return durable.SyncDir(dir, m)
}

// prepare makes what a backup leaves out, and flushes the folders.
func prepare(dir string, o Options) error {
	if err := makeFolders(dir, "", o.Sync); err != nil {
		return err
	}
	if _, err := makeLocks(dir, blankRecord, o.Sync); err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		return durable.SyncDir(path, o.Sync)
	})
}

// unpacking is an archive that is being read.
type unpacking struct {
	root   *os.Root // where the files go; nil: nowhere
	sync   durable.Mode
	found  map[string]*newestEntry // by path; that of a folder ends in /
	report BackupReport
}

// newestEntry is the newest entry of a path.
type newestEntry struct {
	size   int64
	sum    string
	end    string // the last bytes of a file of the ledger
	listed bool   // the manifest names it
}

// maxWindow bounds what a decoder keeps in memory; no backup needs more.
const maxWindow = 128 << 20

func (u *unpacking) read(ctx context.Context, r io.Reader) error {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return err
	}
	defer z.Close()
	from := &source{ctx: ctx, from: z}
	t := tar.NewReader(from)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return errors.New("it has no manifest: an older mbox made it, or it was cut short")
		}
		if err != nil {
			return err
		}
		if h.Name == manifestName {
			break
		}
		if err := u.entry(h, t); err != nil {
			return fmt.Errorf("%s: %w", clip(h.Name), err)
		}
	}
	if err := u.manifest(t); err != nil {
		return fmt.Errorf("%s: %w", manifestName, err)
	}
	if err := ends(t, from); err != nil {
		return err
	}
	return u.dropSuperseded()
}

// ends reads the stream to its end, where its checksum stands, and refuses
// whatever follows the manifest.
func ends(t *tar.Reader, from io.Reader) error {
	if _, err := t.Next(); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("something follows its manifest"), err)
	}
	n, err := io.ReadFull(from, make([]byte, 1))
	if n > 0 {
		return errors.New("something follows its end")
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func clip(name string) string {
	if len(name) > 200 {
		return name[:200] + "…"
	}
	return name
}

func (u *unpacking) entry(h *tar.Header, data io.Reader) error {
	name := strings.TrimSuffix(h.Name, "/")
	if !fs.ValidPath(name) || !inBackup(filepath.FromSlash(name)) || len(name) > 1<<12 {
		return errors.New("this is no path of a backup")
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := u.clear(name, name); err != nil {
			return err
		}
		u.found[name+"/"] = &newestEntry{}
		if u.root == nil {
			return nil
		}
		return u.root.MkdirAll(name, durable.DirMode)
	case tar.TypeReg:
		if h.PAXRecords["GNU.sparse.major"] != "" || h.PAXRecords["GNU.sparse.map"] != "" {
			return errors.New("it is sparse, which no backup is") // a few bytes could fill the disk
		}
		return u.file(name, h, data)
	}
	return errors.New("neither file nor folder")
}

func (u *unpacking) file(name string, h *tar.Header, data io.Reader) (err error) {
	if err := u.clear(name, name, name+"/"); err != nil {
		return err
	}
	sum, end := sha256.New(), &lastBytes{}
	into := []io.Writer{sum}
	if strings.HasPrefix(name, "audit/shared/") {
		into = append(into, end)
	}
	if u.root != nil {
		if err := u.root.MkdirAll(path.Dir(name), durable.DirMode); err != nil {
			return err
		}
		f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(h.Mode).Perm())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, u.finish(f, name, h)) }()
		into = append(into, f)
	}
	n, err := io.Copy(io.MultiWriter(into...), data)
	u.found[name] = &newestEntry{size: n, sum: hex.EncodeToString(sum.Sum(nil)), end: string(end.bytes)}
	return err
}

func (u *unpacking) finish(f *os.File, name string, h *tar.Header) error {
	var err error
	if u.sync != durable.None {
		err = durable.SyncFile(f)
	}
	return errors.Join(err, f.Close(), u.root.Chtimes(name, h.ModTime, h.ModTime))
}

// clear makes place for a newer entry: the path was a file, or a folder, before.
func (u *unpacking) clear(name string, was ...string) error {
	for _, w := range was {
		if u.found[w] == nil {
			continue
		}
		delete(u.found, w)
		if u.root == nil {
			continue
		}
		if err := u.root.RemoveAll(name); err != nil {
			return err
		}
	}
	return nil
}

// lastBytes keeps the end of what is written to it.
type lastBytes struct{ bytes []byte }

func (l *lastBytes) Write(p []byte) (int, error) {
	const most = 128 // a checksum and what closes its line
	l.bytes = append(l.bytes, p[max(0, len(p)-most):]...)
	l.bytes = l.bytes[max(0, len(l.bytes)-most):]
	return len(p), nil
}

// manifest holds what was found against the manifest.
func (u *unpacking) manifest(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<10)
	var head manifestHead
	if lines.Scan() {
		if err := json.Unmarshal(lines.Bytes(), &head); err != nil {
			return err
		}
	}
	if head.Manifest != manifestFormat {
		return fmt.Errorf("its format is %d, this mbox knows %d", head.Manifest, manifestFormat)
	}
	u.report.Seq, u.report.Checksum = head.Seq, head.Checksum
	newest := ""
	for lines.Scan() {
		var line manifestLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return err
		}
		if err := u.compare(line); err != nil {
			return err
		}
		if day, _ := path.Match("audit/shared/????-??-??.jsonl", line.Path); day && line.Size > 0 {
			newest = max(newest, line.Path)
		}
		u.report.add(line)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if v := u.found[".mbox/VERSION"]; v == nil || !v.listed {
		return errors.New("it is of no mailbox")
	}
	if newest != "" && !strings.HasSuffix(u.found[newest].end, `"`+head.Checksum+"\"}\n") {
		return fmt.Errorf("%s does not end with %s", newest, head.Checksum)
	}
	return nil
}

func (u *unpacking) compare(line manifestLine) error {
	f := u.found[line.Path]
	switch {
	case line.Skipped != "":
		if f != nil {
			f.listed = strings.HasSuffix(line.Path, "/") // a folder that could not be read to its end
		}
		return nil
	case f == nil:
		return fmt.Errorf("%s is missing", line.Path)
	case f.size != line.Size || f.sum != line.SHA256:
		return fmt.Errorf("%s is not what was backed up", line.Path)
	}
	f.listed = true
	return nil
}

// dropSuperseded removes what was moved or removed while the backup was made.
func (u *unpacking) dropSuperseded() error {
	var names []string
	for name, f := range u.found {
		if u.root != nil && !f.listed {
			names = append(names, strings.TrimSuffix(name, "/"))
		}
	}
	slices.Sort(names)
	for _, name := range slices.Backward(names) {
		err := u.root.Remove(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			return err
		}
	}
	return nil
}
