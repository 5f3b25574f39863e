package home

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mbox/mailbox/durable"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// Reason is the content of <entry>.reason.json beside an entry of the
// quarantine: what it was and why it lies there.
type Reason struct {
	Name   string    `json:"name"`   // as it was called, made printable
	Entry  string    `json:"entry"`  // as it is called in tasks/quarantine
	SHA256 string    `json:"sha256"` // "" for what is no regular file
	Size   int64     `json:"size"`
	Reason string    `json:"reason"`
	Code   string    `json:"code,omitzero"`
	Path   string    `json:"path,omitzero"` // JSON path of what is wrong
	Want   string    `json:"want,omitzero"`
	Task   task.ID   `json:"task,omitzero"` // where it belongs to one
	At     task.Time `json:"at"`
}

const ReasonSuffix = ".reason.json"

// LateResult is the code of a result that came when its claim was over.
const LateResult = "late_result"

// Lost is the code of what was left of a task whose content is nowhere.
const Lost = "lost"

// Answered tells whether nobody needs to be told of an entry any more: who handed in a
// late result got its exit code, and a drop that was rejected became a task in failed.
func (r *Reason) Answered() bool {
	return r.Task != "" && (r.Code == LateResult || r.Path != "")
}

// EntryName is the name of a quarantine entry: the file's own name, made
// printable and short enough, and the transaction.
func EntryName(name, tx string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '.' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
	clean = strings.TrimLeft(clean, ".")
	if len(clean) > 180 {
		clean = clean[:180]
	}
	return cmp.Or(clean, "_") + "~" + tx
}

// StagedReason is where the reason of a quarantine entry is staged.
func StagedReason(home, entry string) string {
	return Private(home, "tmp", entry+ReasonSuffix)
}

// maxHashed is from where on a kept file's bytes are not hashed: a sparse file
// of a terabyte must stop neither a scan nor mbox verify.
const maxHashed = 64 << 20

// HashKept hashes a kept file; "" for one that is too large.
func HashKept(f *os.File, info fs.FileInfo) (string, error) {
	if info.Size() > maxHashed {
		return "", nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, info.Size())); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

// HashKeptAt hashes what is to be kept at path; "" for what is no regular file,
// and for one that is too large.
func HashKeptAt(path string) (string, error) {
	f, info, err := durable.OpenRegular(path)
	if errors.Is(err, durable.ErrNotRegular) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	return HashKept(f, info)
}

// mostReason is how long the file of a reason may be, in bytes: what is longer nobody
// but a stranger has written.
const mostReason = 64 << 10

// ReadReason reads the file of a reason.
func ReadReason(path string) (r Reason, err error) {
	data, err := durable.Read(path, mostReason)
	if err == nil {
		err = schemas.Decode(data, &r)
	}
	return r, err
}

// Text is the reason, and the JSON path of what is wrong where there is one.
func (r *Reason) Text() string {
	if r.Path == "" || r.Path == "$" || strings.Contains(r.Reason, r.Path) {
		return r.Reason
	}
	return r.Path + ": " + r.Reason
}

// seenNote has the names of the entries that somebody has seen, a line each. It is no
// record: where it is lost, they are told anew.
func seenNote(home string) string { return Private(home, "seen") }

// mostSeen is how long that note may be, in bytes.
const mostSeen = 64 << 20

// Entries are the names of what lies in quarantine.
func Entries(home string) ([]string, error) {
	names, err := durable.Names(filepath.Join(home, "tasks", "quarantine"))
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, ReasonSuffix) }), err
}

// See notes that somebody has seen all that lies in quarantine now, and counts it.
func See(home string, m durable.Mode) (int, error) {
	names, err := Entries(home)
	if err != nil {
		return 0, err
	}
	return len(names), durable.Replace(seenNote(home), []byte(strings.Join(names, "\n")+"\n"), m)
}

// Seen are the names of the entries that somebody has seen.
func Seen(home string) (map[string]bool, error) {
	data, err := durable.Read(seenNote(home), mostSeen)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	seen := map[string]bool{}
	for name := range strings.SplitSeq(string(data), "\n") {
		seen[name] = true
	}
	return seen, nil
}

// Kept lists the reasons of what lies in quarantine, the oldest first. A reason that
// cannot be read is left out: verify tells of it.
func Kept(home string) ([]Reason, error) {
	dir := filepath.Join(home, "tasks", "quarantine")
	names, err := durable.Names(dir)
	if err != nil {
		return nil, err
	}
	var kept []Reason
	for _, name := range names {
		if !strings.HasSuffix(name, ReasonSuffix) {
			continue
		}
		if r, err := ReadReason(filepath.Join(dir, name)); err == nil {
			kept = append(kept, r)
		}
	}
	slices.SortStableFunc(kept, func(a, b Reason) int { return a.At.Compare(b.At.Time) })
	return kept, nil
}
