package config

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"sync"
)

// Qdrant is the table [qdrant]: the server of all agents whose memory.backend is qdrant.
type Qdrant struct {
	URL        string `toml:"url" json:"url,omitzero" jsonschema:"description=the server's gRPC\\, such as http://127.0.0.1:6334; https for TLS"`
	KeyFile    string `toml:"key_file" json:"key_file,omitzero" jsonschema:"description=file that holds its API key; relative ones from the mailbox's folder"`
	KeyEnv     string `toml:"key_env" json:"key_env,omitzero" jsonschema:"description=name of the environment variable that holds it"`
	Collection string `toml:"collection" json:"collection,omitzero" jsonschema:"default=mbox,description=the collection that is this mailbox's; those of vectors have a number behind its name"`

	home, file string // the mailbox's folder, and what says where the key is
}

const (
	defaultCollection = "mbox"
	qdrantPort        = 6334 // of its gRPC
)

var collectionName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`) })

func checkQdrant(c *File) error {
	q := &c.Qdrant
	q.home, q.file, q.Collection = c.Home(), c.origin("qdrant.key_file"), cmp.Or(q.Collection, defaultCollection)
	if q.KeyEnv != "" {
		q.file = c.origin("qdrant.key_env")
	}
	if !collectionName().MatchString(q.Collection) {
		return c.wrong("qdrant.collection", "%s is not allowed: want 1 to 100 letters, digits, dots, hyphens and underscores, a letter or digit first", quoted(q.Collection))
	}
	if q.URL != "" {
		u, err := url.Parse(q.URL)
		port := ""
		if err == nil {
			port = u.Port()
		}
		n, _ := strconv.Atoi(cmp.Or(port, "1"))
		switch {
		case err != nil || u.User != nil || u.RawQuery+u.Fragment != "" || len(u.Path) > 1 || u.Hostname() == "" || n < 1 || n > 65535 || u.Scheme != "http" && u.Scheme != "https":
			return c.wrongSecret("qdrant.url", "is no address of a Qdrant: want one like http://127.0.0.1:6334, without user, path and key")
		case q.KeyFile+q.KeyEnv != "" && u.Scheme == "http" && !isLoopback(u.Hostname()):
			return advise(c.wrong("qdrant.url", "the key and all that is remembered would go to another machine in the clear"), "https in the place of http: the server's settings say service.enable_tls")
		}
	}
	return c.checkSecret("qdrant", "key", q.KeyFile, q.KeyEnv)
}

// Server is where the server is. The URL was checked.
func (q *Qdrant) Server() (host string, port int, secure bool) {
	u, err := url.Parse(q.URL)
	if err != nil {
		return "", 0, false
	}
	port, _ = strconv.Atoi(cmp.Or(u.Port(), strconv.Itoa(qdrantPort)))
	return u.Hostname(), port, u.Scheme == "https"
}

// Key is the API key; "" where none is named. It is read now; it is never kept, and never
// part of an error.
func (q *Qdrant) Key() (string, error) {
	key, err := readSecret(q.home, "key", q.KeyFile, q.KeyEnv)
	if err != nil {
		name, hint := "key_file", "it holds the key alone, and nobody else can read it (0600)"
		if q.KeyEnv != "" {
			name, hint = "key_env", "set "+q.KeyEnv+" to the key where mbox is begun"
		}
		return "", &Error{File: q.file, Problem: fmt.Sprintf("qdrant.%s: %v", name, err), Hint: hint}
	}
	return key, nil
}
