package email

import (
	"slices"
	"strings"

	"github.com/emersion/go-message/mail"
)

// proofs are what the receiving server found out about the domain of the sender, in
// the words "dkim=DOMAIN", "dmarc=pass", "spf=DOMAIN", sorted. Only what is about
// exactly that domain counts: a good signature of another one proves nothing about
// this sender (dmarc=pass may rest on one of a related domain, as the server judges).
//
// Anybody can write Authentication-Results (RFC 8601) into a mail. A server puts its
// own above all that was there, so the topmost one with its name is believed, and
// no other.
func (r reader) proofs(h *mail.Header, domain string) string {
	if r.authserv == "" {
		return ""
	}
	for _, field := range h.Values("Authentication-Results") {
		name, results, ok := parseResults(field)
		if !strings.EqualFold(name, r.authserv) {
			continue
		}
		if !ok {
			return ""
		}
		var words []string
		for _, result := range results {
			words = append(words, result.about(domain)...)
		}
		slices.Sort(words)
		return strings.Join(slices.Compact(words), " ")
	}
	return ""
}

// about is what a result proves of a domain.
func (r result) about(domain string) []string {
	if r.value != "pass" {
		return nil
	}
	is := func(key string) bool {
		value := r.of[key]
		return strings.EqualFold(value[strings.LastIndexByte(value, '@')+1:], domain)
	}
	switch {
	// The domain of i= is that of d= or one below it, for which d= may speak.
	case r.method == "dkim" && (is("header.d") || r.of["header.d"] == "" && is("header.i")):
		return []string{"dkim=" + domain}
	case r.method == "dmarc" && is("header.from"):
		return []string{"dmarc=pass"}
	case r.method == "spf" && is("smtp.mailfrom"):
		return []string{"spf=" + domain}
	}
	return nil
}

// result is one of a field Authentication-Results.
type result struct {
	method, value string
	of            map[string]string // "header.d" and the like
}

// parseResults reads a field. The library for it takes a ";" in a comment or in
// quotes for the end of a result, and both may hold what the sender chose. Here a
// field that is not as RFC 8601 has it proves nothing.
func parseResults(field string) (name string, results []result, ok bool) {
	parts, ok := divide(field)
	if len(parts) == 0 || len(parts[0]) == 0 || len(parts[0]) > 2 {
		return "", nil, false
	}
	name = parts[0][0]
	for _, part := range parts[1:] {
		if len(part) == 1 && part[0] == "none" {
			continue
		}
		r := result{of: map[string]string{}}
		for i, word := range part {
			key, value, pair := strings.Cut(word, "=")
			key = strings.ToLower(key)
			_, twice := r.of[key]
			switch {
			case !pair || twice:
				return name, nil, false
			case i == 0:
				r.method, _, _ = strings.Cut(key, "/")
				r.value = strings.ToLower(value)
			default:
				r.of[key] = value
			}
		}
		if r.method != "" {
			results = append(results, r)
		}
	}
	return name, results, ok
}

// divide divides a field at ";" and then at spaces, leaves comments out, and takes
// off quotes. Spaces around "=" do not count.
func divide(field string) (parts [][]string, ok bool) {
	var part []string
	var word strings.Builder
	flush := func() {
		if word.Len() > 0 {
			part = append(part, word.String())
			word.Reset()
		}
	}
	for i := 0; i < len(field); i++ {
		switch b := field[i]; b {
		case '(', '"':
			end := closing(field, i)
			if end < 0 {
				return append(parts, part), false
			}
			if b == '"' {
				word.WriteString(unquote(field[i+1 : end]))
			}
			i = end
		case ';':
			flush()
			parts, part = append(parts, part), nil
		case ' ', '\t', '\r', '\n':
			open := strings.IndexByte(word.String(), '=') == word.Len()-1
			if !open && !strings.HasPrefix(strings.TrimLeft(field[i:], " \t\r\n"), "=") {
				flush()
			}
		case '\\', ')':
			return append(parts, part), false
		default:
			word.WriteByte(b)
		}
	}
	flush()
	return append(parts, part), true
}

// closing is where a comment or a quoted string ends that begins at i; -1 where it
// does not.
func closing(field string, i int) int {
	quoted, depth := field[i] == '"', 0
	for ; i < len(field); i++ {
		switch b := field[i]; {
		case b == '\\':
			i++
		case quoted && b == '"':
			if depth++; depth == 2 {
				return i
			}
		case quoted:
		case b == '(':
			depth++
		case b == ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

func unquote(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			i++
		}
		out.WriteByte(text[i])
	}
	return out.String()
}
