package backup

import (
	"io"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"

	"mbox/mailbox/home"
)

// Report says what a backup holds.
type Report struct {
	Files    int       `json:"files"`
	Bytes    int64     `json:"bytes"`
	Rounds   int       `json:"rounds,omitzero"` // how often the home was walked for files that had changed
	Seq      int64     `json:"seq"`             // the ledger's last line in it
	Checksum string    `json:"checksum"`
	Skipped  []Skipped `json:"skipped,omitzero"` // by path
}

// Skipped is a path of the home that a backup does not hold.
type Skipped struct {
	Path string `json:"path"`
	Why  string `json:"why"`
	// Unread: it could not be read, as opposed to what is no file or nearly all hole.
	Unread bool `json:"unread,omitzero"`
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

// manifest writes the manifest, after it has gone through it for its length, and adds
// up the report.
func (c *copying) manifest() error {
	names := slices.Sorted(maps.Keys(c.have))
	var length counter
	if err := c.lines(&length, names); err != nil {
		return err
	}
	if err := c.header(manifestName, int64(length), nil); err != nil {
		return err
	}
	for _, name := range names {
		c.report.add(c.have[name].line)
	}
	return c.lines(c.t, names)
}

type counter int64

func (n *counter) Write(p []byte) (int, error) { *n += counter(len(p)); return len(p), nil }

func (c *copying) lines(w io.Writer, names []string) error {
	put := func(v any) error {
		data, err := json.Marshal(v)
		if err == nil {
			_, err = w.Write(append(data, '\n'))
		}
		return err
	}
	err := put(manifestHead{home.ManifestFormat, c.from.ID, c.report.Seq, c.report.Checksum})
	for _, name := range names {
		if err == nil {
			err = put(c.have[name].line)
		}
	}
	return err
}
