package brain

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// Key is a secret that a server wants. However it is printed, logged or encoded,
// it reads <redacted>.
type Key string

const redacted = "<redacted>"

func (Key) String() string               { return redacted }
func (Key) GoString() string             { return redacted }
func (Key) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Format keeps the key out of every verb, %q and %x too.
func (Key) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

const maxKey = 4096

// ReadKey reads a key from a file that nobody but its owner can read, or else
// from the environment variable. A name that is "" is not looked at; with both
// "" there is no key.
func ReadKey(file, variable string, env func(string) string) (Key, error) {
	switch {
	case file != "":
		text, err := keyFile(file)
		if err != nil {
			return "", fmt.Errorf("the key's file %s: %w", file, err)
		}
		return asKey(text, "the key's file "+file)
	case variable != "":
		text := env(variable)
		if text == "" {
			return "", fmt.Errorf("the key's variable %s is not set", variable)
		}
		return asKey(text, "the key's variable "+variable)
	}
	return "", nil
}

// keyFile looks at what it has opened, and waits for no FIFO.
func keyFile(name string) (string, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", errors.Unwrap(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return "", errors.New("it is no regular file")
	case known && owner.Uid != 0 && int(owner.Uid) != os.Geteuid():
		return "", fmt.Errorf("it belongs to user %d, who can change it", owner.Uid)
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("others can read it (mode %04o): chmod 600", info.Mode().Perm())
	case info.Size() > maxKey:
		return "", fmt.Errorf("it has %d bytes: a key has at most %d", info.Size(), maxKey)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxKey))
	return string(data), err
}

// asKey refuses what cannot stand in a header, without repeating it.
func asKey(text, where string) (Key, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return "", fmt.Errorf("%s is empty", where)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s holds more than one word of printable ASCII", where)
	}
	return Key(text), nil
}

// scrub makes a server's words fit for an error, without the key.
func (k Key) scrub(text string) string {
	if k != "" {
		text = strings.ReplaceAll(text, string(k), redacted)
	}
	return line(text)
}
