// Package keyring keeps small texts in the keyring of the user: on Linux what answers as
// Secret Service on the D-Bus of the session (GNOME Keyring, KWallet, KeePassXC), on macOS
// the Keychain. An entry has the service mbox and an account, by which secret-tool and
// security find it, too.
//
// A keyring that is locked asks the person who is at the desktop, and answers when that
// is done. Nobody is waited for longer than the patience of a call. One call at a time is
// under way in a process, so that however many want something, one question is asked.
package keyring

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/zalando/go-keyring"
)

// Service is what all entries have in common.
const Service = "mbox"

// patience is how long a call waits for an answer: time to type a password.
const patience = 20 * time.Second

var (
	// ErrUnknown says that the keyring has no such entry. It matches [fs.ErrNotExist].
	ErrUnknown = fmt.Errorf("the keyring has no such entry: %w", fs.ErrNotExist)
	// ErrUnreachable says that there is no keyring, or that it stays locked.
	ErrUnreachable = errors.New("no keyring can be used")
)

// System is the keyring of the user.
type System struct{}

// Get returns the text of an account.
func (System) Get(ctx context.Context, account string) (string, error) {
	return call(ctx, patience, func() (string, error) { return keyring.Get(Service, account) })
}

// Set gives an account a text, whatever it had.
func (System) Set(ctx context.Context, account, text string) error {
	_, err := call(ctx, patience, func() (string, error) { return "", keyring.Set(Service, account, text) })
	return err
}

// Delete takes an entry away; there may be none.
func (System) Delete(ctx context.Context, account string) error {
	_, err := call(ctx, patience, func() (string, error) { return "", keyring.Delete(Service, account) })
	if errors.Is(err, ErrUnknown) {
		return nil
	}
	return err
}

// turn is had by the call that is under way.
var turn = make(chan struct{}, 1)

// call does what no context ends. It is left behind when its time is over: it holds its
// turn until it is answered.
func call(ctx context.Context, most time.Duration, do func() (string, error)) (string, error) {
	if err := session(); err != nil {
		return "", err
	}
	late := fmt.Errorf("%w: it has not answered in %v, as one that is locked does", ErrUnreachable, most)
	ctx, cancel := context.WithTimeoutCause(ctx, most, late)
	defer cancel()
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	type answer struct {
		text string
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		text, err := do()
		<-turn
		answered <- answer{text, err}
	}()
	select {
	case a := <-answered:
		return a.text, meaning(a.err)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// meaning tells what an error of the library is about.
func meaning(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, keyring.ErrNotFound):
		return ErrUnknown
	case errors.Is(err, keyring.ErrSetDataTooBig):
		return fmt.Errorf("%w: it takes no text as long as this", ErrUnreachable)
	case strings.HasPrefix(err.Error(), "failed to unlock"):
		return fmt.Errorf("%w: it is locked, and was not unlocked", ErrUnreachable)
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// session looks for a D-Bus before the library does, which would start one.
func session() error {
	if runtime.GOOS != "linux" {
		return nil
	}
	if at := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); at != "" && !strings.HasPrefix(at, "autolaunch:") {
		return nil
	}
	folder := fmt.Sprintf("/run/user/%d", os.Getuid())
	for _, name := range []string{"/bus", "/dbus-session"} {
		if _, err := os.Stat(folder + name); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: there is no D-Bus session: DBUS_SESSION_BUS_ADDRESS is not set, and %s/bus is not there", ErrUnreachable, folder)
}
