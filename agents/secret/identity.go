package secret

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"

	"mbox/agents/secret/keyring"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

// Where an identity may lie.
const (
	InFile    = "file"
	InKeyring = "keyring"
)

// ErrKeyring says that the identity lies in a keyring that cannot be used, or is to.
var ErrKeyring = keyring.ErrUnreachable

// ring is where identities lie that are in no file. A test has another one.
var ring interface {
	Get(ctx context.Context, account string) (string, error)
	Set(ctx context.Context, account, text string) error
	Delete(ctx context.Context, account string) error
} = keyring.System{}

const (
	maxIdentity = 16 << 10
	pointing    = "keyring:" // how the file begins while the identity lies in the keyring
)

// IdentityFile is where the identity lies, from the home.
const IdentityFile = ".mbox/keys/identity"

// Identity is the file that opens the secrets of a mailbox, or names what does.
func Identity(dir string) string { return filepath.Join(dir, IdentityFile) }

var accountForm = schemas.Pattern(`^[0-9a-f]{32}$`)

// Place is where an identity lies.
type Place struct {
	In      string `json:"in"`                // InFile or InKeyring
	File    string `json:"file,omitempty"`    // in the file
	Service string `json:"service,omitempty"` // in the keyring: with the account its entry
	Account string `json:"account,omitempty"`
}

// String tells it to people.
func (p Place) String() string {
	if p.In == InKeyring {
		return "in the keyring (service " + p.Service + ", account " + p.Account + ")"
	}
	return "in " + p.File
}

// Where tells where the identity lies. An error that matches [fs.ErrNotExist] says that
// there is none, any other that it cannot be used.
func Where(ctx context.Context, dir string) (Place, error) {
	text, at, err := read(ctx, dir)
	if err == nil {
		_, err = parse(text, at)
	}
	return at, err
}

// Carry is what a backup has in the place of the identity's file: nothing, or what names
// the entry of the keyring; with keys the identity itself, wherever it lies.
func Carry(ctx context.Context, dir string, keys bool) ([]byte, error) {
	if !keys {
		if text, at, err := readFile(dir); err == nil && at.In == InKeyring {
			return text, nil
		}
		return nil, nil
	}
	text, _, err := read(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return text, err
}

// identities reads what opens secrets.
func identities(ctx context.Context, dir string) ([]age.Identity, error) {
	text, at, err := read(ctx, dir)
	if err != nil {
		return nil, err
	}
	return parse(text, at)
}

func parse(text []byte, at Place) ([]age.Identity, error) {
	keys, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%w: what lies %v is damaged: it holds no identity as age-keygen writes one", ErrIdentity, at) // age's error may quote the line
	}
	return keys, nil
}

// read reads the identity from where it lies.
func read(ctx context.Context, dir string) ([]byte, Place, error) {
	text, at, err := readFile(dir)
	if err != nil || at.In == InFile {
		return text, at, err
	}
	entry, err := ring.Get(ctx, at.Account)
	if errors.Is(err, keyring.ErrUnknown) {
		if text, now, again := readFile(dir); again == nil && now.In == InFile {
			return text, now, nil // it was brought back meanwhile
		}
	}
	if err != nil {
		return nil, at, fmt.Errorf("%w: it lies %v: %w", ErrIdentity, at, err)
	}
	return []byte(entry), at, nil
}

// readFile reads the file of the identity.
func readFile(dir string) ([]byte, Place, error) {
	at := Place{In: InFile, File: Identity(dir)}
	text, err := durable.ReadPrivate(at.File, maxIdentity)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, at, fmt.Errorf("%w: there is no %s: %w", ErrIdentity, at.File, fs.ErrNotExist)
	}
	if err != nil {
		return nil, at, unbelieved(err, ErrIdentity)
	}
	if entry, is := strings.CutPrefix(string(text), pointing); is {
		at = Place{In: InKeyring, Service: keyring.Service, Account: strings.TrimSpace(entry)}
		if !accountForm().MatchString(at.Account) {
			return nil, at, fmt.Errorf("%w: %s is damaged: it names no entry of a keyring", ErrIdentity, Identity(dir))
		}
	}
	return text, at, nil
}

// recipient is for whom secrets are encrypted: who has the identity, which is made where
// there is none. That may only be after Check.
func recipient(ctx context.Context, dir string) (age.Recipient, error) {
	text, at, err := read(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = generate(ctx, dir, at)
	}
	if err != nil {
		return nil, err
	}
	keys, err := parse(text, at)
	if err != nil {
		return nil, err
	}
	switch key := keys[0].(type) {
	case *age.X25519Identity:
		return key.Recipient(), nil
	case *age.HybridIdentity:
		return key.Recipient(), nil
	}
	return nil, fmt.Errorf("%w: the first one in %s is of a kind for which nothing can be encrypted", ErrIdentity, Identity(dir))
}

// fresh is a new identity, as age-keygen writes one.
func fresh() ([]byte, error) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "# created: %s\n# public key: %s\n%s\n", time.Now().UTC().Format(time.RFC3339), key.Recipient(), key), nil
}

// generate makes the identity, in the keyring where the one that is lost was. What somebody
// puts into the place of its file meanwhile stays.
func generate(ctx context.Context, dir string, at Place) ([]byte, error) {
	text, err := fresh()
	if err != nil {
		return nil, err
	}
	if at.In == InKeyring {
		return text, place(ctx, dir, InKeyring, account(dir, text), text, func() error { return nil })
	}
	path := Identity(dir)
	err = durable.MkdirAll(filepath.Dir(path), durable.Standard)
	if err == nil {
		err = durable.RemoveIfThere(path + staged)
	}
	if err == nil {
		err = durable.Stage(path+staged, text, durable.Standard)
	}
	if err == nil {
		err = durable.Move(path+staged, path)
	}
	if err == nil {
		err = syncOf(path)
	}
	if err != nil {
		return nil, errors.Join(err, durable.RemoveIfThere(path+staged))
	}
	return text, nil
}

// Moved is what became of moving an identity.
type Moved struct {
	Moved bool   // it did not lie there already
	Left  string // the account of an entry that stays in the keyring: another home may need it
}

// Move brings the identity to where it is to lie, InFile or InKeyring, and makes it there
// if there is none and no secret wants it. Before it lies there, and when nothing else is
// in the way, agreed is called, whose error stops it.
//
// The file is replaced in one step, and what it then names can be read before that:
// wherever this is cut off, the identity is where the file says. An entry of the keyring
// that is not needed any more may stay; said again, Move removes it.
func Move(ctx context.Context, dir, to string, wait time.Duration, agreed func() error) (m Moved, err error) {
	err = alone(ctx, dir, wait, func() error {
		text, at, err := read(ctx, dir)
		if errors.Is(err, fs.ErrNotExist) {
			if err = mayMake(dir, err); err == nil {
				text, err = fresh()
			}
			at.In = "" // nowhere
		}
		if err == nil {
			_, err = parse(text, at)
		}
		if err != nil {
			return err
		}
		entry := account(dir, text)
		if m.Moved = at.In != to; m.Moved {
			err = place(ctx, dir, to, entry, text, agreed)
		}
		if err == nil && to == InFile {
			err = forget(ctx, entry, m.Moved)
			if at.Account != entry {
				m.Left = at.Account
			}
		}
		return err
	})
	return m, err
}

// place has the file say where the identity is, when it is there.
func place(ctx context.Context, dir, to, entry string, text []byte, agreed func() error) error {
	says := text
	if to == InKeyring {
		if err := keep(ctx, entry, text); err != nil {
			return err
		}
		says = []byte(pointing + entry + "\n")
	}
	err := agreed()
	if err == nil {
		err = durable.MkdirAll(filepath.Dir(Identity(dir)), durable.Standard)
	}
	if err == nil {
		err = durable.Replace(Identity(dir), says, durable.Standard)
	}
	return err
}

// keep puts an identity into the keyring, and looks whether it is there.
func keep(ctx context.Context, account string, text []byte) error {
	if err := ring.Set(ctx, account, string(text)); err != nil {
		return err
	}
	kept, err := ring.Get(ctx, account)
	if err == nil && kept != string(text) {
		err = fmt.Errorf("%w: it gives back something else than it was given", ErrKeyring)
	}
	return err
}

// forget takes an identity out of the keyring that lies in the file. Where no keyring can
// be used, and none was, none has it.
func forget(ctx context.Context, account string, moved bool) error {
	err := ring.Delete(ctx, account)
	if err == nil || errors.Is(err, ErrKeyring) && !moved {
		return nil
	}
	return fmt.Errorf("it lies in the file, and stays in the keyring, too (account %s): %w", account, err)
}

// account is the entry of an identity in the keyring. It is another one for each identity
// and each home, so that none is lost for another, and no copy of a home takes away what
// the home needs.
func account(dir string, text []byte) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	sum := sha256.Sum256(append([]byte(dir+"\x00"), text...))
	return fmt.Sprintf("%x", sum[:16])
}
