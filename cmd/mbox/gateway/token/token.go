// Package token keeps the tokens of the doors: who may come in, and as what.
//
// A token is a secret of 256 random bits that mbox makes and shows once. What is
// kept is its SHA-256, which needs no salt: nobody can try so many. Each token is a
// file of its own, .mbox/keys/tokens/NAME.json, 0600:
//
//	{
//	  "name": "phone",
//	  "role": "agent",
//	  "agent": "coder",
//	  "created_at": "2026-02-16T10:30:00Z",
//	  "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
//	}
//
// agent stands there for the role agent alone. A token counts as long as its file is
// there: a [Store] keeps nothing, so one that was made or revoked counts, or not, from
// that moment on. A file that is no whole token, that others can read or change, or
// that says another name than it bears is damaged: it lets nobody in, and keeps nobody
// out who has another token.
//
// Nothing is locked. A file is staged beside its place, as NAME.<random>.new, which
// counts for nothing, and renamed into it, which replaces no file. So who reads sees
// it whole or not at all, and of two who make a token of one name only one does. What
// a crash has left staged, the next token of that name removes.
package token

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// Role says what who shows a token may do.
type Role string

// The roles, each of which may do what the one before it may.
const (
	Reader   Role = "reader"   // look
	Agent    Role = "agent"    // and do what the agent may that the token names
	Operator Role = "operator" // what a person may at the command line
)

// Roles are the names of all there are.
var Roles = []string{string(Reader), string(Agent), string(Operator)}

// Token is what is known of a token but its secret.
type Token struct {
	Name    string    `json:"name"`
	Role    Role      `json:"role"`
	Agent   string    `json:"agent,omitzero"` // whom it speaks for; only of the role agent
	Created time.Time `json:"created_at"`
}

var (
	// ErrUnknown says that there is no such token.
	ErrUnknown = errors.New("unknown token")
	// ErrExists says that the name of a token is taken.
	ErrExists = errors.New("there is one of that name")
	// ErrDamaged says that a file in the folder of the tokens is none that counts.
	ErrDamaged = errors.New("no token that counts")
)

const (
	most     = 256  // files, where no more tokens are made
	maxNames = 1024 // names that are looked at
	maxFile  = 4096 // bytes of a token's file

	prefix = "mbox_" // of a secret, so that people and scanners know it for one
	random = 32      // bytes

	staged = ".new" // what the names of staged files end in
)

// entry is what a token's file holds.
type entry struct {
	Token
	SHA256 string `json:"sha256"` // of the secret, with its prefix
	sum    []byte
}

// Folder is where a mailbox keeps its tokens. It is made with the first one.
func Folder(mailbox string) string { return home.Private(mailbox, "keys", "tokens") }

func file(mailbox, name string) string { return filepath.Join(Folder(mailbox), name+".json") }

// check returns an error if there can be no such token.
func (t *Token) check() error {
	if task.CheckAgent(t.Name) != nil {
		return bad("name", fmt.Sprintf("%s is no name of a token", schemas.Quote(t.Name)), "a name as agents have, such as phone")
	}
	switch t.Role {
	case Agent:
		if err := task.CheckAgent(t.Agent); err != nil {
			return err
		}
	case Reader, Operator:
		if t.Agent != "" {
			return bad("agent", "a token of the role "+string(t.Role)+" speaks for no agent", "the role agent")
		}
	default:
		return bad("role", schemas.Quote(string(t.Role))+" is no role", strings.Join(Roles, ", "))
	}
	return nil
}

func bad(path, problem, want string) error {
	return &schemas.Error{Path: path, Code: schemas.CodeBadValue, Problem: problem, Want: want}
}

// Vacant returns an error if Create could not make such a token.
func Vacant(mailbox, name string, role Role, agent string) error {
	t := Token{Name: name, Role: role, Agent: agent}
	if err := t.check(); err != nil {
		return err
	}
	names, err := names(Folder(mailbox))
	switch {
	case err != nil:
		return err
	case slices.Contains(names, name+".json"):
		return fmt.Errorf("token %s: %w", name, ErrExists)
	case len(names) >= most:
		return fmt.Errorf("%s: %d files lie here, and no more tokens are made", Folder(mailbox), len(names))
	}
	return nil
}

// Create makes a token, which counts when Create returns, and returns its secret,
// which nobody can find out any more afterwards. On an error nobody has a secret that
// counts.
func Create(mailbox, name string, role Role, agent string) (secret string, t Token, err error) {
	if err := Vacant(mailbox, name, role, agent); err != nil {
		return "", Token{}, err
	}
	bits := make([]byte, random)
	rand.Read(bits) // never fails (crypto/rand)
	secret = prefix + base64.RawURLEncoding.EncodeToString(bits)
	t = Token{Name: name, Role: role, Agent: agent, Created: time.Now().UTC().Truncate(time.Second)}
	data, err := schemas.Encode(entry{Token: t, SHA256: hex.EncodeToString(hash(secret))})
	if err == nil {
		err = durable.MkdirAll(Folder(mailbox), durable.Standard)
	}
	if err == nil {
		err = put(Folder(mailbox), name, data)
	}
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) { // another one was first, or has removed what was staged
		err = fmt.Errorf("token %s: %w", name, ErrExists)
	}
	if err != nil {
		return "", Token{}, err
	}
	return secret, t, nil
}

// put makes the file of a token that is not there yet.
func put(dir, name string, data []byte) error {
	path, temp := filepath.Join(dir, name+".json"), filepath.Join(dir, name+"."+home.RandomHex(16)+staged)
	err := durable.Stage(temp, data, durable.Standard)
	if err == nil {
		err = durable.Move(temp, path)
	}
	if err != nil {
		return errors.Join(err, durable.RemoveIfThere(temp))
	}
	if err := durable.SyncDir(dir, durable.Standard); err != nil {
		return errors.Join(err, durable.RemoveIfThere(path))
	}
	left, _ := durable.Names(dir) // the token counts, whatever goes wrong from here on
	for _, other := range left {
		if strings.HasPrefix(other, name+".") && strings.HasSuffix(other, staged) {
			_ = durable.RemoveIfThere(filepath.Join(dir, other)) // who staged it comes too late
		}
	}
	return nil
}

// Revoke ends a token, whole or damaged, for good: when it returns nil, no power
// cut brings the token back. Where there is none the error matches ErrUnknown.
func Revoke(mailbox, name string) error {
	if task.CheckAgent(name) != nil {
		return fmt.Errorf("%s: %w", schemas.Quote(name), ErrUnknown)
	}
	err := durable.Remove(file(mailbox, name))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("token %s: %w", name, ErrUnknown)
	}
	if err == nil {
		err = durable.SyncDir(Folder(mailbox), durable.Standard)
	}
	return err
}

// List returns all tokens that count, by name, and with them an error about the
// files that do not: ErrDamaged, unless the system has failed.
func List(mailbox string) ([]Token, error) {
	entries, err := read(Folder(mailbox))
	var out []Token
	for _, e := range entries {
		out = append(out, e.Token)
	}
	return out, err
}

// Store answers whose a secret is. It keeps nothing, and may be asked by many at
// once.
type Store struct{ dir string }

// Open returns the store of a mailbox. It reads nothing yet.
func Open(mailbox string) *Store { return &Store{Folder(mailbox)} }

// Find returns the token whose secret this is. Where there is none the error
// matches ErrUnknown, and tells of damaged files as well: it is for a log, not for
// who asks. Any other error says that the tokens could not be read. How long it
// takes does not tell how near the secret is to a right one.
func (s *Store) Find(secret string) (Token, error) {
	if len(secret) != len(prefix)+base64.RawURLEncoding.EncodedLen(random) || !strings.HasPrefix(secret, prefix) {
		return Token{}, ErrUnknown
	}
	entries, err := read(s.dir)
	sum, found := hash(secret), -1
	for i, e := range entries {
		if subtle.ConstantTimeCompare(e.sum, sum) == 1 {
			found = i
		}
	}
	if found >= 0 {
		return entries[found].Token, nil
	}
	if err == nil || errors.Is(err, ErrDamaged) {
		err = errors.Join(ErrUnknown, err)
	}
	return Token{}, err
}

func hash(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// read reads all tokens that count, by name. The error is about the other files; it
// is ErrDamaged only if the system could read all of them.
func read(dir string) (entries []entry, err error) {
	names, err := names(dir)
	if err != nil {
		return nil, err
	}
	var damaged, unread []error
	if len(names) > maxNames {
		damaged = append(damaged, fmt.Errorf("%s: %w: more than %d files lie here", dir, ErrDamaged, maxNames))
		names = names[:maxNames]
	}
	for _, name := range names {
		switch e, err := readEntry(filepath.Join(dir, name)); {
		case err == nil:
			entries = append(entries, e)
		case errors.Is(err, fs.ErrNotExist): // it was revoked meanwhile
		case errors.Is(err, ErrDamaged):
			damaged = append(damaged, err)
		default:
			unread = append(unread, err)
		}
	}
	if unread != nil {
		return entries, errors.Join(unread...)
	}
	return entries, errors.Join(damaged...)
}

// names are those of the files in the folder but staged ones, sorted, one more than
// maxNames at most; none where there is no folder.
func names(dir string) ([]string, error) {
	d, err := durable.OpenDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(maxNames + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, staged) })
	slices.Sort(names)
	return names, err
}

// readEntry reads one file. It is ErrDamaged if it is none of a token, or not to
// be believed.
func readEntry(path string) (e entry, err error) {
	name, is := strings.CutSuffix(filepath.Base(path), ".json")
	if !is || task.CheckAgent(name) != nil {
		return e, fmt.Errorf("%s: %w: it has no name of a token", path, ErrDamaged)
	}
	data, err := durable.ReadPrivate(path, maxFile)
	if unbelieved(err) {
		return e, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return e, err
	}
	if err = schemas.Decode(data, &e); err == nil {
		err = e.check()
	}
	if err == nil && e.Name != name {
		err = fmt.Errorf("it is of the token %s", e.Name)
	}
	if err == nil {
		e.sum, err = hex.DecodeString(e.SHA256)
	}
	if err == nil && len(e.sum) != sha256.Size {
		err = errors.New("sha256 is none")
	}
	if err != nil {
		return entry{}, fmt.Errorf("%s: %w: %w", path, ErrDamaged, err)
	}
	return e, nil
}

// unbelieved tells whether an error is about the file, and not about the system.
func unbelieved(err error) bool {
	for _, no := range []error{durable.ErrNotPrivate, durable.ErrNotRegular, durable.ErrTooLarge, fs.ErrPermission} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}
