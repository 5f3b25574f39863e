package brain

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"mbox/mailbox/durable"
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
		// The name may be a link to where a system keeps its secrets.
		real, err := filepath.EvalSymlinks(file)
		if err != nil {
			return "", fmt.Errorf("the key's file: %w", err)
		}
		text, err := durable.ReadPrivate(real, maxKey)
		if err != nil {
			return "", fmt.Errorf("the key's file: %w", err)
		}
		return asKey(string(text), "the key's file "+file)
	case variable != "":
		text := env(variable)
		if text == "" {
			return "", fmt.Errorf("the key's variable %s is not set", variable)
		}
		return asKey(text, "the key's variable "+variable)
	}
	return "", nil
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
