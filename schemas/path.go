package schemas

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// root is the path of a document itself.
const root = "$"

const (
	letters  = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	maxQuiet = 80 // bytes of what is shown without quotes
)

// made tells whether a short text has these characters and no others.
func made(text, of string) bool {
	return text != "" && len(text) <= maxQuiet && strings.Trim(text, of) == ""
}

func identifier(key string) bool {
	return made(key, letters+"0123456789_") && !strings.ContainsAny(key[:1], "0123456789")
}

// member is the path of a key in the object at path.
func member(path, key string) string {
	switch {
	case !identifier(key):
		return path + "[" + Quote(key) + "]"
	case path == root:
		return key
	}
	return path + "." + key
}

// element is the path of an index in the array at path.
func element(path, index string) string {
	return path + "[" + index + "]"
}

// pathIn turns a JSON pointer (RFC 6901) into a path. A pointer does not tell
// an index from a key that is a number, so the document is asked; it may be
// broken anywhere behind the place that is pointed at.
func pathIn(data []byte, pointer jsontext.Pointer) string {
	d := jsontext.NewDecoder(bytes.NewBuffer(data),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	path := root
	for token := range pointer.Tokens() {
		if enter(d, token) == '[' {
			path = element(path, token)
		} else {
			path = member(path, token)
		}
	}
	return path
}

// pathOf is pathIn for a document that was never written: there a number is
// taken for an index.
func pathOf(pointer jsontext.Pointer) string {
	path := root
	for token := range pointer.Tokens() {
		if _, err := strconv.ParseUint(token, 10, 32); err == nil {
			path = element(path, token)
		} else {
			path = member(path, token)
		}
	}
	return path
}

// enter reads the beginning of an object or array, up to the value that token
// names in it, and tells which of the two it was.
func enter(d *jsontext.Decoder, token string) jsontext.Kind {
	open, err := d.ReadToken()
	if err != nil {
		return 0
	}
	kind := open.Kind()
	if kind == '[' {
		skip(d, token)
		return kind
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil || name.String() == token || d.SkipValue() != nil {
			break
		}
	}
	return kind
}

func skip(d *jsontext.Decoder, index string) {
	n, _ := strconv.Atoi(index)
	for range n {
		if d.SkipValue() != nil {
			return
		}
	}
}
