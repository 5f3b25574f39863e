package mailbox

import (
	"os"
	"path"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
	"mbox/mailbox/artifact"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// outputTail is how much of an output that became an artifact stays, in bytes.
const outputTail = 8 << 10

// laterRoom is what the last entries of history and lease take in the file.
const laterRoom = 4 << 10

// mostIndented is how much longer indenting makes JSON at most.
const mostIndented = 2 + 2*schemas.MaxDepth

// sizeWith is how long the task file would be with the result.
func sizeWith(of *Task, r *Result) (int, error) {
	t := *of
	t.Result.Output, t.Result.Artifacts = r.Output, r.Artifacts
	data, err := schemas.Encode(t)
	return len(data), err
}

// spill turns an output that is too long for the task file into an artifact: it
// joins what else the attempt leaves.
func spill(t *Task, left *artifact.Set, r *Result) error {
	size, err := sizeWith(t, r)
	if err != nil || len(r.Output) <= MaxOutput && size <= MaxTask-laterRoom {
		return err
	}
	name, data := "output.json", []byte(r.Output)
	var text string
	if r.Output.Kind() == '"' {
		if err := json.Unmarshal(r.Output, &text); err != nil {
			return err
		}
		name, data = "output.txt", []byte(text)
	}
	before := len(left.Files)
	left.Add(artifact.File{Data: data, Artifact: Artifact{Path: name, Size: int64(len(data)), SHA256: audit.Hash(data)}})
	for _, f := range left.Files[before:] {
		r.Artifacts = append(r.Artifacts[:len(r.Artifacts):len(r.Artifacts)], f.Artifact)
	}
	return keepTail(t, r, data)
}

// Spilled opens the artifact that a task's output became because it was too long, of
// which Output is the end; false if Output is whole. There is no file where the artifact is
// not there, or has another size than the task names. What the file holds is the caller's
// to hold against its SHA-256.
func Spilled(home string, t *Task) (whole *os.File, a Artifact, ok bool) {
	if t.Result.Output.Kind() != '"' {
		return nil, a, false
	}
	end := task.Text(t.Result.Output)
	for i, a := range t.Result.Artifacts {
		name, ext := path.Base(a.Path), path.Ext(a.Path)
		if folder, own := t.Keeps(i); !own || path.Dir(a.Path) != folder || !strings.HasPrefix(name, "output") || ext != ".txt" && ext != ".json" {
			continue
		}
		f, info, err := durable.OpenBelow(home, a.Path)
		if err == nil && info.Size() == a.Size {
			if spilledTo(t, f, a, end) {
				return f, a, true
			}
			f.Close()
			continue
		}
		if err == nil {
			f.Close()
		}
		if a.Size > MaxOutput && len(end) >= outputTail && len(end) <= outputTail+2 { // of a rune that was cut
			return nil, a, true
		}
	}
	return nil, a, false
}

// spilledTo tells whether a file holds an output that was too long for its task, and the
// end is what was kept of it.
func spilledTo(t *Task, f *os.File, a Artifact, end string) bool {
	for keep := outputTail; keep > 0; keep /= 4 {
		data := make([]byte, min(int64(keep), a.Size))
		if _, err := f.ReadAt(data, a.Size-int64(len(data))); err != nil {
			return false
		}
		if validTail(data) != end {
			continue
		}
		if keep == outputTail && tooLong(f, a) {
			return true
		}
		full, err := sizeWith(t, &t.Result)
		return err == nil && full+4*keep > MaxTask-2*laterRoom // so that more was not kept
	}
	return false
}

// tooLong tells whether the output that a file holds is longer than any result may be.
func tooLong(f *os.File, a Artifact) bool {
	if a.Size > MaxOutput || path.Ext(a.Path) == ".json" {
		return a.Size > MaxOutput
	}
	data := make([]byte, a.Size)
	if _, err := f.ReadAt(data, 0); err != nil {
		return false
	}
	quoted, err := jsontext.AppendQuote(nil, validTail(data))
	return err == nil && len(quoted) > MaxOutput
}

func validTail(data []byte) string { return strings.ToValidUTF8(string(data), "\uFFFD") }

// keepTail leaves as much of the output's end as the task file has room for.
func keepTail(t *Task, r *Result, data []byte) error {
	for keep := outputTail; ; keep /= 4 {
		short, err := jsontext.AppendQuote(nil, validTail(data[max(0, len(data)-keep):]))
		if err != nil {
			return err
		}
		r.Output = short
		size, err := sizeWith(t, r)
		if err != nil || size <= MaxTask-laterRoom || keep == 0 {
			return err
		}
	}
}
