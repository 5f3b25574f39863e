package task

import (
	"cmp"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"mbox/schemas"
)

// MaxAttachments is how many files may come with a task.
const MaxAttachments = 20

const (
	maxAttachmentName = 120 // bytes of one that is made
	mostOfName        = 200 // and of one that is taken: a number may have been added
)

// Attachment is a file that came with the task. It lies in the folder of the task's
// attempt 0, of which there is none else.
type Attachment struct {
	Name   string `json:"name" jsonschema:"required,minLength=1,maxLength=200,description=a plain file name"`
	Size   int64  `json:"size" jsonschema:"minimum=0,description=bytes"`
	SHA256 string `json:"sha256" jsonschema:"pattern=^sha256:[0-9a-f]{64}$"`
}

// AttachmentName makes a plain file name of one that a stranger chose: no folder, no
// sign that is not seen, nothing at its beginning that a shell or a command would
// take for more than a name.
func AttachmentName(name string) string {
	name = plainName(name)
	ext := path.Ext(name)
	if len(ext) > maxAttachmentName/4 {
		ext = ""
	}
	if len(name) > maxAttachmentName {
		end := maxAttachmentName - len(ext)
		for !utf8.RuneStart(name[end]) {
			end--
		}
		name = plainName(name[:end] + ext)
	}
	return cmp.Or(name, "file")
}

func plainName(name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.Is(unicode.C, r), r == utf8.RuneError:
			return -1
		}
		return r
	}, name)
	return strings.TrimRight(strings.TrimLeft(name, " .-~"), " .~")
}

// Attached are the files that came with the task, by their paths where they lie: in
// tasks/artifacts, or in the folder of the archive that has the task's file.
func (t *Task) Attached(in string) []Artifact {
	var all []Artifact
	for _, a := range t.Mbox.Attachments {
		all = append(all, Artifact{Path: path.Join(in, ArtifactFolder(t.ID, 0), a.Name), Size: a.Size, SHA256: a.SHA256})
	}
	return all
}

func (m *Meta) checkAttachments() error {
	if len(m.Attachments) > MaxAttachments {
		return &schemas.Error{Path: "mbox.attachments", Code: "too_many", Problem: fmt.Sprintf("%d files", len(m.Attachments)), Want: fmt.Sprintf("at most %d, or one archive of them", MaxAttachments)}
	}
	for i, a := range m.Attachments {
		if a.Name == "" || len(a.Name) > mostOfName || plainName(a.Name) != a.Name {
			return Fault(fmt.Sprintf("mbox.attachments[%d].name", i), fmt.Sprintf("%q is no plain file name", schemas.Sentence(a.Name, 60)), "the name of a file, without a folder")
		}
	}
	return nil
}
