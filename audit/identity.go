package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox/durable"
)

var (
	// ErrNoIdentity says that no line of the ledger tells which mailbox it is of.
	ErrNoIdentity = errors.New("the ledger does not say which mailbox it is of")
	// ErrUnnamed is that of a ledger with its beginning, which was written before
	// lines told it: somebody may name the id, and the first line proves it.
	ErrUnnamed = fmt.Errorf("%w, for it is older than that", ErrNoIdentity)
	// ErrOther says that the id that somebody names is not the ledger's.
	ErrOther = errors.New("the ledger is that of another mailbox")
)

// signed adds the mailbox's id to the details of a file's first line.
func signed(details jsontext.Value, id string) jsontext.Value {
	fields := map[string]jsontext.Value{}
	if len(details) > 0 && (&Entry{Details: details}).Detail(&fields) != nil {
		return details // encode says what is wrong with them
	}
	fields["mailbox_id"] = Details(id)
	return Details(fields)
}

// Identity is the id of the mailbox whose ledger lies in the home, from the
// ledger alone: the newest file that names one, or named, if somebody knows it. It
// is proven by the genesis, which the first line is chained on; where that line is
// not the first that was ever written, the ledger has lost its beginning.
func Identity(home, named string) (string, error) {
	files, err := dayFiles(sharedDir(home))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	first, id := Line{}, ""
	for i, name := range files {
		line, says, err := beginning(filepath.Join(sharedDir(home), name))
		if err != nil {
			return "", err
		}
		if i == 0 {
			first = line
		}
		if says != "" {
			id = says
		}
	}
	switch {
	case id == "" && first.Seq != 1:
		return "", ErrNoIdentity
	case id == "" && named == "":
		return "", ErrUnnamed
	case id == "" && first.At.Checksum == Genesis(named):
		return named, nil
	case named != "" && id != named:
		return "", fmt.Errorf("%w than %s", ErrOther, named)
	}
	if first.At.Checksum != Genesis(id) {
		return id, fmt.Errorf("%w: audit/shared/%s begins with seq %d, which is not the first line of mailbox %s", ErrDamaged, files[0], first.Seq, id)
	}
	return id, nil
}

// beginning is the first whole line of a day's file, and the mailbox's id that
// one of its first lines names.
func beginning(path string) (first Line, id string, err error) {
	f, _, err := durable.OpenRegular(path)
	if err != nil {
		return first, "", err
	}
	defer f.Close()
	day := &dayReader{file: f}
	for tries := 0; tries < 100 && id == ""; tries++ { // bytes that were set aside stand before it, if anything
		p, err := day.peek()
		if err != nil || p.size == 0 {
			return first, "", err
		}
		line := Line{Raw: p.raw}
		if seq, prev, sum, bad := skim(p.raw); bad == nil && line.Sound() == nil {
			if id = line.Text("mailbox_id"); first.Seq == 0 {
				first = Line{Raw: bytes.Clone(p.raw), Seq: seq, Checksum: sum, At: Position{Checksum: prev}}
			}
		}
		day.step(p)
	}
	return first, id, nil
}
