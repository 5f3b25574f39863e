package chat

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
)

// holds is a file that can be fetched, and whose size nobody has said.
func holds(name, text string) File {
	return File{Name: name, Size: -1, Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
}

func (b *bridged) only() *mailbox.Task {
	b.Helper()
	tasks := b.tasks()
	if len(tasks) != 1 {
		b.Fatalf("%d tasks", len(tasks))
	}
	return tasks[0]
}

// Files of a message are with its task, under plain names; the same message again is
// the same task.
func TestFilesComeWithTheTask(t *testing.T) {
	b := aBridge(t)
	b.up()
	m := from("anna", "1", "look")
	m.Files = []File{holds("../../cat.txt", "a cat"), holds("empty", "")}
	b.hears(m)
	b.hears(m)
	n := b.only()
	if len(n.Mbox.Attachments) != 2 || n.Task.Description != "look" {
		t.Fatalf("%+v", n)
	}
	data, err := os.ReadFile(filepath.Join(b.Box.Home(), n.Attached(task.ArtifactsDir)[0].Path))
	if err != nil || string(data) != "a cat" || n.Mbox.Attachments[0].Name != "cat.txt" {
		t.Errorf("%q %v", data, err)
	}
	folders, err := durable.Names(filepath.Join(b.Box.Home(), task.ArtifactsDir))
	if err != nil || len(folders) != 1 {
		t.Errorf("folders %q: %v", folders, err)
	}
}

func TestAFileIsEnough(t *testing.T) {
	b := aBridge(t)
	b.up()
	m := from("anna", "1", "")
	m.Files = []File{holds("cat.txt", "a cat")}
	b.hears(m)
	if n := b.only(); n.Task.Title != "cat.txt" || len(n.Mbox.Attachments) != 1 {
		t.Errorf("%+v", n)
	}
}

// What cannot be had is left out; the sender and the agent are told, and of the error
// only who runs the bridge.
func TestFilesThatAreLeftOut(t *testing.T) {
	broken := File{Name: "b.txt", Size: -1, Open: func(context.Context) (io.ReadCloser, error) { return nil, errors.New("s3cr3t is wrong") }}
	bad := File{Name: "b.txt", Open: func(context.Context) (io.ReadCloser, error) { panic("no such thing") }}
	said := holds("b.txt", "")
	said.Size = 11
	for name, c := range map[string]struct {
		files []File
		kept  int
		want  string
	}{
		"larger than it said": {[]File{holds("a.txt", "a"), holds("b.txt", "eleven signs")}, 1, "b.txt: it is larger than 10 B"},
		"too large":           {[]File{said}, 0, "b.txt: it is larger than 10 B"},
		"broken":              {[]File{broken, holds("a.txt", "a")}, 1, "b.txt: it could not be fetched"},
		"panics":              {[]File{bad}, 0, "b.txt: it could not be fetched"},
		"too many":            {[]File{holds("a.txt", "a"), holds("b.txt", "b"), holds("c.txt", "c"), holds("d.txt", "d")}, 2, "2 more: at most 2 are taken"},
	} {
		t.Run(name, func(t *testing.T) {
			b := aBridge(t)
			b.up()
			m := from("anna", "1", "look")
			m.Files = c.files
			b.hears(m)
			if n := b.answer(); !strings.Contains(n.Text, "taken without these files: "+c.want) || n.Reply != m.ID || strings.Contains(n.Text, "wrong") {
				t.Errorf("%+v", n)
			}
			n := b.only()
			if len(n.Mbox.Attachments) != c.kept || !strings.HasPrefix(n.Task.Description, "look\n\n[Files of") || !strings.Contains(n.Task.Description, c.want) {
				t.Errorf("%+v", n)
			}
			if strings.Contains(b.logged(), "s3cr3t") {
				t.Errorf("the log: %s", b.logged())
			}
		})
	}
}

// A name is a stranger's: what the sender and the agent are told has no folder and no
// hidden signs.
func TestFileNamesInAnswers(t *testing.T) {
	b := aBridge(t)
	b.up()
	m := from("anna", "1", "look")
	m.Files = []File{holds("../x\u202e\n/big\u202efile.txt", "eleven signs")}
	b.hears(m)
	const want = "these files: bigfile.txt: it is larger"
	if n := b.answer(); !strings.Contains(n.Text, want) || !strings.Contains(b.only().Task.Description, "not here: bigfile.txt: it") {
		t.Errorf("%+v", n)
	}
}

func TestFilesAreNotTaken(t *testing.T) {
	b := aBridge(t)
	b.Rules.MaxAttachments = 0
	b.up()
	m := from("anna", "1", "look")
	m.Files = []File{holds("a.txt", "a")}
	b.hears(m)
	if n := b.answer(); !strings.Contains(n.Text, "files are not taken") || len(b.tasks()) != 0 {
		t.Errorf("%+v", n)
	}
}

// Who may not write makes the bridge fetch nothing.
func TestNothingIsFetchedForStrangers(t *testing.T) {
	b := aBridge(t)
	b.up()
	m := from("mallory", "1", "look")
	m.Files = []File{{Name: "a", Open: func(context.Context) (io.ReadCloser, error) {
		t.Error("it was fetched")
		return nil, errors.ErrUnsupported
	}}}
	b.hears(m)
	if len(b.tasks()) != 0 {
		t.Error("it became a task")
	}
}
