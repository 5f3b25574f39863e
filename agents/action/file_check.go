package action

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"

	"mbox/agents/policy"
)

// FileCheck tells whether there is a file. A relative path is below the
// workspace; which others may be looked at the policy says.
type FileCheck struct {
	Path string `json:"path" jsonschema:"minLength=1,maxLength=200,description=which file\\, from the workspace"`
}

// Name is file_check.
func (*FileCheck) Name() string { return "file_check" }

// Validate checks the path.
func (c *FileCheck) Validate(Limits) error { return checkLocal(c.Path) }

// Permit asks whether the agent may read it.
func (c *FileCheck) Permit(p *policy.Policy) error {
	if err := p.Tool(c.Name()); err != nil {
		return err
	}
	_, err := p.Read(c.Path)
	return err
}

// found is what file_check tells of what is there.
type found struct {
	Kind   string `json:"kind"`            // file, folder, symlink, fifo, socket, device
	Size   *int64 `json:"size,omitzero"`   // of a regular file, bytes
	SHA256 string `json:"sha256,omitzero"` // of a regular file
}

// Do looks: exists or missing. A symlink at the end of the path is not followed.
func (c *FileCheck) Do(ctx context.Context, env *Env) (Result, error) {
	place, err := env.Policy.Read(c.Path)
	if err != nil {
		return Result{}, err
	}
	is := found{Kind: "device"}
	if !place.Device {
		is, err = look(ctx, place)
	}
	if missing(err) {
		return Result{Action: c.Name(), Status: "missing", Path: c.Path}, nil
	}
	if err != nil {
		return Result{}, err
	}
	out, err := output(is)
	return Result{Action: c.Name(), Status: "exists", Path: c.Path, Output: out}, err
}

func look(ctx context.Context, place policy.Place) (found, error) {
	dir, name, err := enter(place)
	if err != nil {
		return found{}, err
	}
	defer dir.Close()
	f, info, err := openRegular(dir, name)
	if err != nil {
		return found{}, err
	}
	if f == nil {
		return found{Kind: kindName(info.Mode())}, nil
	}
	defer f.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, reader{ctx, f})
	if err != nil {
		return found{}, err
	}
	return found{Kind: "file", Size: &size, SHA256: fmt.Sprintf("sha256:%x", sum.Sum(nil))}, nil
}

// reader ends with its context: a file may be of any size.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
