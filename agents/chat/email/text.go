package email

import (
	"slices"
	"strings"
)

// attribution is the line over a quotation, in the languages of the usual programs.
// Where no program put one, a person quoted, and wants it read.
var attribution = []string{
	"wrote:", "writes:", "schrieb:", "geschrieben:", "a écrit :", "a écrit:", "escribió:", "escreveu:", "ha scritto:", "schreef:", "skrev:", "napisał:", "napisał(a):",
}

// unquoted cuts off the history under an answer: lines that begin with ">", to the
// very end, under an attribution; or what follows a line "Original Message".
func unquoted(text string, answer bool) string {
	if !answer {
		return text
	}
	lines := strings.Split(text, "\n")
	if at := slices.IndexFunc(lines, original); at > 0 {
		return strings.Join(lines[:at], "\n")
	}
	end := len(lines)
	for end > 0 && (strings.HasPrefix(lines[end-1], ">") || strings.TrimSpace(lines[end-1]) == "") {
		end--
	}
	if end == len(lines) || end == 0 {
		return text
	}
	// A long attribution goes over two lines, of which the last ends it. The first
	// one may have a date and an address.
	last := strings.ToLower(strings.TrimSpace(lines[end-1]))
	ends := func(word string) bool { return strings.HasSuffix(last, word) }
	german := strings.HasSuffix(last, ":") && strings.Contains(last, "schrieb ")
	if !german && !slices.ContainsFunc(attribution, ends) {
		return text
	}
	end--
	if end > 0 && !strings.ContainsAny(last, "0123456789") && strings.ContainsAny(lines[end-1], "0123456789") {
		end--
	}
	return strings.Join(lines[:end], "\n")
}

// original is the line that some programs put over a whole mail.
func original(line string) bool {
	words, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(line)), "-----")
	words = strings.TrimSpace(strings.Trim(words, "-"))
	return ok && (words == "original message" || words == "ursprüngliche nachricht" || words == "message d'origine")
}

// unsigned cuts off a signature: at most 15 lines under a line "-- ", which nothing
// follows (RFC 3676, 4.3).
func unsigned(text string) string {
	lines := strings.Split(text, "\n")
	for at := len(lines) - 1; at >= max(0, len(lines)-16); at-- {
		if lines[at] == "-- " {
			return strings.Join(lines[:at], "\n")
		}
	}
	return text
}
