package config

import (
	"net/url"

	"mbox/agents/chat"
)

// Telemetry is the table [telemetry]: where mbox up sends OpenTelemetry traces. Without
// an endpoint it sends none, whatever the environment says.
type Telemetry struct {
	Endpoint    string `toml:"endpoint" json:"endpoint,omitzero" jsonschema:"description=URL of a server that takes OTLP as JSON over HTTP\\, without /v1/traces; empty: nothing is sent"`
	HeadersFile string `toml:"headers_file" json:"headers_file,omitzero" jsonschema:"description=file that holds headers of each request\\, as name=value\\,name=value; relative ones from the mailbox's folder"`
	HeadersEnv  string `toml:"headers_env" json:"headers_env,omitzero" jsonschema:"description=name of the environment variable that holds them"`
	CA          string `toml:"ca" json:"ca,omitzero" jsonschema:"description=PEM file of who signs the server's certificate; relative ones from the mailbox's folder"`
	Insecure    bool   `toml:"insecure" json:"insecure,omitzero" jsonschema:"default=false,description=traces and headers may travel in the clear to another machine"`

	home string // the mailbox's folder
}

// Table is what a bridge to the server would have: its token are the headers.
func (t *Telemetry) Table() *Bridge {
	return &Bridge{Server: t.Endpoint, TokenFile: t.HeadersFile, TokenEnv: t.HeadersEnv, CA: t.CA, Insecure: t.Insecure, home: t.home}
}

// Settings are those of the connection. The headers are read now; they are never kept,
// and never part of an error.
func (t *Telemetry) Settings() (s chat.Settings, err error) {
	b := t.Table()
	b.TokenFile, b.TokenEnv = "", ""
	if s, err = b.Settings(); err == nil {
		s.Token, err = b.secret("headers", t.HeadersFile, t.HeadersEnv)
	}
	return s, err
}

// checkTelemetry refuses what makes no sense, and what would do nothing.
func checkTelemetry(c *File) error {
	t, key := &c.Telemetry, "telemetry"
	t.home = c.Home()
	if t.Endpoint == "" {
		for _, k := range []struct {
			name string
			set  bool
		}{{"headers_file", t.HeadersFile != ""}, {"headers_env", t.HeadersEnv != ""}, {"ca", t.CA != ""}, {"insecure", t.Insecure}} {
			if k.set {
				return advise(c.wrong(key+"."+k.name, "does nothing without an endpoint"), `endpoint = "http://127.0.0.1:4318" in [telemetry]`)
			}
		}
		return nil
	}
	if u, err := url.Parse(t.Endpoint); err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return c.wrongSecret(key+".endpoint", "want a URL of http or https, without a user in it")
	}
	return c.checkSecret(key, "headers", t.HeadersFile, t.HeadersEnv)
}
