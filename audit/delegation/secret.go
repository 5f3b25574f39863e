package delegation

import (
	"strings"
	"unicode/utf8"

	"mbox/schemas"
)

// searched is how many bytes of a text are searched for a secret.
const searched = 64 << 10

// markedSecrets are keys and passwords that can be told by their form: services
// mark theirs, and the others stand where such things do.
var markedSecrets = schemas.Pattern(strings.Join([]string{
	`-----BEGIN [A-Z0-9 ]+-----[^-]*(?:-----END [A-Z0-9 ]+-----)?`,   // PEM
	`\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{12,}`,                           // OpenAI, Anthropic, Stripe
	`\b(?:gh[opsur]_[A-Za-z0-9]{12,}|github_pat_\w{12,})`,            // GitHub
	`\bglpat-[A-Za-z0-9_-]{12,}`,                                     // GitLab
	`\bxox[a-z]-[A-Za-z0-9-]{8,}`,                                    // Slack
	`\b(?:AKIA|ASIA|AGPA|AROA)[A-Z0-9]{12,}`,                         // AWS
	`\bAIza[A-Za-z0-9_-]{20,}`,                                       // Google
	`\bAGE-SECRET-KEY-1[A-Z0-9]{8,}`,                                 // age
	`\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?`, // JWT
	`(?i:\bbearer\s+[^\s,;"']{6,})`,                                  // HTTP
	`(?i:\bbasic\s+[A-Za-z0-9+/]{8,}={0,2})`,                         // HTTP
	`\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/@?#]+@`,                        // URL with user information
	// An assignment, but not the end of a JSON path in an error: "params.token: unknown field".
	`(?i:\w*(?:passw(?:or)?d|secret|token|api_?key)(?:\s*=\s*|:|["']\s*:\s*)[^\s]+)`,
}, "|"))

// longRuns are digits and letters as nobody writes them by hand: hex and base64.
var longRuns = schemas.Pattern(`\b(?:sha256:)?[0-9A-Fa-f]{32,}\b|[A-Za-z0-9+/_-]{40,}={0,2}`)

// looksSecret tells whether a text has something in it that looks like a secret.
// It errs to that side: a hash is taken for one, too.
func looksSecret(text string) bool {
	text = text[:min(len(text), searched)]
	return markedSecrets().MatchString(text) || longRuns().MatchString(text)
}

// WithoutMarked blacks out the keys and passwords in a text that can be told by their
// form, as <redacted:LEN>.
func WithoutMarked(text string) string {
	return markedSecrets().ReplaceAllStringFunc(text, blackened)
}

// withoutSecrets blacks out what looks like a secret, and leaves what mbox's own
// reasons are made of: its hashes, ids and paths.
func withoutSecrets(text string) string {
	if len(text) > searched {
		text = strings.ToValidUTF8(text[:searched], "")
	}
	text = WithoutMarked(text)
	return longRuns().ReplaceAllStringFunc(text, func(found string) string {
		if ownHash().MatchString(found) || wordsForm().MatchString(found) {
			return found
		}
		return blackened(found)
	})
}

func blackened(secret string) string { return sized("redacted", utf8.RuneCountInString(secret)) }

var (
	ownHash   = schemas.Pattern(`^sha256:[0-9a-f]{64}$`)
	wordsForm = schemas.Pattern(`^[a-z0-9]{0,24}(?:[/_-][a-z0-9]{0,24})+$`) // a long id, a path
)
