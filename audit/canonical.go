package audit

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Member is a member of an object: its name, and its JSON value.
type Member struct{ Name, Value []byte }

// Members are those of one object.
type Members []Member

// Get is the JSON value of the member with this name, nil if there is none.
func (m Members) Get(name string) []byte {
	for i := range m {
		if string(m[i].Name) == name {
			return m[i].Value
		}
	}
	return nil
}

// Text is a member that is a string, "" if there is none.
func (m Members) Text(name string) string { return unquoted(m.Get(name)) }

// cursor reads JSON that should be canonical. It proves less than is true, never
// more: keys with escapes or beyond ASCII fail, and are looked at in another way.
type cursor struct {
	b      []byte
	at     int
	failed bool
}

// begin goes behind a key, and tells what the value there begins with.
func (c *cursor) begin(key string) (first byte) {
	begin := c.at + len(key)
	if c.failed || begin >= len(c.b) || string(c.b[c.at:begin]) != key {
		c.failed = true
		return 0
	}
	c.at = begin
	return c.b[begin]
}

// end takes the value up to its end, which is not proven if it is negative.
func (c *cursor) end(end int) []byte {
	if c.failed = c.failed || end < 0; c.failed {
		return nil
	}
	value := c.b[c.at:end]
	c.at = end
	return value
}

// text returns the string behind a key.
func (c *cursor) text(key string) []byte { return c.quoted(c.begin(key)) }

// optional returns the string or null behind a key.
func (c *cursor) optional(key string) []byte {
	if first := c.begin(key); first != 'n' {
		return c.quoted(first)
	}
	return c.end(word(c.b, c.at))
}

func (c *cursor) quoted(first byte) []byte {
	if first != '"' {
		c.failed = true
		return nil
	}
	end, _ := text(c.b, c.at)
	return c.end(end)
}

// positive returns the integer over 0 behind a key.
func (c *cursor) positive(key string) []byte {
	if first := c.begin(key); first < '1' || first > '9' {
		c.failed = true
		return nil
	}
	return c.end(number(c.b, c.at))
}

// object returns the object behind a key, and adds its members to found.
func (c *cursor) object(key string, found *Members) []byte {
	if c.begin(key) != '{' {
		c.failed = true
		return nil
	}
	return c.end(items(c.b, c.at+1, 2, found))
}

// objectAt tells whether b is an object that is proven to be canonical, and adds
// its members to found.
func objectAt(b []byte, found *Members) bool {
	return len(b) > 1 && b[0] == '{' && items(b, 1, 2, found) == len(b)
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
	case c >= '0' && c <= '9' || c == '-':
		return number(b, i)
	case (c == '{' || c == '[') && depth <= maxDepth:
		return items(b, i+1, depth, nil)
	}
	return word(b, i)
}

func word(b []byte, i int) int {
	for _, word := range []string{"null", "true", "false"} {
		if len(b)-i >= len(word) && string(b[i:i+len(word)]) == word {
			return i + len(word)
		}
	}
	return -1
}

// items returns where the array or object ends whose bracket stands before i. Each
// key has to be behind the one before: for ASCII the order of bytes is that of
// UTF-16. Members are added to found, if that is not nil.
func items(b []byte, i, depth int, found *Members) int {
	closing := b[i-1] + 2 // ASCII
	if i < len(b) && b[i] == closing {
		return i + 1
	}
	var key, last []byte
	for first := true; i < len(b); first = false {
		if closing == '}' {
			colon, plain := text(b, i)
			if colon < 0 || !plain || colon+1 >= len(b) || b[colon] != ':' {
				return -1
			}
			key, last = b[i+1:colon-1], key
			if i = colon + 1; !first && bytes.Compare(last, key) >= 0 {
				return -1
			}
		}
		begin := i
		if i = value(b, i, depth+1); i < 0 || i >= len(b) {
			return -1
		}
		if found != nil {
			*found = append(*found, Member{key, b[begin:i]})
		}
		switch b[i] {
		case ',':
			i++
		case closing:
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
	for i++; i < len(b); {
		if i+8 <= len(b) {
			found := specials(binary.LittleEndian.Uint64(b[i:]))
			if found == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(found) / 8
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
		case c < utf8.RuneSelf:
			i++ // among the last few bytes
		default:
			r, size := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && size == 1 {
				return -1, false
			}
			i, plain = i+size, false
		}
	}
	return -1, false
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

// specials marks the highest bits of the bytes that are special. Below the
// lowest that is set all is exact, as borrows only spread upwards. A quote with
// its second bit turned is the number behind the control characters, which stay
// among themselves; what is beyond ASCII keeps its highest bit in one of the two
// differences.
func specials(w uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	return ((w ^ ones*('"'^' ') - ones*(' '+1)) | (w ^ ones*'\\' - ones)) & tops
}
