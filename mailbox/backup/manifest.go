package backup

import (
	"archive/tar"
	"io"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"

	"mbox/mailbox/durable"
	"mbox/mailbox/home"
)

// manifestName is the last entry of a backup: JSON, one value a line. The first
// is a manifestHead, each other one a manifestLine, by path.
const manifestName = ".mbox/manifest"

// manifestHead says what the archive is of.
type manifestHead struct {
	Manifest  int    `json:"manifest"` // the format: 1
	MailboxID string `json:"mailbox_id"`
	Seq       int64  `json:"seq"` // of the ledger's last line
	Checksum  string `json:"checksum"`
}

// manifestLine is a path from the home that was there when the backup was cut. Of
// a file the last entry of that name in the archive counts, and has this size and
// SHA-256 (hex). A folder's path ends in / and has neither. What was skipped says
// why. An entry of the archive that no line names was moved or removed meanwhile.
type manifestLine struct {
	Path    string `json:"path"`
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256,omitzero"`
	Skipped string `json:"skipped,omitzero"`
	Unread  bool   `json:"unread,omitzero"`
}

// manifest writes the manifest, after it has gone through it for its length.
func (c *copying) manifest() error {
	var length counter
	if err := c.lines(&length, &Report{}); err != nil {
		return err
	}
	err := c.t.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: manifestName, Size: int64(length), Mode: int64(durable.FileMode), ModTime: c.from.Now(), Format: tar.FormatPAX,
	})
	if err != nil {
		return err
	}
	return c.lines(c.t, &c.report)
}

type counter int64

func (n *counter) Write(p []byte) (int, error) { *n += counter(len(p)); return len(p), nil }

// lines writes the manifest's lines and adds them up.
func (c *copying) lines(w io.Writer, r *Report) error {
	put := func(v any) error {
		data, err := json.Marshal(v)
		if err == nil {
			_, err = w.Write(append(data, '\n'))
		}
		return err
	}
	err := put(manifestHead{home.ManifestFormat, c.from.ID, c.report.Seq, c.report.Checksum})
	for _, name := range slices.Sorted(maps.Keys(c.have)) {
		if err != nil {
			return err
		}
		f := c.have[name]
		line := manifestLine{Path: name, Size: f.stamp.size, SHA256: f.sum}
		if f.Why != "" {
			line = manifestLine{Path: f.Path, Skipped: f.Why, Unread: f.Unread}
		}
		r.add(line)
		err = put(line)
	}
	return err
}

func (r *Report) add(line manifestLine) {
	switch {
	case line.Skipped != "":
		r.Skipped = append(r.Skipped, Skipped{line.Path, line.Skipped, line.Unread})
	case line.SHA256 != "":
		r.Files++
		r.Bytes += line.Size
	}
}
