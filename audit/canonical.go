package audit

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// cursor reads JSON that should be canonical. It proves less than is true, never
// more: keys with escapes or beyond ASCII fail, and are looked at in another way.
type cursor struct {
	b      []byte
	at     int
	failed bool
}

// member returns the value behind a key, which must be of the kind: '"' a
// string, '0' a positive integer, '{' an object, 'n' a string or null.
func (c *cursor) member(key string, kind byte) []byte {
	begin := c.at + len(key)
	if c.failed || begin >= len(c.b) || string(c.b[c.at:begin]) != key {
		c.failed = true
		return nil
	}
	first := c.b[begin]
	switch kind {
	case '0':
		c.failed = first < '1' || first > '9'
	case 'n':
		c.failed = first != '"' && first != 'n'
	default:
		c.failed = first != kind
	}
	if c.failed {
		return nil
	}
	c.at = value(c.b, begin, 2)
	if c.failed = c.at < 0; c.failed {
		return nil
	}
	return c.b[begin:c.at]
}

// maxDepth is how deep objects and arrays may lie in one another, the line
// itself counted (schemas.MaxDepth).
const maxDepth = 32

// value returns where the value that begins at i ends, -1 if it is not proven
// to be canonical.
func value(b []byte, i, depth int) int {
	switch c := b[i]; {
	case c == '"':
		end, _ := text(b, i)
		return end
	case c == '{' && depth <= maxDepth:
		return object(b, i+1, depth)
	case c == '[' && depth <= maxDepth:
		return array(b, i+1, depth)
	case c >= '0' && c <= '9' || c == '-':
		return number(b, i)
	}
	for _, word := range []string{"null", "true", "false"} {
		if bytes.HasPrefix(b[i:], []byte(word)) {
			return i + len(word)
		}
	}
	return -1
}

func array(b []byte, i, depth int) int {
	if i < len(b) && b[i] == ']' {
		return i + 1
	}
	for i < len(b) {
		if i = value(b, i, depth+1); i < 0 || i >= len(b) {
			return -1
		}
		switch b[i] {
		case ',':
			i++
		case ']':
			return i + 1
		default:
			return -1
		}
	}
	return -1
}

// object demands that each key is behind the one before: for ASCII the order of
// bytes is that of UTF-16.
func object(b []byte, i, depth int) int {
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	var last []byte
	for first := true; i < len(b); first = false {
		end, plain := text(b, i)
		if end < 0 || !plain || end+1 >= len(b) || b[end] != ':' {
			return -1
		}
		key := b[i+1 : end-1]
		if !first && bytes.Compare(last, key) >= 0 {
			return -1
		}
		last = key
		if i = value(b, end+1, depth+1); i < 0 || i >= len(b) {
			return -1
		}
		switch b[i] {
		case ',':
			i++
		case '}':
			return i + 1
		default:
			return -1
		}
	}
	return -1
}

// number takes integers below 2^53 in the one way to write them.
func number(b []byte, i int) int {
	begin, n := i, int64(0)
	if b[i] == '-' {
		i++
	}
	digits := i
	for ; i < len(b) && b[i] >= '0' && b[i] <= '9' && i-digits < 17; i++ {
		n = 10*n + int64(b[i]-'0')
	}
	if i == digits || b[digits] == '0' && (i-digits > 1 || digits > begin) || n >= 1<<53 {
		return -1
	}
	return i
}

// text returns where the string that begins at i ends, -1 if it is none or not
// written the canonical way, and whether it is ASCII without escapes.
func text(b []byte, i int) (end int, plain bool) {
	if i >= len(b) || b[i] != '"' {
		return -1, false
	}
	plain = true
	for i++; ; {
		if i = special(b, i); i >= len(b) {
			return -1, false
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1, plain
		case c < ' ':
			return -1, false
		case c == '\\':
			n := escape(b[i+1:])
			if n == 0 {
				return -1, false
			}
			i, plain = i+1+n, false
		default:
			r, size := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && size == 1 {
				return -1, false
			}
			i, plain = i+size, false
		}
	}
}

// escape returns how many bytes of a canonical escape stand behind the
// backslash, 0 if it is none: control characters that have no short form are
// \u00xx with small letters, and nothing else is escaped.
func escape(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	switch b[0] {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return 1
	}
	if len(b) < 5 || string(b[:3]) != "u00" || b[3] != '0' && b[3] != '1' {
		return 0
	}
	low := b[4]
	if !(low >= '0' && low <= '9' || low >= 'a' && low <= 'f') || b[3] == '0' && bytes.IndexByte([]byte("89acd"), low) >= 0 {
		return 0
	}
	return 5
}

// special returns the index of the next byte from i on that is no plain ASCII
// of a string: a quote, a backslash, a control character, or beyond ASCII. It
// looks at eight bytes at a time: in each word below the lowest bit that is set
// is exact, as borrows only spread upwards.
func special(b []byte, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash := w^ones*'"', w^ones*'\\'
		found := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*' ')&^w | w) & tops
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < ' ' || c >= utf8.RuneSelf {
			return i
		}
	}
	return i
}
