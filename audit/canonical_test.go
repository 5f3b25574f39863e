package audit

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

// TestText tries every byte at every place of a string, with neighbours from which
// a borrow could come.
func TestText(t *testing.T) {
	for c := range 256 {
		for _, around := range []byte{'a', ' ', '!', '#', 0x7f, '[', ']'} {
			for at := range 17 {
				b := bytes.Repeat([]byte{around}, 17)
				b[at] = byte(c)
				b = append(append([]byte{'"'}, b...), '"')
				want := len(b)
				if c == '"' {
					want = at + 2
				} else if c == '\\' || c < ' ' || c >= utf8.RuneSelf {
					want = -1 // and a backslash escapes nothing
				}
				if c == '\\' && at == 16 {
					continue // it escapes the quote
				}
				if end, plain := text(b, 0); end != want || plain != (want > 0) {
					t.Fatalf("%q: %d %v, want %d", b, end, plain, want)
				}
			}
		}
	}
}

// TestObjectOrder holds the order of keys to that of their bytes, whether they
// differ in their first eight bytes, behind those, or in length.
func TestObjectOrder(t *testing.T) {
	keys := []string{"", "!", "a", "ab", "abcdefg", "abcdefgh", "abcdefgha", "abcdefghb", "abcdefgi", "b", "~"}
	for i, first := range keys {
		for j, second := range keys {
			for _, tail := range []string{"}", "}        "} {
				b := []byte(`{"` + first + `":1,"` + second + `":2` + tail)
				var found Members
				end := items(b, 1, 2, &found)
				switch {
				case i >= j && end >= 0:
					t.Errorf("%s is taken", b)
				case i < j && end != bytes.IndexByte(b, '}')+1:
					t.Errorf("%s is not taken", b)
				case i < j && (len(found) != 2 || string(found[0].Name) != first || string(found[1].Name) != second || string(found[1].Value) != "2"):
					t.Errorf("%s: %v", b, found)
				}
			}
		}
	}
}
