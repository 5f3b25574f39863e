package task

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mbox/schemas"
)

// checkPaths refuses paths that two people could take for different ones: each has
// one spelling, from the folder that the agents share.
func checkPaths(paths []string) error {
	if len(paths) > MaxPaths {
		return &schemas.Error{Path: "mbox.paths", Code: "too_long", Problem: fmt.Sprintf("%d paths", len(paths)), Want: fmt.Sprintf("at most %d, or the folder that they have in common", MaxPaths)}
	}
	for i, p := range paths {
		at := fmt.Sprintf("mbox.paths[%d]", i)
		if len(p) > MaxPath {
			return &schemas.Error{Path: at, Code: "too_long", Problem: fmt.Sprintf("%d bytes", len(p)), Want: fmt.Sprintf("at most %d", MaxPath)}
		}
		clean := path.Clean(p)
		outside := path.IsAbs(p) || clean == ".." || strings.HasPrefix(clean, "../")
		if outside || p != clean || !utf8.ValidString(p) || strings.ContainsFunc(p, unicode.IsControl) {
			want := "a path like src/login, from the folder that the agents share; . is all of it"
			if !outside && clean != p && p != "" {
				want = schemas.Quote(clean)
			}
			return Fault(at, schemas.Quote(schemas.Sentence(p, 60))+" is no such path", want)
		}
		if slices.Contains(paths[:i], p) {
			return Fault(at, p+" stands there twice", "each path once")
		}
	}
	return nil
}

// Overlap returns the wider one of two paths that name the same file or folder, or of
// which one is a folder above the other; "" if no two do. Their bytes are compared,
// so case and the way of writing an accent count.
func Overlap(a, b []string) string {
	for _, p := range a {
		for _, q := range b {
			switch {
			case within(q, p):
				return p
			case within(p, q):
				return q
			}
		}
	}
	return ""
}

// within tells whether a path is a folder, or lies in it.
func within(p, folder string) bool {
	return folder == "." || p == folder || strings.HasPrefix(p, folder+"/")
}
