// Package secret keeps what the commands of an agent need to know and nobody else:
// passwords, tokens, keys. Each is a variable of their environment. It lies in a file
// of its own, .mbox/keys/secrets/AGENT/NAME.age, encrypted in the format of age
// (age-encryption.org) and armored; the file's time tells when it was set. What opens
// them is the identity in .mbox/keys/identity, as age-keygen writes one, which is made
// with the first secret. Both are 0600, in folders 0700, where no sandbox reaches. By
// hand:
//
//	age -d -i .mbox/keys/identity .mbox/keys/secrets/coder/API_TOKEN.age
//
// The identity may lie in the user's keyring (agents/secret/keyring) instead. Then the
// file has one line, which names its entry there: keyring:ACCOUNT. [Move] brings it from
// one place to the other.
//
// So a copy of the home without the identity, as mbox backup makes it, tells the names
// and the sizes of secrets and not what they are. Whoever can read both has them: that
// is every process of the user that no sandbox confines.
//
// Who changes something has the lock .mbox/locks/secrets, so that there is one identity
// however many begin at once. Who reads locks nothing: each file is renamed into its
// place. An identity that is lost is never made anew while there are secrets that want
// it, for it may come back.
package secret

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"filippo.io/age"
	"filippo.io/age/armor"

	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// Bounds of secrets. All that an agent may have fits into an environment.
const (
	Least = 6        // bytes of a value: a shorter one stands in words that are none, and could not be hidden in them
	Most  = 16 << 10 // bytes of a value
	Many  = 64       // secrets of an agent
)

var (
	// ErrUnknown says that there is no such secret.
	ErrUnknown = errors.New("unknown secret")
	// ErrIdentity says that the identity cannot be used: it is not there, damaged, or
	// open to others.
	ErrIdentity = errors.New("secrets cannot be opened")
	// ErrDamaged says that a secret is none that the identity opens.
	ErrDamaged = errors.New("this secret cannot be opened")
	// ErrFull says that an agent has as many as it may have.
	ErrFull = errors.New("no more secrets fit")
)

// Secret is what is known of a secret but its value.
type Secret struct {
	Agent string    `json:"agent"`
	Name  string    `json:"name"`
	Set   time.Time `json:"set_at"`
}

const (
	ending   = ".age"
	staged   = ".new" // behind the name of a file that is not in its place yet
	maxFile  = 64 << 10
	maxNames = 1024 // that are looked at in a folder
)

// Folder is where the secrets of an agent lie; of all agents if agent is "".
func Folder(dir, agent string) string { return home.Private(dir, "keys", "secrets", agent) }

func file(dir, agent, name string) string {
	return filepath.Join(Folder(dir, agent), name+ending)
}

var nameForm = schemas.Pattern(`^[A-Z_][A-Z0-9_]{0,127}$`)

// What no secret may be named: what mbox and its sandbox set themselves, and what loaders
// and shells do without being asked.
var (
	taken = []string{
		"PATH", "HOME", "PWD", "OLDPWD", "SHELL", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "SHLVL", "_",
		"IFS", "ENV", "PS4", "PROMPT_COMMAND", "SHELLOPTS",
	}
	takenBy = []string{"MBOX_", "LC_", "LD_", "DYLD_", "BASH"}
)

// CheckName returns an error if a secret cannot have this name.
func CheckName(name string) error {
	switch {
	case !nameForm().MatchString(name):
		return &schemas.Error{
			Path: "name", Code: schemas.CodeBadValue, Problem: schemas.Quote(schemas.Sentence(name, 80)) + " is no name of a secret",
			Want: "that of a variable, such as API_TOKEN: capital letters, digits and _, at most 128",
		}
	case slices.Contains(taken, name), slices.ContainsFunc(takenBy, func(start string) bool { return strings.HasPrefix(name, start) }):
		return &schemas.Error{
			Path: "name", Code: schemas.CodeBadValue, Problem: name + " is a variable that mbox, a shell or a loader sets or heeds itself",
			Want: "another name",
		}
	}
	return nil
}

// checkValue returns an error if a value cannot be in an environment, or not be hidden.
// The error does not tell it.
func checkValue(value string) error {
	problem, want := "", ""
	switch {
	case len(value) < Least:
		problem, want = fmt.Sprintf("has %d bytes", len(value)), fmt.Sprintf("%d or more: a shorter one cannot be told from words in a log, and so not be hidden there", Least)
	case len(value) > Most:
		problem, want = fmt.Sprintf("has more than %d bytes", Most), "a file that the agent may read, for what is so long"
	case strings.ContainsRune(value, 0):
		problem, want = "has a NUL", "text, as base64 is"
	case !utf8.ValidString(value):
		problem, want = "is no UTF-8", "text, as base64 is"
	default:
		return nil
	}
	return &schemas.Error{Path: "value", Code: schemas.CodeBadValue, Problem: problem, Want: want}
}

// Check returns the error with which Set would refuse a secret, and changes nothing. made
// tells whether there is none of that name yet.
func Check(ctx context.Context, dir, agent, name, value string) (made bool, err error) {
	if err := cmp.Or(task.CheckAgent(agent), CheckName(name), checkValue(value)); err != nil {
		return false, err
	}
	names, err := named(dir, agent)
	if err != nil {
		return false, err
	}
	made = !slices.Contains(names, name)
	if made && len(names) >= Many {
		return false, fmt.Errorf("%s has %d secrets: %w", agent, len(names), ErrFull)
	}
	_, err = identities(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = mayMake(dir, err)
	}
	return made, err
}

// Set sets a secret, whatever it was before; made tells whether it was none. Nobody ever
// finds half a one.
func Set(ctx context.Context, dir, agent, name, value string, wait time.Duration) (made bool, err error) {
	err = alone(ctx, dir, wait, func() error {
		if made, err = Check(ctx, dir, agent, name, value); err != nil {
			return err
		}
		to, err := recipient(ctx, dir)
		if err != nil {
			return err
		}
		data, err := seal(value, to)
		if err == nil {
			err = durable.MkdirAll(Folder(dir, agent), durable.Standard)
		}
		if err == nil {
			err = durable.Replace(file(dir, agent, name), data, durable.Standard)
		}
		return err
	})
	return made, err
}

// Remove removes a secret, also one that nobody can open, for good: no power cut brings
// it back. Where there is none the error matches ErrUnknown.
func Remove(ctx context.Context, dir, agent, name string, wait time.Duration) error {
	unknown := fmt.Errorf("%s of %s: %w", schemas.Quote(schemas.Sentence(name, 80)), schemas.Quote(schemas.Sentence(agent, 80)), ErrUnknown)
	if task.CheckAgent(agent) != nil || CheckName(name) != nil {
		return unknown
	}
	return alone(ctx, dir, wait, func() error {
		path := file(dir, agent, name)
		err := durable.Remove(path)
		if errors.Is(err, fs.ErrNotExist) {
			return unknown
		}
		return errors.Join(err, durable.RemoveIfThere(path+staged), syncOf(path))
	})
}

// Rename gives the secrets of an agent to it under another name. It may be said twice, and
// goes on where it was cut off.
func Rename(ctx context.Context, dir, from, to string, wait time.Duration) error {
	if err := cmp.Or(task.CheckAgent(from), task.CheckAgent(to)); err != nil || from == to {
		return err
	}
	return alone(ctx, dir, wait, func() error {
		names, err := named(dir, from)
		if err != nil || len(names) == 0 {
			return err
		}
		err = durable.MkdirAll(Folder(dir, to), durable.Standard)
		for _, name := range names {
			if err == nil {
				err = durable.Rename(file(dir, from, name), file(dir, to, name))
			}
		}
		if err == nil {
			err = durable.SyncDir(Folder(dir, to), durable.Standard)
		}
		if err == nil {
			err = durable.SyncDir(Folder(dir, from), durable.Standard)
		}
		return err
	})
}

func syncOf(path string) error { return durable.SyncDir(filepath.Dir(path), durable.Standard) }

// alone calls do while nobody else changes secrets.
func alone(ctx context.Context, dir string, wait time.Duration, do func() error) error {
	path := home.Private(dir, "locks", "secrets")
	if err := durable.Stage(path, nil, durable.None); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	lock, err := durable.AcquireLock(ctx, path, wait)
	if err != nil {
		return err
	}
	return errors.Join(do(), lock.Unlock())
}

// List returns the secrets of an agent, or of all agents if it is "", by agent and name.
// The error is about those of them that cannot be opened.
func List(ctx context.Context, dir, agent string) (all []Secret, err error) {
	agents := []string{agent}
	if agent == "" {
		if agents, err = folders(dir); err != nil {
			return nil, err
		}
	}
	var faults []error
	keys, locked := []age.Identity(nil), error(nil)
	for _, agent := range agents {
		names, err := named(dir, agent)
		if err != nil {
			return nil, err
		}
		if len(names) > 0 && keys == nil && locked == nil {
			if keys, locked = identities(ctx, dir); locked != nil {
				locked = fmt.Errorf("the secrets of %s: %w", agent, locked)
			}
		}
		for _, name := range names {
			info, err := os.Lstat(file(dir, agent, name))
			if errors.Is(err, fs.ErrNotExist) {
				continue // it was removed meanwhile
			}
			if err != nil {
				return nil, err
			}
			all = append(all, Secret{agent, name, info.ModTime().UTC().Truncate(time.Second)})
		}
		if locked == nil {
			_, err := openAll(dir, agent, names, keys)
			faults = append(faults, err)
		}
	}
	return all, errors.Join(locked, errors.Join(faults...))
}

// Values are the secrets of an agent by their names. However they are printed, logged or
// encoded, they read <redacted>.
type Values map[string]string

const redacted = "<redacted>"

// Format keeps the values out of every verb.
func (Values) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// MarshalText implements [encoding.TextMarshaler].
func (Values) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Environment are the variables, NAME=VALUE, in the order of their names.
func (v Values) Environment() []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(v)) {
		all = append(all, name+"="+v[name])
	}
	return all
}

// Words are what may not stand in a text that is kept: the values, and of a value of
// several lines each line, since logs have lines. The longest comes first, so that of one
// that begins like another nothing is left.
func (v Values) Words() (all []string) {
	for _, value := range v {
		all = append(all, value)
		for line := range strings.Lines(value) {
			if line = strings.TrimRight(line, "\r\n"); line != value && len(line) >= Least {
				all = append(all, line)
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return all
}

// Open reads the secrets of an agent; none is no error. If there is one that cannot be
// opened it returns no others.
func Open(ctx context.Context, dir, agent string) (Values, error) {
	names, err := named(dir, agent)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	keys, err := identities(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("the secrets of %s: %w", agent, err)
	}
	return openAll(dir, agent, names, keys)
}

func openAll(dir, agent string, names []string, keys []age.Identity) (Values, error) {
	values, faults := Values{}, []error(nil)
	for _, name := range names {
		value, err := open(file(dir, agent, name), keys)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was removed meanwhile
		case err != nil:
			faults = append(faults, err)
		default:
			values[name] = value
		}
	}
	if faults != nil {
		return nil, errors.Join(faults...)
	}
	return values, nil
}

// folders are the agents that have a folder for secrets.
func folders(dir string) ([]string, error) {
	names, err := within(Folder(dir, ""))
	return slices.DeleteFunc(names, func(name string) bool { return task.CheckAgent(name) != nil }), err
}

// named are the names of an agent's secrets, in order.
func named(dir, agent string) (names []string, err error) {
	if err := task.CheckAgent(agent); err != nil {
		return nil, err
	}
	files, err := within(Folder(dir, agent))
	for _, f := range files {
		if name, is := strings.CutSuffix(f, ending); is && CheckName(name) == nil {
			names = append(names, name)
		}
	}
	return names, err
}

// within are the names in a folder, sorted; none where there is no folder.
func within(dir string) ([]string, error) {
	d, err := durable.OpenDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(maxNames)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	slices.Sort(names)
	return names, err
}

func seal(value string, to age.Recipient) ([]byte, error) {
	var out bytes.Buffer
	armored := armor.NewWriter(&out)
	w, err := age.Encrypt(armored, to)
	if err == nil {
		_, err = io.WriteString(w, value)
	}
	if err == nil {
		err = w.Close()
	}
	err = errors.Join(err, armored.Close())
	return out.Bytes(), err
}

// open reads a secret. Whatever lies there that none of the keys opens is ErrDamaged.
func open(path string, keys []age.Identity) (string, error) {
	data, err := durable.ReadPrivate(path, maxFile)
	if err != nil {
		return "", unbelieved(err, ErrDamaged)
	}
	r, err := age.Decrypt(armor.NewReader(bytes.NewReader(data)), keys...)
	if err != nil {
		return "", fmt.Errorf("%s: %w: %w", path, ErrDamaged, err)
	}
	value, err := io.ReadAll(io.LimitReader(r, Most+1))
	if err == nil {
		err = checkValue(string(value))
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w: %w", path, ErrDamaged, err)
	}
	return string(value), nil
}

// unbelieved makes what is wrong with a file, and not with the system, the fault as.
func unbelieved(err, as error) error {
	if errors.Is(err, durable.ErrNotPrivate) || errors.Is(err, durable.ErrNotRegular) || errors.Is(err, durable.ErrTooLarge) {
		return fmt.Errorf("%w: %w", as, err)
	}
	return err
}

// mayMake tells whether an identity that is not there, as missing says, may be made: not
// while there are secrets that want it.
func mayMake(dir string, missing error) error {
	locked, err := exists(dir)
	if locked || err != nil {
		return cmp.Or(err, missing)
	}
	return nil
}

// exists tells whether there is a secret of anybody.
func exists(dir string) (bool, error) {
	agents, err := folders(dir)
	for _, agent := range agents {
		if names, err := named(dir, agent); err != nil || len(names) > 0 {
			return true, err
		}
	}
	return false, err
}
