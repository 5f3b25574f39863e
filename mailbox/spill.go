package mailbox

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
	"mbox/mailbox/artifact"
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

// keepTail leaves as much of the output's end as the task file has room for.
func keepTail(t *Task, r *Result, data []byte) error {
	for keep := outputTail; ; keep /= 4 {
		tail := strings.ToValidUTF8(string(data[max(0, len(data)-keep):]), "\uFFFD")
		short, err := jsontext.AppendQuote(nil, tail)
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
