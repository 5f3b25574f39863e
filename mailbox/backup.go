package mailbox

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"mbox/audit"
	"mbox/mailbox/durable"
)

// BackupReport says what a backup holds.
type BackupReport struct {
	Files    int    `json:"files"`
	Bytes    int64  `json:"bytes"`
	Rounds   int    `json:"rounds"` // how often files were copied again because they had changed
	Seq      int64  `json:"seq"`    // the ledger's last line in it
	Checksum string `json:"checksum"`
}

// Backup writes the mailbox as a zstd-compressed tar while everything runs, and
// what it writes is the mailbox as it was at one moment: the files are copied
// first, then again those that changed meanwhile, until few are left; the last
// round and the cut of the ledger are made with all task locks held and then
// the ledger's. Nothing is in it that a power cut could still take back.
//
// A plain copy of a running home is no backup.
func (b *Box) Backup(ctx context.Context, w io.Writer) (BackupReport, error) {
	dir, err := os.MkdirTemp("", "mbox-backup-")
	if err != nil {
		return BackupReport{}, err
	}
	defer os.RemoveAll(dir)
	c := &copying{b: b, to: dir, have: map[string]stamp{}}
	if err := c.rounds(ctx); err != nil {
		return c.report, err
	}
	if err := b.writeTar(ctx, w, dir, c); err != nil {
		return c.report, err
	}
	return c.report, nil
}

// stamp tells whether a file is still the one that was copied.
type stamp struct {
	ino   uint64
	size  int64
	mtime time.Time
}

func stampOf(info fs.FileInfo) stamp { return stamp{inode(info), info.Size(), info.ModTime()} }

// copying is a home that is being copied into a folder, round by round.
type copying struct {
	b      *Box
	to     string
	have   map[string]stamp
	report BackupReport
}

// few is how many changed files the last round, which stops the world, may have.
const few = 200

func (c *copying) rounds(ctx context.Context) error {
	for range 8 {
		n, err := c.round(ctx)
		if err != nil {
			return err
		}
		c.report.Rounds++
		if n <= few {
			break
		}
	}
	return c.lastRound(ctx)
}

// round copies every file that is new or changed, and forgets those that are
// gone. It returns how many it copied.
func (c *copying) round(ctx context.Context) (int, error) {
	copied, seen := 0, map[string]bool{}
	err := filepath.WalkDir(c.b.home, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		name, err := filepath.Rel(c.b.home, path)
		if err != nil || name == "." {
			return err
		}
		if !inBackup(name) {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if e.IsDir() {
			seen[name] = true
			return os.MkdirAll(filepath.Join(c.to, name), durable.DirMode)
		}
		ok, err := c.file(name, e)
		if err != nil || !ok {
			return err
		}
		copied++
		seen[name] = true
		return nil
	})
	for _, name := range slices.Sorted(maps.Keys(c.have)) {
		if _, failed := os.Lstat(c.b.path(name)); errors.Is(failed, fs.ErrNotExist) {
			delete(c.have, name)
			err = errors.Join(err, removeIfThere(filepath.Join(c.to, name)))
		}
	}
	return copied, err
}

// inBackup leaves out what means nothing elsewhere: staged files, leases, the
// boot record (a restored home is recovered in full), the index, the journal
// (what it has stands in the files that are copied).
func inBackup(name string) bool {
	switch name {
	case ".mbox/boot", ".mbox/index", ".mbox/index.new", ".mbox/readonly", ".mbox/journal":
		return false
	}
	return !strings.HasPrefix(name, ".mbox/pace-") && !strings.HasPrefix(name, ".mbox/tmp/") && !strings.HasPrefix(name, ".mbox/leases/") && !strings.HasPrefix(name, ".mbox/children/") && !strings.HasPrefix(name, ".mbox/spare/") && !strings.HasPrefix(name, ".mbox/locks/")
}

// file copies one file if it is not the one that was copied before. What is no
// regular file (only a quarantine holds such) is left out.
func (c *copying) file(name string, e fs.DirEntry) (bool, error) {
	info, err := e.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || c.have[name] == stampOf(info) {
		return false, err
	}
	f, info, err := durable.OpenRegular(c.b.path(name))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, durable.ErrNotRegular) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	to := filepath.Join(c.to, name)
	if err := os.MkdirAll(filepath.Dir(to), durable.DirMode); err != nil {
		return false, err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return false, err
	}
	_, err = io.Copy(out, io.LimitReader(f, info.Size()))
	c.have[name] = stampOf(info)
	return true, errors.Join(err, out.Close())
}

// lastRound stops every transition for a moment: all shards in ascending order,
// each settled, then the ledger.
func (c *copying) lastRound(ctx context.Context) error {
	b := c.b
	var held []*shard
	defer func() {
		for _, s := range slices.Backward(held) {
			s.unlock()
		}
	}()
	for n := range shards {
		s, err := b.lockShardNumber(ctx, n)
		if err != nil {
			return err
		}
		held = append(held, s)
	}
	return b.ledger.Frozen(ctx, func(end audit.Position) error {
		c.report.Seq, c.report.Checksum = end.Seq, end.Checksum
		_, err := c.round(ctx)
		return err
	})
}

// writeTar packs the copied folder. The lock files come blank: what stood in
// them was this machine's.
func (b *Box) writeTar(ctx context.Context, w io.Writer, dir string, c *copying) error {
	z, err := zstd.NewWriter(w)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == "." {
			return err
		}
		c.report.Files++
		b.o.Progress("packing", int64(c.report.Files), int64(len(c.have)))
		n, err := pack(t, path, filepath.ToSlash(name))
		c.report.Bytes += n
		return errors.Join(err, ctx.Err())
	})
	return errors.Join(err, t.Close(), z.Close())
}

func pack(t *tar.Writer, path, name string) (int64, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	h, err := tar.FileInfoHeader(info, "")
	if err != nil {
		return 0, err
	}
	h.Name, h.Uid, h.Gid, h.Uname, h.Gname = name, 0, 0, "", ""
	h.Format = tar.FormatPAX
	if info.IsDir() {
		h.Name += "/"
		return 0, t.WriteHeader(h)
	}
	if err := t.WriteHeader(h); err != nil {
		return 0, err
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return io.Copy(t, f)
}

// Restore unpacks a backup into dir, which must not exist or be empty. The boot
// record is left out, so the first Open recovers the home in full. A backup
// that is cut short, or that names a path outside, leaves nothing behind.
func Restore(ctx context.Context, r io.Reader, dir string, o Options) error {
	if names, err := listNames(dir); err == nil && len(names) > 0 {
		return fmt.Errorf("%s: %w: it is not empty", dir, ErrExists)
	}
	parent := filepath.Dir(filepath.Clean(dir))
	temp, err := os.MkdirTemp(parent, ".mbox-restore-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if err := unpack(ctx, r, temp); err != nil {
		return fmt.Errorf("the backup: %w", err)
	}
	if _, err := readVersion(temp); err != nil {
		return fmt.Errorf("the backup holds no mailbox: %w", err)
	}
	if err := prepare(temp, o); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := durable.Move(temp, dir); err != nil {
		return err
	}
	return durable.SyncDir(parent, o.Sync)
}

// prepare makes what a backup leaves out, and flushes the tree.
func prepare(dir string, o Options) error {
	if err := makeFolders(dir, "", o.Sync); err != nil {
		return err
	}
	if _, err := makeLocks(dir, blankRecord, o.Sync); err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			return durable.SyncDir(path, o.Sync)
		}
		return durable.SyncPath(path, o.Sync)
	})
}

func unpack(ctx context.Context, r io.Reader, dir string) error {
	z, err := zstd.NewReader(r)
	if err != nil {
		return err
	}
	defer z.Close()
	root, err := os.OpenRoot(dir) // no name leads out of it
	if err != nil {
		return err
	}
	defer root.Close()
	t := tar.NewReader(z)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = errors.Join(unpackOne(root, h, t), ctx.Err())
		}
		if err != nil {
			return err
		}
	}
}

func unpackOne(root *os.Root, h *tar.Header, data io.Reader) error {
	name := strings.TrimSuffix(h.Name, "/")
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, durable.DirMode)
	case tar.TypeReg:
	default:
		return fmt.Errorf("%s: neither file nor folder", name)
	}
	if err := root.MkdirAll(filepath.Dir(name), durable.DirMode); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(h.Mode).Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(f, data)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return root.Chtimes(name, h.ModTime, h.ModTime)
}
