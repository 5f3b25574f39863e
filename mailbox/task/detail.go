package task

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"mbox/audit"
)

// Digest is a SHA-256 without its prefix.
type Digest [32]byte

// DigestOf reads "sha256:<64 hex>"; anything else is zero.
func DigestOf(hash string) (d Digest) {
	text, ok := strings.CutPrefix(hash, "sha256:")
	if ok && len(text) == 2*len(d) {
		hex.Decode(d[:], []byte(text))
	}
	return d
}

func (d Digest) String() string { return "sha256:" + hex.EncodeToString(d[:]) }

// StateIn reads a state; missing or null is None.
func StateIn(value []byte) (s State, ok bool) {
	switch string(value) {
	case "", "null":
		return None, true
	case `"pending"`:
		return Pending, true
	case `"in-progress"`:
		return InProgress, true
	case `"completed"`:
		return Completed, true
	case `"failed"`:
		return Failed, true
	case `"archive"`:
		return Archived, true
	case `"pruned"`:
		return Pruned, true
	}
	return None, false
}

// FolderName is the state's folder, in words.
func FolderName(s State) string { return cmp.Or(string(s), "nowhere") }

// NumberIn reads an integer; 0 for anything else.
func NumberIn(value []byte) int64 {
	n := int64(0)
	for _, c := range value {
		if c < '0' || c > '9' || len(value) > 16 {
			n, _ = strconv.ParseInt(string(value), 10, 64)
			return n
		}
		n = 10*n + int64(c-'0')
	}
	return n
}

// IsNumber tells whether a JSON value is a number that is not negative.
func IsNumber(value []byte) bool { return len(value) > 0 && value[0] >= '0' && value[0] <= '9' }

// IsText tells whether a JSON value is a string.
func IsText(value []byte) bool { return len(value) > 0 && value[0] == '"' }

// TextOf decodes a JSON string; "" for anything else.
func TextOf(value []byte) string {
	var s string
	if !IsText(value) || json.Unmarshal(value, &s) != nil {
		return ""
	}
	return s
}

// DigestIn reads "sha256:<64 hex>".
func DigestIn(value []byte) (d Digest, ok bool) {
	const prefix = `"sha256:`
	if len(value) != len(prefix)+2*len(d)+1 || string(value[:len(prefix)]) != prefix {
		return d, false
	}
	return d, audit.Unhex(d[:], value[len(prefix):])
}

// TxIn reads 32 hex digits.
func TxIn(value []byte) (tx [16]byte, ok bool) {
	if len(value) != 2*len(tx)+2 || value[0] != '"' {
		return tx, false
	}
	return tx, audit.Unhex(tx[:], value[1:])
}

// IsPlain tells whether it is one without escapes.
func IsPlain(value []byte) bool { return IsText(value) && bytes.IndexByte(value, '\\') < 0 }

// PlainIn reads a string without escapes.
func PlainIn(value []byte) ([]byte, bool) {
	if !IsPlain(value) {
		return nil, false
	}
	return value[1 : len(value)-1], true
}

// IntIn reads an integer in the one way to write it.
func IntIn(value []byte) (int64, bool) {
	digits := bytes.TrimPrefix(value, []byte{'-'})
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	return NumberIn(value), len(digits) > 0 && len(digits) <= 16
}

// MillisIn reads a time as mbox writes it, with up to three decimals.
func MillisIn(value []byte) (int64, bool) {
	text, ok := PlainIn(value)
	if !ok || len(text) < len("2006-01-02T15:04:05Z") || text[len(text)-1] != 'Z' {
		return 0, false
	}
	ts := [...]byte{19: '.', '0', '0', '0', 'Z'}
	if n := len(text) - 1; n > 19 && (n < 21 || n > 23) {
		return 0, false
	}
	copy(ts[:23], text[:len(text)-1])
	at, ok := audit.ParseTime(ts[:])
	return at.UnixMilli(), ok && at.Year() > 0
}
