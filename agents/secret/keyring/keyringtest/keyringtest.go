// Package keyringtest runs a keyring for tests: GNOME Keyring on a D-Bus of its own, in a
// temporary folder.
package keyringtest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Missing is what the machine lacks for Start; nil if that is nothing.
func Missing() error {
	for _, program := range []string{"dbus-daemon", "dbus-send", "gnome-keyring-daemon"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is missing: install the packages dbus and gnome-keyring", program)
		}
	}
	return nil
}

// Use has the test use a keyring of its own. Where there can be none the test is skipped,
// and fails in CI.
func Use(t *testing.T) {
	t.Helper()
	err := Missing()
	switch {
	case err != nil && os.Getenv("CI") == "":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "keyring-") // the name of a socket may not be long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	env, stop, err := Start(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
}

// busConfig is a bus on which nothing is started because somebody calls it.
const busConfig = `<busconfig><type>session</type><listen>unix:dir=%s</listen><policy context="default">
<allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`

// Start starts a keyring that keeps its entries in a folder, unlocked or locked, and
// returns the variables by which programs find it. One that was unlocked before can be
// started again locked. No display is there on which it could ask for a password. It ends
// when this process does, however that ends.
func Start(dir string, locked bool) (env []string, stop func(), err error) {
	run := filepath.Join(dir, "run")
	if err := errors.Join(Missing(), os.MkdirAll(run, 0o700)); err != nil {
		return nil, nil, err
	}
	env = []string{"XDG_RUNTIME_DIR=" + run}
	own := append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "DISPLAY=", "WAYLAND_DISPLAY=", env[0])
	config := filepath.Join(dir, "bus.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, busConfig, dir), 0o600); err != nil {
		return nil, nil, err
	}
	out, stopBus, err := guarded(own, "dbus-daemon", "--config-file="+config, "--nofork", "--nopidfile", "--print-address=1")
	if err != nil {
		return nil, nil, err
	}
	address, err := out.ReadString('\n')
	env = append(env, "DBUS_SESSION_BUS_ADDRESS="+strings.TrimSpace(address))
	own = append(own, env...)
	args := []string{"gnome-keyring-daemon", "--foreground", "--components=secrets", "--control-directory=" + run}
	if !locked {
		args = append(args, "--unlock")
	}
	stopKeyring := func() {}
	if err == nil {
		_, stopKeyring, err = guarded(own, args...)
	}
	stop = func() { stopKeyring(); stopBus() }
	if err == nil {
		err = answers(own, locked)
	}
	if err != nil {
		stop()
	}
	return env, stop, err
}

// guarded starts a program that reads the password of the keyring, if anything, and is
// killed when the shell before it reads the end of its input.
func guarded(env []string, args ...string) (out *bufio.Reader, stop func(), err error) {
	const guard = `printf 'the password' | "$@" & pid=$!; read -r line; kill -KILL $pid; wait`
	cmd := exec.Command("/bin/sh", append([]string{"-c", guard, "sh"}, args...)...)
	cmd.Env = env
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	return bufio.NewReader(pipe), func() { in.Close(); _ = cmd.Wait() }, err
}

// answers waits until the keyring is as it is to be.
func answers(env []string, locked bool) error {
	for late := time.Now().Add(20 * time.Second); ; {
		ask := exec.Command("dbus-send", "--session", "--print-reply", "--dest=org.freedesktop.secrets", "/org/freedesktop/secrets/aliases/default",
			"org.freedesktop.DBus.Properties.Get", "string:org.freedesktop.Secret.Collection", "string:Locked")
		ask.Env = env
		out, err := ask.CombinedOutput()
		if strings.Contains(string(out), fmt.Sprintf("boolean %v", locked)) {
			return nil
		}
		if time.Now().After(late) {
			return fmt.Errorf("the keyring does not answer: %w\n%s", err, out)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
