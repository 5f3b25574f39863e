package config

import "fmt"

// Postgres is the table [postgres]: the database of all agents whose memory.backend is
// postgres.
type Postgres struct {
	URLFile string `toml:"url_file" json:"url_file,omitzero" jsonschema:"description=file that holds what connects\\, such as postgres://user:password@host:5432/database; relative ones from the mailbox's folder"`
	URLEnv  string `toml:"url_env" json:"url_env,omitzero" jsonschema:"description=name of the environment variable that holds it"`

	home, file string // the mailbox's folder, and what says where the database is
}

func checkPostgres(c *File) error {
	p := &c.Postgres
	p.home, p.file = c.Home(), c.origin("postgres.url_file")
	if p.URLEnv != "" {
		p.file = c.origin("postgres.url_env")
	}
	return c.checkSecret("postgres", "url", c.Postgres.URLFile, c.Postgres.URLEnv)
}

// checkPlace wants that it is said where an agent's database is, or its server.
func checkPlace(c *File, key string, a *Agent) error {
	if a.Memory.Backend == MemoryPostgres && c.Postgres.URLFile+c.Postgres.URLEnv == "" {
		return advise(c.wrong(key+".memory.backend", "no [postgres] says where the database is"), `url_file = ".mbox/keys/postgres" in [postgres]: mbox help memory`)
	}
	if a.Memory.Backend == MemoryQdrant && c.Qdrant.URL == "" {
		return advise(c.wrong(key+".memory.backend", "no [qdrant] says where the server is"), `url = "http://127.0.0.1:6334" in [qdrant]: mbox help memory`)
	}
	return nil
}

// URL is what connects to the database. It is read now; it is never kept, and never part
// of an error.
func (p *Postgres) URL() (string, error) {
	url, err := readSecret(p.home, "URL", p.URLFile, p.URLEnv)
	if err != nil {
		return "", p.Problem(err)
	}
	return url, nil
}

// Problem is an error about what connects, with where that is said.
func (p *Postgres) Problem(err error) error {
	key, hint := "url_file", "it holds a line like postgres://user:password@host:5432/database, and nobody else can read it (0600)"
	if p.URLEnv != "" {
		key, hint = "url_env", "set "+p.URLEnv+" to something like postgres://user:password@host:5432/database where mbox is begun"
	}
	return &Error{File: p.file, Problem: fmt.Sprintf("postgres.%s: %v", key, err), Hint: hint}
}
