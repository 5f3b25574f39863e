package agents

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"mbox/schemas"
)

// unlock opens the agent's secrets. Where they cannot be opened the task is given back:
// that is no fault of it, and a command that lacks one would only burn its attempts.
func (a *attempt) unlock(hard context.Context) bool {
	if a.Unlock == nil {
		return true
	}
	var err error
	if a.secrets, err = a.Unlock(hard); err != nil {
		a.tell(zerolog.ErrorLevel, err, "its secrets cannot be opened")
		why := schemas.Sentence("its secrets cannot be opened (mbox doctor): "+err.Error(), maxTail)
		a.disable(why)
		a.end(hard, verdict{release: why, delay: releaseDelay})
		return false
	}
	a.hidden = a.known()
	return true
}

// silenced takes the agent's secrets out of what is said of its end.
func (a *attempt) silenced(v verdict) verdict {
	words := a.secrets.Words()
	if len(words) == 0 {
		return v
	}
	v.output, v.release = withoutWords(words, v.output), hideWords(words, v.release)
	if v.failure != nil {
		failure := *v.failure
		failure.Message = hideWords(words, failure.Message)
		v.failure = &failure
	}
	return v
}

// unsearched is in the place of a result that cannot be searched.
var unsearched = jsontext.Value(`"<redacted>"`)

// withoutWords takes words out of the strings, names and numbers of a result, however
// they are escaped there. A result without them stays as it is, to the byte.
func withoutWords(words []string, v jsontext.Value) jsontext.Value {
	if len(words) == 0 || len(v) == 0 {
		return v
	}
	var out bytes.Buffer
	from, to := jsontext.NewDecoder(bytes.NewReader(v), jsontext.AllowDuplicateNames(true)), jsontext.NewEncoder(&out, jsontext.AllowDuplicateNames(true))
	found := false
	for {
		token, err := from.ReadToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return unsearched
		}
		if kind := token.Kind(); kind == '"' || kind == '0' {
			text := token.String()
			if clean := hideWords(words, text); clean != text {
				token, found = jsontext.String(clean), true
			}
		}
		if err := to.WriteToken(token); err != nil {
			return unsearched
		}
	}
	if !found {
		return v
	}
	return bytes.TrimSpace(out.Bytes())
}
