package backup

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

	"mbox/mailbox/durable"
	"mbox/mailbox/home"
)

// Check reads a backup to its end and holds every file against the
// manifest. It writes nothing. An error says what is wrong with it. It judges by
// the code that Restore unpacks with, so the two agree.
func Check(ctx context.Context, r io.Reader) (Report, error) {
	u := &unpacking{tree: newFolder()}
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
func Restore(ctx context.Context, r io.Reader, dir string, m durable.Mode) (report Report, err error) {
	dir, made, err := emptyDir(dir, m)
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
	u := &unpacking{tree: newFolder(), root: root, sync: m}
	if err := u.read(ctx, r); err != nil {
		return u.report, fmt.Errorf("the backup: %w", err)
	}
	if err := prepare(temp, m); err != nil {
		return u.report, err
	}
	return u.report, moveUp(temp, dir, m)
}

// emptyDir resolves dir, makes what is missing of it, and refuses it if there is
// anything in it but what a new file system holds. It returns what it made.
func emptyDir(dir string, m durable.Mode) (real string, made []string, err error) {
	real, made, err = resolve(dir, m)
	if err != nil || len(made) > 0 {
		return real, made, err
	}
	names, err := durable.Names(real)
	if err != nil {
		return "", nil, err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == "lost+found" })
	if len(names) > 0 {
		return "", nil, fmt.Errorf("%s: %w: it is not empty, %s is in it", dir, home.ErrExists, slices.Min(names))
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
	names, err := durable.Names(temp)
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
func prepare(dir string, m durable.Mode) error {
	if err := home.MakeFolders(dir, "", m); err != nil {
		return err
	}
	if _, err := home.MakeLocks(dir, home.BlankSlot, m); err != nil {
		return err
	}
	v, err := home.ReadVersion(dir)
	if err == nil && v.Format != home.Format {
		err = home.WriteVersion(dir, v.MailboxID, m)
	}
	if err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		return durable.SyncDir(path, m)
	})
}

// unpacking is an archive that is being read.
type unpacking struct {
	root   *os.Root // where the files go; nil: nowhere
	sync   durable.Mode
	tree   *packed // what lies there
	report Report
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
	if u.root == nil {
		return nil
	}
	_, err = u.dropSuperseded(u.tree, "")
	return err
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
	if !fits(name) {
		return errors.New("this is no path of a backup")
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := u.put(name, newFolder()); err != nil || u.root == nil {
			return err
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
	it := &packed{}
	if err := u.put(name, it); err != nil {
		return err
	}
	sum, end := sha256.New(), &lastBytes{}
	into := []io.Writer{sum, end}
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
	it.size, err = io.Copy(io.MultiWriter(into...), data)
	it.sum = hex.EncodeToString(sum.Sum(nil))
	if name == home.VersionName || strings.HasPrefix(name, "audit/shared/") {
		it.end = string(end.bytes)
	}
	return err
}

func (u *unpacking) finish(f *os.File, name string, h *tar.Header) error {
	var err error
	if u.sync != durable.None {
		err = durable.SyncFile(f)
	}
	return errors.Join(err, f.Close(), u.root.Chtimes(name, h.ModTime, h.ModTime))
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
	if head.Manifest != home.ManifestFormat {
		return fmt.Errorf("its format is %d, this mbox knows %d", head.Manifest, home.ManifestFormat)
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
		if day, _ := path.Match("audit/shared/????-??-??.jsonl", line.Path); day && line.Size > 0 && line.Skipped == "" {
			newest = max(newest, line.Path)
		}
		u.report.add(line)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if newest != "" && !strings.HasSuffix(u.tree.at(newest).end, `"`+head.Checksum+"\"}\n") {
		return fmt.Errorf("%s does not end with %s", newest, head.Checksum)
	}
	return u.tree.isHome()
}

func (u *unpacking) compare(line manifestLine) error {
	name, folder := strings.CutSuffix(line.Path, "/")
	f := u.tree.at(name)
	if f != nil && f.isFolder() != folder {
		f = nil
	}
	switch {
	case line.Skipped != "":
		if f != nil {
			f.listed = folder // one that could not be read to its end
		}
		return nil
	case f == nil:
		return fmt.Errorf("%s is missing", clip(line.Path))
	case f.size != line.Size || f.sum != line.SHA256:
		return fmt.Errorf("%s is not what was backed up", clip(line.Path))
	}
	f.listed = true
	return nil
}
