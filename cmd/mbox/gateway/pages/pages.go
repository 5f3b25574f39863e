// Package pages draws the dashboard: HTML from templates, its style and its module of
// JavaScript, all of them in the binary. It knows no mailbox, and nothing that it is given
// becomes anything but text: html/template escapes it, and what moves or hides text (control
// and bidirectional characters) stands there as an escape that one sees.
//
// The pages work without JavaScript. The module only puts new parts in the place of old
// ones: those elements that have the attribute data-part, by their ids.
package pages

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"path"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/schemas"
)

//go:embed templates static
var files embed.FS

// Policy is the Content-Security-Policy of every page: nothing but what this server has
// in files of its own, in no frame, and no script or style within the page.
const Policy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// Frame is what every page has around its content.
type Frame struct {
	Title  string
	Here   string // path of the page's entry in the menu
	Host   string // the name by which the browser asks, without the port
	Who    string // who has logged in; "" for nobody
	Role   string // what he may
	Live   bool   // the page follows the ledger
	Decide bool   // he may decide about tasks
	Send   bool   // he may leave tasks
	All    bool   // he sees everything
	Said   string // what was just done
	Now    time.Time
	Data   any // what the page is about
}

// Draw writes a page. What cannot be drawn is an error, and nothing was written.
func Draw(w io.Writer, name string, f *Frame) error {
	set := templates()[name]
	if set == nil {
		return fmt.Errorf("there is no page %q", name)
	}
	var out bytes.Buffer
	if err := set.ExecuteTemplate(&out, "base", f); err != nil {
		return fmt.Errorf("page %s: %w", name, err)
	}
	_, err := out.WriteTo(w)
	return err
}

// templates are the pages by name. They are read when the first page is drawn: no
// command pays for them.
var templates = sync.OnceValue(func() map[string]*template.Template {
	base := template.Must(template.New("").Funcs(functions()).ParseFS(files, "templates/base.html", "templates/parts.html"))
	out := map[string]*template.Template{}
	names, _ := fs.Glob(files, "templates/*.html") // the pattern is right
	for _, file := range names {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if name != "base" && name != "parts" {
			out[name] = template.Must(template.Must(base.Clone()).ParseFS(files, file))
		}
	}
	return out
})

// File is what pages need besides themselves.
type File struct {
	Data []byte
	Kind string // Content-Type
	Tag  string // changes with the bytes
}

// Static is a file of the pages.
func Static(name string) (f File, ok bool) {
	data, err := files.ReadFile("static/" + name)
	if err != nil {
		return f, false
	}
	sum := sha256.Sum256(data)
	kind := "image/svg+xml"
	switch path.Ext(name) {
	case ".css":
		kind = "text/css; charset=utf-8"
	case ".js":
		kind = "text/javascript; charset=utf-8"
	}
	return File{data, kind, `"` + hex.EncodeToString(sum[:8]) + `"`}, true
}

// functions are what templates may call.
func functions() template.FuncMap {
	return template.FuncMap{
		"text": Text, "lines": Block, "raw": Raw, "whole": Whole, "ago": Ago, "span": Duration, "short": short, "markdown": Markdown,
		"size": func(n int64) string { return schemas.Size(uint64(max(0, n))) },
		"iso":  func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"has":  func(t time.Time) bool { return !t.IsZero() },
		"dict": dict,
	}
}

// mostLine and mostBlock are how much of a text is shown, in characters and bytes.
const (
	mostLine  = 600
	mostBlock = 256 << 10
)

// Text is foreign text for one line.
func Text(v any) string { return schemas.Sentence(word(v), mostLine) }

// word is a value's text, and not that of a pointer to it.
func word(v any) string {
	if at := reflect.ValueOf(v); at.Kind() == reflect.Pointer && !at.IsNil() {
		v = at.Elem().Interface()
	}
	return fmt.Sprint(v)
}

// Block is foreign text that keeps its lines.
func Block(v any) string {
	text := schemas.Cut(strings.ToValidUTF8(word(v), "\ufffd"), mostBlock)
	var out strings.Builder
	for line := range strings.Lines(text) {
		body := strings.TrimRight(line, "\r\n")
		out.WriteString(schemas.Sentence(strings.ReplaceAll(body, "\t", "    "), len(body)*6+1))
		if len(body) < len(line) {
			out.WriteByte('\n')
		}
	}
	return out.String()
}

// JSON is a value as people like to read it. A string stands there as its text.
func JSON(v jsontext.Value) string {
	if len(v) == 0 {
		return ""
	}
	if v.Kind() == '"' {
		if text, err := jsontext.AppendUnquote(nil, v); err == nil {
			return Block(string(text))
		}
	}
	return Raw(v)
}

// Raw is a value as JSON, every character of it to be seen.
func Raw(v jsontext.Value) string {
	if text, err := indented(v); err == nil {
		return schemas.Cut(text, mostBlock)
	}
	return Block(string(v))
}

// Whole tells whether Raw shows all of a value.
func Whole(v jsontext.Value) bool {
	text, err := indented(v)
	return len(v) == 0 || err == nil && len(text) <= mostBlock
}

func indented(v jsontext.Value) (string, error) {
	out := v.Clone()
	err := out.Indent(jsontext.WithIndent("  "))
	return string(schemas.SafeJSON(out)), err
}

// Ago is how long before now a time lies.
func Ago(now, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return Duration(now.Sub(t))
}

// Duration is a span in one or two units.
func Duration(d time.Duration) string {
	sign := ""
	if d < 0 {
		d, sign = -d, "in "
	}
	switch {
	case d < time.Second:
		return fmt.Sprintf("%s%d ms", sign, d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%s%d s", sign, d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%s%d min", sign, d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%s%d h %d min", sign, d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%s%d days", sign, d/(24*time.Hour))
}

// short is the beginning of a hash.
func short(hash string) string {
	hash = strings.TrimPrefix(hash, "sha256:")
	return Text(hash[:min(12, len(hash))])
}

// dict gives a template several values.
func dict(pairs ...any) map[string]any {
	out := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		out[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return out
}
