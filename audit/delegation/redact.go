package delegation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
	"mbox/schemas"
)

// How much of a payload's shape is told. What lies beyond is counted.
const (
	maxMembers = 32  // of one object
	maxShape   = 128 // of all objects together
	maxNesting = 5   // levels of objects and arrays
	maxItems   = 16  // of one array that are searched for something sensitive
	maxHashes  = 32
	maxPath    = 160 // bytes
)

// Redact tells of an action's parameters what may stand in the ledger: the names of their
// members, sorted; a summary, which is an object of the same shape; and salted hashes of
// what is sensitive, by path ("env.password", "files[0].content"). No value gets into it,
// sensitive or not: not the path of a file, not a number.
//
// In the summary stands a value's kind with its size: <string:12> (runes), <number>,
// <boolean>, <null>, <array:3> (items). Objects keep their members. A value is sensitive
// if its key contains one of content, compose, template, password, secret, token and key
// in whatever case, or if it is a string that looks like a secret. It is <redacted:LEN>,
// LEN in runes of a string and in bytes of anything else. Its hash is that of the salt,
// "payload\n" and the string, or the canonical JSON of anything else: who has salt and
// value can prove later which value it was.
//
// Keys are chosen by who wrote the payload as well. One that is no plain name of at most
// 40 characters, or looks like a secret, is <key:LEN>.
//
// The result is bounded whatever params is, by the limits above. What is beyond them is
// <object:N> or a last key <more:N>. Parameters that are no object are told as the member
// "$", and <invalid:BYTES> if they are no JSON.
func Redact(params jsontext.Value, salt []byte) (keys []string, summary jsontext.Value, hashes map[string]string) {
	r := redaction{salt: string(salt), hashes: map[string]string{}}
	keys = []string{}
	var shape any
	switch {
	case len(params) == 0:
		shape = map[string]any{}
	case !params.IsValid():
		shape = map[string]any{"$": sized("invalid", len(params))}
	case params.Kind() != '{':
		shape = map[string]any{"$": r.value(params, "$", false, 0)}
	default:
		object := r.object(params, "", 0)
		keys, shape = slices.AppendSeq(keys, maps.Keys(object)), object
		slices.Sort(keys)
	}
	return keys, audit.Details(shape), r.hashes
}

func sized(kind string, n int) string { return fmt.Sprintf("<%s:%d>", kind, n) }

// redaction is one run of Redact.
type redaction struct {
	salt   string
	hashes map[string]string
	told   int // members of the shape
}

// value is what stands for a value: a text, or an object's shape.
func (r *redaction) value(v jsontext.Value, path string, sensitive bool, depth int) any {
	switch kind := v.Kind(); {
	case sensitive || kind == '"':
		return r.text(v, path, sensitive)
	case kind == '{' && (depth >= maxNesting || r.told == maxShape):
		return sized("object", len(members(v)))
	case kind == '{':
		return r.object(v, path, depth)
	case kind == '[':
		return r.array(v, path, depth)
	case kind == '0':
		return "<number>"
	case kind == 'n':
		return "<null>"
	}
	return "<boolean>"
}

// text tells of a string, or of anything that is sensitive.
func (r *redaction) text(v jsontext.Value, path string, sensitive bool) string {
	if v.Kind() != '"' {
		v = v.Clone()
		_ = v.Canonicalize() // what cannot be is hashed as it stands
		return r.redacted(path, string(v), len(v))
	}
	var s string
	_ = json.Unmarshal(v, &s) // there may be space around it
	n := utf8.RuneCountInString(s)
	if sensitive || looksSecret(s) {
		return r.redacted(path, s, n)
	}
	return sized("string", n)
}

func (r *redaction) redacted(path, text string, size int) string {
	if path = unique(r.hashes, path); len(r.hashes) < maxHashes && len(path) <= maxPath {
		r.hashes[path] = audit.Hash([]byte(r.salt + "payload\n" + text))
	}
	return sized("redacted", size)
}

// object keeps an object's members, sorted by their names.
func (r *redaction) object(v jsontext.Value, path string, depth int) map[string]any {
	all, shape := members(v), map[string]any{}
	for i, name := range slices.Sorted(maps.Keys(all)) {
		if i == maxMembers || r.told == maxShape {
			shape[sized("more", len(all)-i)] = "<more>"
			break
		}
		r.told++
		key := unique(shape, plainKey(name))
		shape[key] = r.value(all[name], strings.TrimPrefix(path+"."+key, "."), isSensitive(name), depth+1)
	}
	return shape
}

// array counts an array's items, and looks among the first for what is sensitive.
func (r *redaction) array(v jsontext.Value, path string, depth int) string {
	var items []jsontext.Value
	_ = json.Unmarshal(v, &items)
	if depth < maxNesting {
		for i, item := range items[:min(len(items), maxItems)] {
			told := r.told // its shape is not told: it costs nothing
			r.value(item, fmt.Sprintf("%s[%d]", path, i), false, depth+1)
			r.told = told
		}
	}
	return sized("array", len(items))
}

// members takes an object apart that is valid.
func members(v jsontext.Value) (all map[string]jsontext.Value) {
	_ = json.Unmarshal(v, &all)
	return all
}

var (
	keyForm        = schemas.Pattern(`^[A-Za-z_][A-Za-z0-9_.-]{0,39}$`)
	sensitiveWords = []string{"content", "compose", "template", "password", "secret", "token", "key"}
)

func plainKey(name string) string {
	if keyForm().MatchString(name) && !looksSecret(name) {
		return name
	}
	return sized("key", utf8.RuneCountInString(name))
}

// unique is a name that a map does not have yet.
func unique[V any](taken map[string]V, name string) string {
	for n, first := 2, name; ; n++ {
		if _, is := taken[name]; !is {
			return name
		}
		name = fmt.Sprintf("%s#%d", first, n)
	}
}

func isSensitive(key string) bool {
	key = strings.ToLower(key)
	return slices.ContainsFunc(sensitiveWords, func(word string) bool { return strings.Contains(key, word) })
}
