package action

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"mbox/agents/policy"
	"mbox/schemas"
)

// ReadFile reads a text. A relative path is below the workspace; which others
// may be read the policy says.
type ReadFile struct {
	Path string `json:"path" jsonschema:"minLength=1,maxLength=200,description=which file\\, from the workspace"`
}

// Name is read_file.
func (*ReadFile) Name() string { return "read_file" }

// Validate checks the path.
func (r *ReadFile) Validate(Limits) error { return checkLocal(r.Path) }

// Permit asks whether the agent may read it.
func (r *ReadFile) Permit(p *policy.Policy) error {
	if err := p.Tool(r.Name()); err != nil {
		return err
	}
	_, err := p.Read(r.Path)
	return err
}

// Do reads the file: status read with its content, or missing.
func (r *ReadFile) Do(_ context.Context, env *Env) (Result, error) {
	place, err := env.Policy.Read(r.Path)
	if err != nil {
		return Result{}, err
	}
	if place.Device {
		return Result{}, notRegular(r.Path, "device")
	}
	text, err := readText(place, int64(cmp.Or(env.Limits.MaxBytes, maxBytes)))
	if missing(err) {
		return Result{Action: r.Name(), Status: "missing", Path: r.Path}, nil
	}
	if err != nil {
		return Result{}, err
	}
	out, err := output(struct {
		Size    int    `json:"size"`
		Content string `json:"content"`
	}{len(text), text})
	return Result{Action: r.Name(), Status: "read", Path: r.Path, Output: out}, err
}

func readText(place policy.Place, most int64) (string, error) {
	f, err := Open(place)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return "", err
	}
	text := string(data)
	shown := schemas.Sentence(place.Rel, 2*maxPath)
	switch {
	case int64(len(text)) > most:
		return "", fmt.Errorf("%s: more than %d bytes", shown, most)
	case !utf8.ValidString(text), strings.Contains(text, "\x00"):
		return "", fmt.Errorf("%s: is no text", shown)
	}
	return text, nil
}
