package audit

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// TestUnhex tries every byte at every place of a word, and behind the last whole
// word.
func TestUnhex(t *testing.T) {
	const digits = "0123456789abcdef09af"
	for at := range len(digits) {
		for c := range 256 {
			from := []byte(digits)
			from[at] = byte(c)
			want, err := hex.DecodeString(string(bytes.ToLower(from)))
			good := err == nil && !(c >= 'A' && c <= 'F')
			got := make([]byte, len(from)/2)
			if ok := Unhex(got, from); ok != good {
				t.Errorf("%q: %v, want %v", from, ok, good)
			} else if ok && !bytes.Equal(got, want) {
				t.Errorf("%q: %x", from, got)
			}
		}
	}
	if Unhex(make([]byte, 4), []byte("0123456")) {
		t.Error("seven digits are four bytes")
	}
	if !Unhex(nil, nil) {
		t.Error("no digits are no bytes")
	}
}
