package config

import (
	"net"
	"net/url"
	"strings"
	"time"

	"mbox/schemas"
)

// Ollama is the table [ollama]: where models run on this machine.
type Ollama struct {
	URL         string   `toml:"url" json:"url,omitzero" jsonschema:"default=http://127.0.0.1:11434,description=where Ollama answers"`
	KeepAlive   string   `toml:"keep_alive" json:"keep_alive,omitzero" jsonschema:"default=5m,description=how long a model stays loaded; 0: not at all; -1: for good"`
	NumCtx      int      `toml:"num_ctx" json:"num_ctx,omitzero" jsonschema:"default=4096,minimum=256,maximum=1048576,description=tokens of context: prompt and reply together"`
	NumThread   int      `toml:"num_thread" json:"num_thread,omitzero" jsonschema:"default=0,minimum=0,maximum=1024,description=threads of a model; 0: as Ollama thinks best"`
	Parallel    int      `toml:"parallel" json:"parallel,omitzero" jsonschema:"default=1,minimum=1,maximum=64,description=questions at once; further tasks wait"`
	Pull        []string `toml:"pull" json:"pull,omitzero" jsonschema:"description=models that mbox up and mbox doctor --pull fetch if they are missing"`
	AllowRemote bool     `toml:"allow_remote" json:"allow_remote,omitzero" jsonschema:"default=false,description=url may name another machine: what agents read leaves this one"`
}

// OpenAI is the table [openai]: a server that speaks OpenAI's protocol.
type OpenAI struct {
	URL     string `toml:"url" json:"url,omitzero" jsonschema:"description=where it answers\\, with the version: https://host/v1"`
	KeyFile string `toml:"key_file" json:"key_file,omitzero" jsonschema:"description=file that holds the key; relative ones from the mailbox's folder"`
	KeyEnv  string `toml:"key_env" json:"key_env,omitzero" jsonschema:"description=name of the environment variable that holds the key"`
}

// Brain is a table [agents.NAME.brain]: what an agent thinks with.
type Brain struct {
	Kind        string   `toml:"kind" json:"kind,omitzero" jsonschema:"enum=none,enum=ollama,enum=exec,enum=openai,default=ollama,description=none: the agent does tasks that carry their action and no others"`
	Model       string   `toml:"model" json:"model,omitzero" jsonschema:"description=instead of the role's"`
	Command     string   `toml:"command" json:"command,omitzero" jsonschema:"description=for exec: gets the question on stdin and prints the reply"`
	URL         string   `toml:"url" json:"url,omitzero" jsonschema:"description=for ollama and openai: instead of that table's"`
	KeyFile     string   `toml:"key_file" json:"key_file,omitzero" jsonschema:"description=for openai: instead of that table's"`
	KeyEnv      string   `toml:"key_env" json:"key_env,omitzero" jsonschema:"description=for openai: instead of that table's"`
	Temperature *float64 `toml:"temperature" json:"temperature,omitzero" jsonschema:"minimum=0,maximum=2,description=for ollama and openai; not set: the model's own"`
}

var brainKinds = []string{"none", "ollama", "exec", "openai"}

const loopbackOllama = "http://127.0.0.1:11434"

func defaultOllama() Ollama {
	return Ollama{URL: loopbackOllama, KeepAlive: "5m", NumCtx: 4096, Parallel: 1}
}

func (c *File) checkBrains() error {
	o := &c.Ollama
	if err := c.checkOllama("ollama.url", &o.URL); err != nil {
		return err
	}
	if _, err := parseKeepAlive(o.KeepAlive); err != nil {
		return c.wrong("ollama.keep_alive", "%s: %v, 0 or -1", quoted(o.KeepAlive), err)
	}
	if err := c.checkNumbers("ollama", bound{".num_ctx", o.NumCtx, 256, 1 << 20}, bound{".num_thread", o.NumThread, 0, 1024}, bound{".parallel", o.Parallel, 1, 64}); err != nil {
		return err
	}
	if err := c.checkModels("ollama.pull", o.Pull...); err != nil {
		return err
	}
	if c.OpenAI.URL != "" {
		if _, problem := parseEndpoint(c.OpenAI.URL); problem != "" {
			return c.wrongSecret("openai.url", "%s", problem)
		}
	}
	return c.checkKey("openai", c.OpenAI.URL, c.OpenAI.KeyFile, c.OpenAI.KeyEnv)
}

// checkOllama writes an address of Ollama out. One that the file names is on this
// machine, unless it allows another.
func (c *File) checkOllama(key string, address *string) error {
	whole, problem := ollamaURL(*address)
	if problem != "" {
		return c.wrongSecret(key, "%s", problem)
	}
	if *address = whole; c.has(key) && !c.Ollama.AllowRemote && !isLocal(whole) {
		return advise(c.wrong(key, "%s is another machine: what agents read would leave this one", whole), "allow_remote = true in [ollama], if that is wanted")
	}
	return nil
}

// Keep is how long a model stays loaded; negative is for good.
func (o *Ollama) Keep() *time.Duration {
	d, err := parseKeepAlive(o.KeepAlive)
	if err != nil {
		return nil // refused when the file was read
	}
	return &d
}

func parseKeepAlive(text string) (time.Duration, error) {
	if text == "-1" {
		return -1, nil
	}
	return ParseDuration(text)
}

var variableName = schemas.Pattern(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// checkKey checks how a server's key is named. It never shows what stands
// there: it may be the key itself, by mistake.
func (f *origins) checkKey(table, address, file, variable string) error {
	switch {
	case file != "" && variable != "":
		return f.wrong(table+".key_env", "the key is named twice: want key_file or key_env")
	case variable != "" && !variableName().MatchString(variable):
		return advise(f.wrongSecret(table+".key_env", "is no name of a variable"), `key_env is the name of a variable that holds the key, such as "OPENAI_API_KEY"`)
	case len(file) > 1024 || strings.ContainsAny(file, "\x00\n"):
		return f.wrongSecret(table+".key_file", "is no path of a file")
	case file+variable != "" && strings.HasPrefix(address, "http://") && !isLocal(address):
		return f.wrong(table+".url", "the key would be sent in the clear: want https")
	}
	return nil
}

// parseEndpoint reads the address of a server. The problem does not repeat the
// text, which may hold a password.
func parseEndpoint(text string) (*url.URL, string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.ContainsAny(text, " \t\r\n"):
		return nil, "is no address of a server: want something like https://host:8080/v1"
	case u.User != nil:
		return nil, "has a user or a password in it: want it without; key_file and key_env hold keys"
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return nil, "has a ? or # in it: want the bare address"
	case u.Port() != "" && !goodPort(u.Port()):
		return nil, "has no possible port: want 1 to 65535"
	}
	return u, ""
}

func goodPort(port string) bool {
	n, err := net.LookupPort("tcp", port)
	return err == nil && n > 0
}

// ollamaURL reads the address of Ollama as Ollama's own tools do: host, :port,
// host:port or a URL. An address that a server listens on everywhere is dialled
// on this machine.
func ollamaURL(text string) (address, problem string) {
	text = strings.TrimSpace(text)
	bare := !strings.Contains(text, "://")
	if bare {
		if strings.HasPrefix(text, ":") {
			text = "127.0.0.1" + text
		}
		text = "http://" + text
	}
	u, problem := parseEndpoint(text)
	if problem != "" {
		return "", problem
	}
	host, port := u.Hostname(), u.Port()
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	if port == "" && bare {
		port = "11434"
	}
	if u.Host = host; port != "" {
		u.Host = net.JoinHostPort(host, port)
	} else if strings.Contains(host, ":") {
		u.Host = "[" + host + "]"
	}
	return strings.TrimRight(u.String(), "/"), ""
}

// hostPort is what an address dials; "" for no address.
func hostPort(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func isLocal(address string) bool {
	u, err := url.Parse(address)
	return err == nil && isLoopback(u.Hostname())
}

// Here tells whether the brain's model runs on this machine, by Ollama.
func (b *Brain) Here() bool { return b.Kind == "ollama" && isLocal(b.URL) }

// BrainRefused tells why the agent's brain may not be asked; nil if it may. A
// variable that names another machine is no error of the configuration, since
// Ollama itself reads the same one: but nothing is sent there unasked.
func (c *File) BrainRefused(a *Agent) *Error {
	if a.Brain.Kind != "ollama" || c.Ollama.AllowRemote || a.Brain.Here() {
		return nil
	}
	return &Error{
		File: c.origin("ollama.url"), Problem: a.Brain.URL + " is another machine: what agents read would leave this one",
		Hint: "allow_remote = true in [ollama] of mbox.toml, if that is wanted",
	}
}
