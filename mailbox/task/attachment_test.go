package task

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestAttachmentName(t *testing.T) {
	for name, want := range map[string]string{
		"report.pdf": "report.pdf", "../../etc/canary": "canary", `C:\temp\a.txt`: "a.txt", ".bashrc": "bashrc", "-rf": "rf",
		"": "file", "..": "file", "a/": "file", "a\x00b\u202ec\n.txt": "abc .txt", "a\xffb": "ab", "  x . ": "x", "größe.txt": "größe.txt",
		strings.Repeat("ä", 200) + ".txt": strings.Repeat("ä", 58) + ".txt",
	} {
		if got := AttachmentName(name); got != want {
			t.Errorf("%q became %q, not %q", name, got, want)
		}
	}
}

func FuzzAttachmentName(f *testing.F) {
	f.Add("../a\u202e.txt")
	f.Add(strings.Repeat("ä", 200) + "." + strings.Repeat("x", 100))
	f.Fuzz(func(t *testing.T, name string) {
		got := AttachmentName(name)
		m := Meta{Attachments: []Attachment{{Name: got}}}
		if err := m.checkAttachments(); err != nil || !utf8.ValidString(got) || len(got) > maxAttachmentName || strings.ContainsAny(got, `/\`) {
			t.Errorf("%q became %q: %v", name, got, err)
		}
	})
}
