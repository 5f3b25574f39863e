package mailbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

// AgentDir is an agent's home: agents/<name>, where a ":" in the name is "_".
func (b *Box) AgentDir(agent string) string { return b.path("agents", audit.Folder(agent)) }

// artifactDir is where the files of one attempt lie, from the agent's home.
func (c *Claim) artifactDir() string {
	return filepath.Join("workspace", "artifacts", string(c.ID())+"."+strconv.FormatInt(c.Task.Mbox.Epoch, 10))
}

// ArtifactDir makes the folder for the files that this attempt leaves and
// returns its path. Each attempt has its own.
func (b *Box) ArtifactDir(c *Claim) (string, error) {
	dir := filepath.Join(b.AgentDir(c.agent), c.artifactDir())
	return dir, durable.MkdirAll(dir, b.o.Sync)
}

// maxArtifacts bounds what one attempt may hand over.
const maxArtifacts = 1000

// CollectArtifacts describes the regular files that the attempt left, with size
// and SHA-256, after flushing them: a line will name them. What is no regular
// file is an error. An empty folder is removed.
func (b *Box) CollectArtifacts(c *Claim) ([]Artifact, error) {
	root := b.AgentDir(c.agent)
	dir := filepath.Join(root, c.artifactDir())
	artifacts := []Artifact{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if len(artifacts) == maxArtifacts {
			return fmt.Errorf("more than %d artifacts", maxArtifacts)
		}
		a, err := b.describe(root, path)
		artifacts = append(artifacts, a)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return artifacts, nil
	}
	if err == nil && len(artifacts) == 0 {
		_ = os.Remove(dir) // it may hold empty folders: then it stays
	}
	return artifacts, err
}

func (b *Box) describe(root, path string) (Artifact, error) {
	name, err := filepath.Rel(root, path)
	if err != nil {
		return Artifact{}, err
	}
	f, info, err := durable.OpenRegular(path)
	if err != nil {
		return Artifact{}, fmt.Errorf("artifact %s: %w", schemas.Sentence(name, 200), err)
	}
	defer f.Close()
	if !utf8.ValidString(name) {
		return Artifact{}, fmt.Errorf("artifact %s: the name is no UTF-8", schemas.Sentence(name, 200))
	}
	if b.o.Sync != durable.None {
		if err := durable.SyncFile(f); err != nil {
			return Artifact{}, err
		}
		if err := durable.SyncDir(filepath.Dir(path), b.o.Sync); err != nil {
			return Artifact{}, err
		}
	}
	sum, err := hashFile(f, info.Size())
	return Artifact{Path: filepath.ToSlash(name), Size: info.Size(), SHA256: sum}, err
}

// AddArtifact copies a file into the attempt's folder and describes it.
func (b *Box) AddArtifact(c *Claim, path string) (Artifact, error) {
	in, _, err := durable.OpenRegular(path)
	if err != nil {
		return Artifact{}, err
	}
	defer in.Close()
	dir, err := b.ArtifactDir(c)
	if err != nil {
		return Artifact{}, err
	}
	if same, err := filepath.Abs(path); err == nil && filepath.Dir(same) == dir {
		return b.describe(b.AgentDir(c.agent), same)
	}
	to, err := freeName(dir, filepath.Base(path), in)
	if err != nil {
		return Artifact{}, err
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return Artifact{}, err
	}
	if err := copyInto(to, in); err != nil {
		return Artifact{}, err
	}
	return b.describe(b.AgentDir(c.agent), to)
}

// freeName finds a path in dir for a file that is to be called name: that name,
// if it is free or holds the same bytes already, else with a number.
func freeName(dir, name string, content io.ReadSeeker) (string, error) {
	want := sha256.New()
	if _, err := io.Copy(want, content); err != nil {
		return "", err
	}
	sum := "sha256:" + hex.EncodeToString(want.Sum(nil))
	ext := filepath.Ext(name)
	for n := 1; ; n++ {
		to := filepath.Join(dir, name)
		if n > 1 {
			to = filepath.Join(dir, fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, ext), n, ext))
		}
		have, err := hashAt(to)
		if errors.Is(err, fs.ErrNotExist) || err == nil && have == sum {
			return to, nil
		}
		if err != nil {
			return "", err
		}
	}
}

// copyInto writes a file beside its name and renames it: a verb that is said
// again copies again.
func copyInto(to string, in io.Reader) error {
	temp := to + ".part"
	if err := removeIfThere(temp); err != nil {
		return err
	}
	out, err := durable.Create(temp)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	return durable.Rename(temp, to)
}

// outputTail is how much of an output that became an artifact stays, in bytes.
const outputTail = 8 << 10

// laterRoom is what the last entries of history and lease take in the file.
const laterRoom = 4 << 10

// sizeWith is how long the task file would be with the result.
func (c *Claim) sizeWith(r *Result) (int, error) {
	t := *c.Task
	t.Result.Output, t.Result.Artifacts = r.Output, r.Artifacts
	data, err := schemas.Encode(t)
	return len(data), err
}

// spill turns an output that is too long for the task file into an artifact.
func (c *Claim) spill(r *Result) error {
	size, err := c.sizeWith(r)
	if err != nil {
		return err
	}
	if len(r.Output) <= MaxOutput && size <= MaxTask-laterRoom {
		return nil
	}
	name, data := "output.json", []byte(r.Output)
	var text string
	if r.Output.Kind() == '"' {
		if err := json.Unmarshal(r.Output, &text); err != nil {
			return err
		}
		name, data = "output.txt", []byte(text)
	}
	dir, err := c.box.ArtifactDir(c)
	if err != nil {
		return err
	}
	path, err := freeName(dir, name, bytes.NewReader(data))
	if err != nil {
		return err
	}
	if err := copyInto(path, bytes.NewReader(data)); err != nil {
		return err
	}
	a, err := c.box.describe(c.box.AgentDir(c.agent), path)
	if err != nil {
		return err
	}
	if !slices.Contains(r.Artifacts, a) {
		r.Artifacts = append(slices.Clone(r.Artifacts), a)
	}
	return c.keepTail(r, data)
}

// keepTail leaves as much of the output's end as the task file has room for.
func (c *Claim) keepTail(r *Result, data []byte) error {
	for keep := outputTail; ; keep /= 4 {
		tail := strings.ToValidUTF8(string(data[max(0, len(data)-keep):]), "\uFFFD")
		short, err := jsontext.AppendQuote(nil, tail)
		if err != nil {
			return err
		}
		r.Output = short
		size, err := c.sizeWith(r)
		if err != nil || size <= MaxTask-laterRoom || keep == 0 {
			return err
		}
	}
}
