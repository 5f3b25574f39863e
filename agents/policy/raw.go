package policy

import (
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The rules of refusal for paths.
const (
	rulePathEmpty     = "path_empty"
	rulePathLong      = "path_long" // no system takes it either
	rulePathNUL       = "path_nul"
	rulePathEncoding  = "path_encoding"  // bytes that are no UTF-8
	rulePathControl   = "path_control"   // characters that move a cursor
	rulePathBackslash = "path_backslash" // another system's separator
	rulePathParent    = "path_parent"    // a component ..
	rulePathEncoded   = "path_encoded"   // one that shows after decoding %2e, %2f or %5c
	rulePathUser      = "path_user"      // ~somebody, or ~ where nobody knows the home

	rulePathDead       = "path_dead"       // NAME:path of an agent that was put away
	rulePathUnresolved = "path_unresolved" // the file system does not tell where it leads
	rulePathPrivate    = "path_private"    // .mbox, audit, artifacts
	rulePathProtected  = "path_protected"  // what mbox alone writes
	rulePathWriteOnly  = "path_write_only"
	rulePathReadOnly   = "path_read_only"
	rulePathForbidden  = "path_forbidden"
	rulePathOutside    = "path_outside"
	ruleLevelReadOnly  = "level_readonly"
)

const maxPath = 4096 // bytes

// suspicious gives the rule that a path breaks as it is written, before anybody
// asks what it means; "" for none. No policy allows such paths.
func suspicious(path string) string {
	switch {
	case path == "":
		return rulePathEmpty
	case len(path) > maxPath:
		return rulePathLong
	case strings.ContainsRune(path, 0):
		return rulePathNUL
	case !utf8.ValidString(path):
		return rulePathEncoding
	case strings.ContainsFunc(path, moves):
		return rulePathControl
	case hasParent(path):
		return rulePathParent
	case strings.ContainsRune(path, '\\'):
		return rulePathBackslash
	case encodesParent(path):
		return rulePathEncoded
	case path[0] == '~' && path != "~" && path[1] != '/':
		return rulePathUser
	}
	return ""
}

// moves tells control characters, line separators and those that turn the
// direction of a line around.
func moves(r rune) bool {
	return unicode.IsControl(r) || r >= '\u2028' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

func hasParent(path string) bool {
	separator := func(r rune) bool { return r == '/' || r == '\\' }
	for part := range strings.FieldsFuncSeq(path, separator) {
		if part == ".." {
			return true
		}
	}
	return false
}

var decoder = strings.NewReplacer("%2e", ".", "%2f", "/", "%5c", `\`, "%25", "%")

// encodesParent tells whether decoding a path, once or as often as it changes,
// would make a .. of it. mbox never decodes a path; what comes behind it might.
func encodesParent(path string) bool {
	path = strings.ToLower(path)
	for {
		if strings.Contains(path, "..%2f") || strings.Contains(path, "%2f..") {
			return true
		}
		decoded := decoder.Replace(path)
		if decoded == path {
			return false
		}
		if hasParent(decoded) {
			return true
		}
		path = decoded // shorter each time
	}
}

// absolute gives the path that a well-formed one stands for, in lexical form, or
// the rule that keeps it from standing for any.
func (p *Policy) absolute(path string) (lexical, rule string) {
	if rest, ok := strings.CutPrefix(path, "~"); ok {
		if p.UserHome == "" {
			return "", rulePathUser
		}
		return filepath.Join(p.UserHome, rest), ""
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path), ""
	}
	if name, rest, ok := strings.Cut(path, ":"); ok {
		switch workspace, agent := p.Siblings[name]; {
		case agent && workspace == "":
			return "", rulePathOutside // no access to that agent's workspace
		case agent:
			return filepath.Join(workspace, rest), ""
		case p.Dead != nil && p.Dead(name):
			return "", rulePathDead
		}
	}
	if p.Workspace == "" {
		return "", rulePathOutside
	}
	return filepath.Join(p.Workspace, path), ""
}
