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
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/zstd"

	"mbox/mailbox/durable"
	"mbox/mailbox/home"
)

// unpacking is an archive that is being read. Its files get numbers for names, so that
// no name in it leads anywhere, until all is checked and place brings those to their
// places that count.
type unpacking struct {
	temp   string // where the files go; "": nowhere
	sync   durable.Mode
	have   map[string]*unpacked // by path; that of a folder ends in /
	files  int                  // that were unpacked
	id     string               // of the mailbox
	report Report
}

// unpacked is the newest entry of a path.
type unpacked struct {
	at     string // where the bytes are, of a file
	size   int64
	sum    string // SHA-256 in hex; "" for a folder
	end    string // the last bytes of VERSION and of a file of the ledger
	counts bool   // the manifest names it
}

// maxWindow bounds what a decoder keeps in memory; no backup needs more.
const maxWindow = 128 << 20

func (u *unpacking) read(ctx context.Context, r io.Reader) error {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return err
	}
	defer z.Close()
	from := &source{ctx, z}
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
			return fmt.Errorf("%.200s: %w", h.Name, err)
		}
	}
	if err := u.manifest(t); err != nil {
		return fmt.Errorf("%s: %w", manifestName, err)
	}
	return ends(t, from)
}

// source is a reader that ends with its context.
type source struct {
	ctx context.Context
	io.Reader
}

func (s *source) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.Reader.Read(p)
}

// ends reads the stream to its end, where its checksum stands, and refuses
// whatever follows the manifest.
func ends(t *tar.Reader, from io.Reader) error {
	if _, err := t.Next(); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("something follows its manifest"), err)
	}
	switch n, err := io.ReadFull(from, make([]byte, 1)); {
	case n > 0:
		return errors.New("something follows its end")
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

// entry takes what may be a path's newest.
func (u *unpacking) entry(h *tar.Header, data io.Reader) error {
	name := strings.TrimSuffix(h.Name, "/")
	switch {
	case !fits(name):
		return errors.New("this is no path of a backup")
	case h.Typeflag == tar.TypeDir:
		u.have[name+"/"] = &unpacked{}
		return nil
	case h.Typeflag != tar.TypeReg:
		return errors.New("neither file nor folder")
	case h.PAXRecords["GNU.sparse.major"] != "" || h.PAXRecords["GNU.sparse.map"] != "":
		return errors.New("it is sparse, which no backup is") // a few bytes could fill the disk
	}
	if was := u.have[name]; was != nil && u.temp != "" {
		if err := os.Remove(was.at); err != nil {
			return err
		}
	}
	it := &unpacked{}
	u.have[name] = it
	sum, end := sha256.New(), &lastBytes{}
	err := u.file(it, h, io.TeeReader(data, io.MultiWriter(sum, end)))
	it.sum = hex.EncodeToString(sum.Sum(nil))
	if name == home.VersionName || strings.HasPrefix(name, "audit/shared/") {
		it.end = string(end.bytes)
	}
	return err
}

// fits tells whether a file can be called so, and whether a backup has such files.
func fits(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > 255 {
			return false
		}
	}
	return fs.ValidPath(name) && name != "." && len(name) <= 1<<12 && !strings.Contains(name, "\x00") && inBackup(name)
}

// file reads a file, and writes it if it is to be unpacked.
func (u *unpacking) file(it *unpacked, h *tar.Header, data io.Reader) (err error) {
	if u.temp == "" {
		it.size, err = io.Copy(io.Discard, data)
		return err
	}
	u.files++
	it.at = filepath.Join(u.temp, strconv.Itoa(u.files))
	f, err := os.OpenFile(it.at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(h.Mode).Perm())
	if err != nil {
		return err
	}
	it.size, err = io.Copy(f, data)
	if err == nil && u.sync != durable.None {
		err = durable.SyncFile(f)
	}
	return errors.Join(err, f.Close(), os.Chtimes(it.at, h.ModTime, h.ModTime))
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
			return fmt.Errorf("%.200s %w", line.Path, err)
		}
		if day, _ := path.Match("audit/shared/????-??-??.jsonl", line.Path); day && line.Size > 0 && line.Skipped == "" {
			newest = max(newest, line.Path)
		}
		u.report.add(line)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if newest != "" && !strings.HasSuffix(u.have[newest].end, `"`+head.Checksum+"\"}\n") {
		return fmt.Errorf("%s does not end with %s", newest, head.Checksum)
	}
	return u.isHome()
}

func (u *unpacking) compare(line manifestLine) error {
	it := u.have[line.Path]
	switch {
	case line.Skipped != "":
		if it != nil {
			it.counts = it.sum == "" // a folder that could not be read to its end
		}
		return nil
	case it == nil:
		return errors.New("is missing")
	case it.size != line.Size || it.sum != line.SHA256:
		return errors.New("is not what was backed up")
	}
	it.counts = true
	return nil
}

// isHome tells what is missing for a mailbox: what it is, and that whatever lies in
// something lies in a folder. The folders that each one has count, if named or not.
func (u *unpacking) isHome() error {
	v := u.have[home.VersionName]
	if v == nil || !v.counts {
		return errors.New("it is of no mailbox")
	}
	version, err := home.DecodeVersion(home.VersionName, []byte(v.end))
	if err != nil {
		return fmt.Errorf("it is of no mailbox: %w", err)
	}
	u.id = version.MailboxID
	for _, name := range home.Folders {
		u.have[name+"/"] = &unpacked{counts: true}
	}
	for name, it := range u.have {
		for dir := path.Dir(name); it.counts && dir != "."; dir = path.Dir(dir) {
			if f := u.have[dir]; f != nil && f.counts {
				return fmt.Errorf("%.200s is no folder", dir)
			}
		}
	}
	return nil
}

// place brings what counts to its place below dir. What was moved or removed while
// the backup was made does not.
func (u *unpacking) place(dir string) error {
	for name, it := range u.have {
		if !it.counts {
			continue
		}
		in, file := path.Split(name)
		err := durable.MkdirAll(filepath.Join(dir, in), durable.None)
		if err == nil && file != "" {
			err = durable.Move(it.at, filepath.Join(dir, name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
