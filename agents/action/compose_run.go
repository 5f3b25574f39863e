package action

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"mbox/agents/policy"
	"mbox/schemas"
)

const (
	composeTime = 10 * time.Minute // images may have to be fetched
	composeLog  = 8 << 10          // bytes of docker's words that are kept, from the end
)

// run writes what was checked into the workspace and has docker start it, with
// copies of what was approved.
func (d *deployment) run(ctx context.Context, env *Env, project *composeProject) (status, problem string, err error) {
	place, err := env.Policy.Write(composeFile)
	if err != nil {
		return "", "", err
	}
	if err := noSettings(place); err != nil {
		return "", "", err
	}
	ctx, cancel := context.WithTimeout(ctx, composeTime)
	defer cancel()
	copies, err := openCopies(ctx, env)
	if err != nil {
		return "", "", err
	}
	defer copies.close()
	if project, err = copies.bind(ctx, env, project); err != nil {
		return "", "", err
	}
	// Not the text that came in: docker might understand it in another way.
	text, err := project.text()
	if err != nil {
		return "", "", err
	}
	if err := put(place, text, env.Sync); err != nil {
		return "", "", err
	}
	log := &schemas.Tail{Most: composeLog}
	err = dockerUp(ctx, filepath.Dir(filepath.Join(place.Root, place.Rel)), text, d.Project, log)
	d.Log = strings.ToValidUTF8(log.String(), "\ufffd")
	if err == nil {
		copies.clear()
		return "deployed", "", nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return "failed", "docker compose: " + schemas.Sentence(err.Error(), 200) + lastWords(d.Log), nil
}

// lastWords is the last line of docker's log: in it stands why it gave up.
func lastWords(log string) string {
	log = strings.TrimSpace(log)
	if log == "" {
		return ""
	}
	return ": " + schemas.Sentence(log[strings.LastIndexByte(log, '\n')+1:], 300)
}

// open opens a folder that the file names. It has to be there (docker would make it
// as root), directly in the workspace, behind no symlink.
func (h hostPath) open(p *policy.Policy) (*os.Root, error) {
	ask := p.Write
	if h.readOnly {
		ask = p.Read
	}
	place, err := ask(h.path)
	if err != nil {
		return nil, err
	}
	if file, err := p.Write(composeFile); err != nil || place.Root != file.Root {
		return nil, denied("compose_mount", h.path, "it is not below the workspace")
	}
	if place.Rel != h.path {
		return nil, throughLink(h.path)
	}
	dir, name, err := enter(place)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	info, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode(); !mode.IsDir() && mode&fs.ModeSymlink == 0 {
		return nil, denied("compose_mount", h.path, "it is a "+kindName(mode)+", not a folder")
	}
	return stepInto(dir, name)
}

// noSettings sees that no .env lies beside the file, from which docker compose takes
// settings.
func noSettings(file policy.Place) error {
	dir, _, err := enter(file)
	if err != nil {
		return err
	}
	defer dir.Close()
	if _, err := dir.Lstat(".env"); !errors.Is(err, fs.ErrNotExist) {
		return denied("compose_env", ".env", "docker compose would take settings from it")
	}
	return nil
}

// dockerUp runs docker compose with fixed arguments, without a shell, and with no
// more of the environment than it needs to find itself and the engine. It gets
// the text that was checked on its standard input, and no file of settings: what
// lies in the workspace, anybody who may write there could change in between.
func dockerUp(ctx context.Context, dir string, text []byte, project string, log *schemas.Tail) error {
	cmd := exec.CommandContext(ctx, "docker", "compose", "-f", "-", "--project-directory", dir,
		"--env-file", os.DevNull, "-p", project, "up", "-d", "--wait")
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(text)
	cmd.Env = []string{}
	for _, name := range []string{"PATH", "HOME", "DOCKER_HOST"} {
		if value, set := os.LookupEnv(name); set {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the plug-in is a child of docker
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	return cmd.Run()
}
