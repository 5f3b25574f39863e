package action

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mbox/agents/policy"
	"mbox/mailbox/durable"
)

// copies is the folder in which mbox keeps the folders that an agent's services
// run with: agents/<agent>/deployed, which no agent may write. Each has its SHA-256
// for its name, so that who deploys the same again finds his containers as they are.
type copies struct {
	path string
	root *os.Root
	held *durable.Lock
	kept []string // the names of those that are used
}

const copiesLock = "lock"

// openCopies opens it for one deployment at a time.
func openCopies(ctx context.Context, env *Env) (*copies, error) {
	c := &copies{path: env.Policy.Deployed()}
	if err := durable.MkdirAll(c.path, env.Sync); err != nil {
		return nil, err
	}
	lock := filepath.Join(c.path, copiesLock)
	if f, err := durable.Create(lock); err == nil {
		f.Close()
	} else if !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	held, err := durable.AcquireLock(ctx, lock, composeTime)
	if err != nil {
		return nil, err
	}
	c.held = held
	if c.root, err = openRoot(c.path); err != nil {
		held.Unlock()
		return nil, err
	}
	return c, nil
}

func (c *copies) close() {
	c.root.Close()
	c.held.Unlock()
}

// bind copies the folders that the approval binds, and gives a project that uses
// the copies. What they hold is compared as it is copied: nothing else than what
// was approved is ever used.
func (c *copies) bind(ctx context.Context, env *Env, project *composeProject) (*composeProject, error) {
	s, left, at := newSeal(ctx), env.Folders, map[string]string{}
	for _, used := range hostPaths(project) {
		from, err := used.open(env.Policy)
		if err != nil {
			return nil, err
		}
		if !used.readOnly {
			from.Close()
			continue
		}
		if len(left) == 0 {
			from.Close()
			return nil, changed(used.path)
		}
		name, err := c.keep(s, from, used.path, left[0])
		if err != nil {
			return nil, err
		}
		at[used.path], left = filepath.Join(c.path, name), left[1:]
	}
	if len(left) > 0 {
		return nil, changed(composeFile)
	}
	return moved(project, at), nil
}

func changed(path string) error {
	return &policy.Denied{
		Rule: "approval_changed", What: "deploy " + path, Why: "what was approved has changed",
		Hint: "mbox retry puts the task back, and mbox approve lets it run as it is then",
	}
}

// keep copies a folder that has to have the SHA-256, and returns the name of the
// copy. One that is there already stays: a container may be using it.
func (c *copies) keep(s *seal, from *os.Root, path, want string) (string, error) {
	temp := ".new-" + rand.Text()
	to, err := c.make(temp)
	if err != nil {
		from.Close()
		return "", err
	}
	defer durable.RemoveIn(c.root, temp)
	defer to.Close()
	sum, err := s.folder(from, path, to)
	if err != nil {
		return "", err
	}
	if sum != want {
		return "", changed(path)
	}
	name := strings.TrimPrefix(sum, "sha256:")
	c.kept = append(c.kept, name)
	if there, err := stepInto(c.root, name); err == nil {
		if have, err := newSeal(s.ctx).folder(there, name, nil); err == nil && have == sum {
			return name, nil
		}
	}
	if err := durable.RemoveIn(c.root, name); err != nil {
		return "", err
	}
	return name, durable.Move(filepath.Join(c.path, temp), filepath.Join(c.path, name))
}

func (c *copies) make(name string) (*os.Root, error) {
	if err := c.root.Mkdir(name, durable.DirMode); err != nil {
		return nil, err
	}
	return c.root.OpenRoot(name)
}

// clear removes the copies that are not used any more. One that cannot be removed
// is tried again by the next deployment.
func (c *copies) clear() {
	all, _ := fs.ReadDir(c.root.FS(), ".")
	for _, e := range all {
		if name := e.Name(); name != copiesLock && !slices.Contains(c.kept, name) {
			_ = durable.RemoveIn(c.root, name)
		}
	}
}

// moved is the project with folders in other places, by their paths.
func moved(project *composeProject, at map[string]string) *composeProject {
	out := *project
	out.Services = map[string]composeService{}
	for name, s := range project.Services {
		if s.Build != nil {
			build := *s.Build
			build.Context = at[filepath.Clean(build.Context)]
			s.Build = &build
		}
		s.Volumes = slices.Clone(s.Volumes)
		for i, v := range s.Volumes {
			if to := at[filepath.Clean(v.Source)]; v.Type == bindMount && v.ReadOnly && to != "" {
				s.Volumes[i].Source = to
			}
		}
		out.Services[name] = s
	}
	return &out
}
