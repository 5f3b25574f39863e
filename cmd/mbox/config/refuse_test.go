package config

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// refuses wants an error whose text fits.
func refuses(t *testing.T, what string, err error, want string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Errorf("%s: taken, or another error (%v); want %s", what, err, want)
	} else if !regexp.MustCompile(want).MatchString(err.Error()) {
		t.Errorf("%s: %v; want %s", what, err, want)
	}
}

// Every table is strict: an unknown key is named with its line and a guess.
func TestUnknownKeys(t *testing.T) {
	for _, c := range []struct{ table, wrong, near string }{
		{"roles.coder", "modle", "model"},
		{"roles.fifth", "maxtokens", "max_tokens"},
		{"risk_profiles.default", "work_space_only", "workspace_only"},
		{"risk_profiles.x.delegation_policy", "mod", "mode"},
		{"runtime_profiles.default", "agentc", "agentic"},
		{"agents.coder", "risk_profil", "risk_profile"},
		{"agents.coder.brain", "knd", "kind"},
		{"agents.coder.workspace", "acces", "access"},
		{"agents.coder.memory", "backnd", "backend"},
		{"ollama", "num_cxt", "num_ctx"},
		{"openai", "keyfile", "key_file"},
		{"delegation", "max_dept", "max_depth"},
		{"actions.write_file", "root", "roots"},
		{"actions.http_check", "loopbak", "loopback"},
		{"actions.deploy_compose", "runn", "run"},
		{"actions", "write_fil", "write_file"},
	} {
		_, err := Parse(Name, []byte("\n["+c.table+"]\n"+c.wrong+" = 1\n"))
		refuses(t, c.table, err, "^mbox.toml:3: unknown key "+regexp.QuoteMeta(c.table+"."+c.wrong)+"$")
		var e *Error
		if errors.As(err, &e) && e.Hint != "did you mean "+c.near+"?" {
			t.Errorf("%s.%s: hint %q, want %s", c.table, c.wrong, e.Hint, c.near)
		}
	}
}

// What makes no sense is refused, with the line.
func TestRefusedConfig(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"[agents.a]\nexec = 'x'\nexec_format = 'jsonl:claud'", `^mbox.toml:3: agents.a.exec_format: "jsonl:claud" is not allowed: want one of .*did you mean jsonl:claude`},
		{"[agents.a]\nexec = 'x'\nacp = 'y'", `mbox.toml:3: agents.a.acp: exec does its tasks already`},
		{"[agents.a]\nacp = 'y'\nrole = 'coder'", `mbox.toml:2: agents.a.acp: does a task whole`},
		{"[agents.a]\nacp = 'y'\nexit = {53 = 'final'}", `mbox.toml:3: agents.a.exit: it has no command`},
		{"[agents.a]\nagentzero = {url = 'http://127.0.0.1/api_message'}", `mbox.toml:2: agents.a.agentzero: wants both url and key_file`},
		{"[agents.a]\nagentzero = {url = 'http://127.0.0.1/api', key_file = 'k'}", `mbox.toml:2: agents.a.agentzero.url: does not end in /api_message`},
		{"[agents.a]\nagentzero = {url = 'http://example.org/api_message', key_file = 'k'}", `mbox.toml:2: agents.a.agentzero.url: the key would be sent in the clear`},
		{"[agents.a]\nagentzero = {url = 'https://a:b@x/api_message', key_file = 'k'}", `mbox.toml:2: agents.a.agentzero.url: has a user or a password`},
		{"[agents.a]\nacp = 'y'\nagentzero = {url = 'https://x/api_message', key_file = 'k'}", `mbox.toml:3: agents.a.agentzero: acp does its tasks already`},
		{"[agents.a]\nexec_format = 'lines'", `mbox.toml:2: agents.a.exec_format: it has no command`},
		{"[agents.a]\nexec = 'x'\nexit = {75 = 'final'}", `mbox.toml:3: agents.a.exit: "75" is not allowed: want an exit code`},
		{"[agents.a]\nexec = 'x'\nexit = {053 = 'final'}", `mbox.toml:3: agents.a.exit: "053" is not allowed`},
		{"[agents.a]\nexec = 'x'\nexit = {53 = 'retry'}", `mbox.toml:3: agents.a.exit: "retry" is not allowed: want one of release, final`},
		{"[agents.a]\nexec = 'x'\nquota = ['(']", `mbox.toml:3: agents.a.quota: "\(" is no regular expression`},
		{"[agents.a]\nexec = 'x'\nquota = ['']", `mbox.toml:3: agents.a.quota: "" is no regular expression`},
		{"[agents.a]\nexec = 'x'\naccount = 'a b'", `mbox.toml:3: agents.a.account: "a b" is not allowed`},
		{"[agents.a]\ndream_every = '10s'", `mbox.toml:2: agents.a.dream_every: 10s is not allowed: want 1m to 720h, or 0s for never`},
		{"[agents.a]\nmax_tasks_per_cycle = -1", `mbox.toml:2: agents.a.max_tasks_per_cycle: -1 is not allowed: want 0 to 10000`},
		{"[agents.a]\nmax_messages_per_cycle = 10001", `mbox.toml:2: agents.a.max_messages_per_cycle: 10001 is not allowed: want 0 to 10000`},
		{"[agents.a]\nmax_tasks_per_cycle = 1\nmax_messages_per_cycle = 2", `mbox.toml:3: agents.a.max_messages_per_cycle: is another name of max_tasks_per_cycle, which is 1`},
		{"[agents.a]\nmax_memory_lines = 9", `mbox.toml:2: agents.a.max_memory_lines: 9 is not allowed: want 10 to 10000`},
		{"[agents.a]\nwatch_channels = ['builds', '#General']", `mbox.toml:2: agents.a.watch_channels: "#General" is no name of a channel: want lower-case`},
		{"[roles.coder]\nactions = ['write_fiel']", `^mbox.toml:2: roles.coder.actions: "write_fiel" is not allowed: want one of .*did you mean write_file`},
		{"[roles.coder]\nactions = ['delegate', 'delegate']", "mbox.toml:2: .*twice"},
		{"[roles.coder]\nmodel = ''", "mbox.toml:2: roles.coder.model: .*no name of a model"},
		{"[roles.coder]\nfallback = ['a b']", "mbox.toml:2: roles.coder.fallback"},
		{"[roles.coder]\nmax_tokens = 0", "mbox.toml:2: roles.coder.max_tokens: 0 is not allowed: want 1 to"},
		{"[roles.coder]\nfolder = '../x'", `mbox.toml:2: roles.coder.folder: "../x" is not allowed`},
		{"[roles.coder]\ntimeout = '0s'", "mbox.toml:2: roles.coder.timeout: 0s is not allowed"},
		{"[roles.coder]\ncapabilities = ['a\\u0000']", "mbox.toml:2"},
		{"[roles.'No Role']\n", "mbox.toml:1: roles.No Role: .*no name of a role"},
		{"[risk_profiles.X]\n", "mbox.toml:1: .*no name of a profile"},
		{"[runtime_profiles.X]\n", "mbox.toml:1: .*no name of a profile"},
		{"[risk_profiles.default]\nlevel = 'read_only'", `mbox.toml:2: risk_profiles.default.level: "read_only" is spelled "readonly"`},
		{"[risk_profiles.default]\nlevel = 'fully'", `mbox.toml:2: .*did you mean full\?`},
		{"[risk_profiles.x.delegation_policy]\nmode = 'allowed'", "mbox.toml:2: .*did you mean allow"},
		{"[risk_profiles.x]\napproval_route = { on_no_approver = 'deny' }", "mbox.toml:2: risk_profiles.x.approval_route.*is not supported"},
		{"[risk_profiles.x]\napproval_route.timeout_secs = 120", "mbox.toml:2: risk_profiles.x.approval_route.*is not supported"},
		{"[risk_profiles.x.approval_route]\ntimeout_secs = 120", "mbox.toml:[12]: risk_profiles.x.approval_route.*is not supported"},
		{"[risk_profiles.x]\nfirejail_args = []", "mbox.toml:2: risk_profiles.x.firejail_args is not supported"},
		{"[risk_profiles.x]\nalways_ask = ['write_file', 'deploy_compse']", `mbox.toml:2: risk_profiles.x.always_ask: "deploy_compse" is no action: .*did you mean deploy_compose\?`},
		{"[risk_profiles.x]\nalways_ask = ['web_fetch']", `mbox.toml:2: risk_profiles.x.always_ask: "web_fetch" is no action`},
		{"[risk_profiles.x]\nexcluded_tools = ['htp_check']", `mbox.toml:2: risk_profiles.x.excluded_tools: .*did you mean http_check\?`},
		{"[risk_profiles.x]\nauto_approve = ['read_fiel']", `mbox.toml:2: risk_profiles.x.auto_approve: .*did you mean read_file\?`},
		{"[risk_profiles.x]\nauto_approve = ['terminal']", `mbox.toml:2: risk_profiles.x.auto_approve: "terminal" would approve nothing`},
		{"[risk_profiles.x]\nallowed_tools = ['WRITE_FILE']", `mbox.toml:2: risk_profiles.x.allowed_tools: "WRITE_FILE" is no action`},
		{"[actions.deploy_compose]\nregistries = ['https://ghcr.io']", `mbox.toml:2: actions.deploy_compose.registries: "https://ghcr.io" is no registry`},
		{"[actions.deploy_compose]\nregistries = ['ghcr.io/owner']", `mbox.toml:2: actions.deploy_compose.registries: "ghcr.io/owner" is no registry`},
		{"[actions.deploy_compose]\nregistries = ['*']", `mbox.toml:2: actions.deploy_compose.registries: .* is no registry`},
		{"[risk_profiles.x]\nsandbox_backend = 'firejail'", "mbox.toml:2: .*sandbox_backend"},
		{"[risk_profiles.x]\nsandbox_enabled = true\nsandbox_backend = 'none'", "mbox.toml:3: .*contradicts"},
		{"[risk_profiles.x]\nforbidden_paths = ['etc']", "mbox.toml:2: .*begins with /"},
		{"[runtime_profiles.x]\nmax_actions_per_hour = -1", "mbox.toml:2: .*-1 is not allowed"},
		{"[runtime_profiles.x]\nshell_timeout_secs = 60", "mbox.toml:2: runtime_profiles.x.shell_timeout_secs is not supported"},
		{"[runtime_profiles.x]\nmax_cost_per_day_cents = 500", "mbox.toml:2: runtime_profiles.x.max_cost_per_day_cents is not supported"},

		{"[agents.x]\nexec = 'e'\nrole = 'coder'", "mbox.toml:2: agents.x.exec: .*one or the other"},
		{"[agents.coder]\nexec = 'e'\nrole = 'coder'", "mbox.toml:2: agents.coder.exec"},
		{"[agents.coder]\nexec = 'e'\nbrain.kind = 'ollama'", "mbox.toml:2: agents.coder.exec"},
		{"[agents.x]\nbrain.kind = 'ollama'", "mbox.toml:2: agents.x.brain.kind: what thinks needs a role"},
		{"[agents.x]\nrole = 'codr'", `mbox.toml:2: agents.x.role: there is no \[roles.codr\].*did you mean coder`},
		{"[agents.x]\nrole = 'coder'\nactions = ['http_check']", "mbox.toml:3: agents.x.actions: the role coder does not allow http_check"},
		{"[agents.x]\nrisk_profile = 'defautl'", `mbox.toml:2: .*there is no \[risk_profiles.defautl\].*did you mean default`},
		{"[agents.x]\nruntime_profile = 'y'", `mbox.toml:2: .*there is no \[runtime_profiles.y\]`},
		{"[agents.x]\nsandbox = 'landlok'", "mbox.toml:2: .*did you mean landlock"},
		{"[agents.coder.brain]\nkind = 'olama'", "mbox.toml:2: .*did you mean ollama"},
		{"[agents.coder.brain]\nkind = 'exec'", "mbox.toml:1: .*needs a command"},
		{"[agents.coder.brain]\ncommand = 'c'", `mbox.toml:2: .*a brain of kind "ollama" has none: it is for exec`},
		{"[agents.coder.brain]\nkind = 'exec'\ncommand = 'c'\nmodel = 'm'", "mbox.toml:4: .*it is for ollama and openai"},
		{"[agents.coder.brain]\nkey_env = 'K'", "mbox.toml:2: .*it is for openai"},
		{"[agents.coder.brain]\ntemperature = 2.5", "mbox.toml:2: .*want 0 to 2"},
		{"[agents.coder.brain]\ntemperature = nan", "mbox.toml:2: .*want 0 to 2"},
		{"[agents.coder.brain]\nurl = 'http://far'", "mbox.toml:2: .*another machine"},
		{"[agents.coder.brain]\nkind = 'openai'\nmodel = 'm'", "mbox.toml:1: .*needs the address"},
		{"[agents.coder.brain]\nkind = 'openai'\nurl = 'https://x/v1'", "mbox.toml:1: .*needs a model"},
		{"[agents.coder.brain]\nkind = 'openai'\nurl = 'http://x/v1'\nmodel = 'm'\nkey_env = 'K'", "mbox.toml:3: .*in the clear"},
		{"[agents.coder.workspace]\npath = '../x'", "mbox.toml:2: .*want a folder of the mailbox"},
		{"[agents.coder.workspace]\npath = 'tasks/pending'", "mbox.toml:2: .*no place for an agent"},
		{"[agents.coder.workspace]\npath = 'channels/general'", "mbox.toml:2: .*no place for an agent"},
		{"[agents.coder.workspace]\npath = '.'", "mbox.toml:2: .*no place for an agent"},
		{"[agents.coder.workspace]\npath = '/'", "mbox.toml:2: .*no place for an agent"},
		{"[agents.x]\nexec = 'true'\nworkspace = { path = 'w' }", "mbox.toml:3: .*a command works in"},
		{"[agents.'bridge:x']\nexec = 'true'\n[agents.bridge_x]\nexec = 'true'", "mbox.toml:1: .*agents/bridge_x, is that of another"},
		{"[agents.coder.workspace]\naccess = { codr = 'read' }", `mbox.toml:2: .*there is no \[agents.codr\].*did you mean coder`},
		{"[agents.coder.workspace.access]\ncoder = 'read'", "mbox.toml:2: .*the agent itself"},
		{"[agents.coder.workspace.access]\ntester = 'rw'", "mbox.toml:2: .*want one of read, write, read_write"},
		{"[agents.coder.workspace]\nread_memory_from = ['tester']", "mbox.toml:2: .*tester has no memory"},
		{"[agents.coder.workspace]\nread_memory_from = ['coder']", "mbox.toml:2: .*the agent itself"},
		{"[agents.coordinator]\ndelegates = ['nobody']", `mbox.toml:2: .*there is no \[agents.nobody\]`},
		{"[agents.coordinator]\ndelegates = ['coordinator']", "mbox.toml:2: .*the agent itself"},
		{"[agents.coder]\ndelegates = ['tester']", "mbox.toml:2: .*forbids to hand work on"},
		{"[agents.coder.memory]\nbackend = 'lucid'", `mbox.toml:2: .*"lucid" is a closed tool`},
		{"[agents.coder.memory]\nbackend = 'qdrant'", `mbox.toml:2: .*no \[qdrant\] says where`},
		{"[qdrant]\nurl = 'qdrant.example.org:6334'", "mbox.toml:2: qdrant.url: is no address"},
		{"[qdrant]\nurl = 'http://'", "mbox.toml:2: qdrant.url: is no address"},
		{"[qdrant]\nurl = 'http://127.0.0.1:6334/collections'", "mbox.toml:2: qdrant.url: is no address"},
		{"[qdrant]\nurl = 'http://127.0.0.1:99999'", "mbox.toml:2: qdrant.url: is no address"},
		{"[qdrant]\nurl = 'http://qdrant.example.org'\nkey_env = 'A'", "mbox.toml:2: qdrant.url: .*in the clear"},
		{"[qdrant]\nkey_file = 'a'\nkey_env = 'A'", "mbox.toml:3: .*named twice"},
		{"[qdrant]\ncollection = 'a/b'", "mbox.toml:2: qdrant.collection: "},
		{"[agents.coder.memory]\nbackend = 'postgres'", `mbox.toml:2: .*no \[postgres\] says where`},
		{"[agents.coder.memory]\nbackend = 'markdown'\nembed_model = 'm'", `mbox.toml:3: .*finds by words alone`},
		{"[postgres]\nurl_file = 'a'\nurl_env = 'A'", "mbox.toml:3: .*named twice"},
		{"[agents.coder.memory]\nbackend = 'exec'", `mbox.toml:2: .*memory.backend: no command`},
		{"[agents.coder.memory]\nbackend = 'sqlite'\ncommand = 'x'", `mbox.toml:3: .*memory.command: the backend "sqlite" has no program`},
		{"[agents.coder.memory]\nbackend = 'exec'\ncommand = \"a\\u0000\"", `mbox.toml:3: .*NUL`},
		{"[agents.coder.memory]\nbackend = 'sqllite'", "mbox.toml:2: .*want one of none, markdown, sqlite, postgres, qdrant, exec; did you mean sqlite"},
		{"[runtime_profiles.x]\nmemory_recall_limit = 0", "mbox.toml:2: runtime_profiles.x.memory_recall_limit"},

		{"[ollama]\nurl = 'http://10.1.1.1:11434'", "mbox.toml:2: .*another machine"},
		{"[ollama]\nurl = 'gopher://x'", "mbox.toml:2: ollama.url: is no address"},
		{"[ollama]\nkeep_alive = 'long'", "mbox.toml:2: .*want a duration"},
		{"max_attempts = 3\narchive_after = 7", "^mbox.toml:2: archive_after: this is a whole number, want a duration such as 90s, 15m, 1h30m or 7d$"},
		{"lease = 0x3b9aca00", "^mbox.toml:1: lease: this is a whole number, want a duration"},
		{"logs = { max_bytes = 65536, max_age = 0 }", "^mbox.toml:1: logs.max_age: this is a whole number, want a duration"},
		{"[roles.coder]\ntimeout = 60_000_000_000", "^mbox.toml:2: roles.coder.timeout: this is a whole number, want a duration"},
		{"agents.'a.b'.exec = 'true'\nagents.'a.b'.timeout = 60000000000", "^mbox.toml:2: agents.a.b.timeout: this is a whole number, want a duration"},
		{"[accept.a]\ncommand = 'true'\ntimeout = 60000000000", "^mbox.toml:3: accept.a.timeout: this is a whole number, want a duration"},
		{"[schedules.a]\ntitle = 'x'\nevery = 60000000000", "^mbox.toml:3: schedules.a.every: this is a whole number, want a duration"},
		{"[ollama]\nnum_ctx = 1", "mbox.toml:2: ollama.num_ctx"},
		{"[ollama]\nparallel = 0", "mbox.toml:2: ollama.parallel"},
		{"[ollama]\npull = ['']", "mbox.toml:2: ollama.pull"},
		{"[openai]\nurl = 'x'", "mbox.toml:2: openai.url"},
		{"[openai]\nkey_env = 'A'\nkey_file = 'b'", "mbox.toml:2: .*named twice"},
		{"[delegation]\nmax_depth = 0", "mbox.toml:2: delegation.max_depth: 0"},
		{"[delegation]\nmax_tokens = -5", "mbox.toml:2: delegation.max_tokens"},
		{"[actions.write_file]\nextensions = ['py']", "mbox.toml:2: .*no extension"},
		{"[actions.write_file]\nroots = ['/etc']", "mbox.toml:2: .*want a folder of the workspace"},
		{"[actions.write_file]\nroots = ['a/../..']", "mbox.toml:2: .*want a folder of the workspace"},
		{"[actions.write_file]\nmax_bytes = 2000000", "mbox.toml:2: .*max_bytes"},
		{"[actions.http_check]\nloopback = ['example.com:80']", "mbox.toml:2: .*host:port of this machine"},
		{"[actions.http_check]\nloopback = ['127.0.0.1']", "mbox.toml:2: .*host:port of this machine"},
		{"[actions.http_check]\nloopback = ['localhost:0']", "mbox.toml:2: .*host:port of this machine"},

		{"[serve]\naddress = '127.0.0.1'", `mbox.toml:2: serve.address: "127.0.0.1" is no host:port`},
		{"[serve]\naddress = '::1:80'", "mbox.toml:2: serve.address: .*no host:port"},
		{"[serve]\naddress = '127.0.0.1:0'", "mbox.toml:2: serve.address: .*no possible port"},
		{"[serve]\naddress = '127.0.0.1:http'", "mbox.toml:2: serve.address: .*no possible port"},
		{"[serve]\naddress = '127.0.0.1:65536'", "mbox.toml:2: serve.address: .*no possible port"},
		{"[serve]\naddress = 'a b:80'", "mbox.toml:2: serve.address: .*no possible host"},
		{"[serve]\naddress = '[fe80::1%eth0]:80'", "mbox.toml:2: serve.address: .*no possible host"},
		{"[serve]\naddress = ':80'", "mbox.toml:2: serve.address: :80 can be reached from other machines"},
		{"[serve]\naddress = '0.0.0.0:80'", "mbox.toml:2: serve.address: 0.0.0.0:80 can be reached"},
		{"[serve]\naddress = '[::]:80'", "mbox.toml:2: serve.address: .*can be reached"},
		{"[serve]\naddress = '192.168.1.2:80'", "mbox.toml:2: serve.address: .*can be reached"},
		{"[serve]\naddress = 'box.lan:80'", "mbox.toml:2: serve.address: .*can be reached"},
		{"[serve]\naddress = '127.1:80'", "mbox.toml:2: serve.address: .*can be reached"},
		{"[serve]\ninsecure = false\naddress = '0.0.0.0:80'", "mbox.toml:3: serve.address: .*can be reached"},
		{"[serve]\ncert = 'c'", "mbox.toml:2: serve.cert: needs key, too"},
		{"[serve]\nkey = 'k'", "mbox.toml:2: serve.key: needs cert, too"},
		{"[serve]\naddress = ':80'\nkey = 'k'", "mbox.toml:3: serve.key: needs cert, too"},
		{"[serve]\nmax_body = 1023", "mbox.toml:2: serve.max_body: 1023 is not allowed"},
		{"[serve]\nmax_body = 1048577", "mbox.toml:2: serve.max_body: 1048577 is not allowed"},
		{"[serve]\nport = 80", "mbox.toml:2: unknown key serve.port"},
	} {
		_, err := Parse(Name, []byte(c.text))
		refuses(t, c.text, err, c.want)
	}
}

// A secret in the file is refused, and no word of it is repeated.
func TestSecretsStayOutOfTheFile(t *testing.T) {
	const secret = "hunter2"
	for text, want := range map[string]string{
		"[serve]\ntoken = '" + secret + "'":                                           "mbox.toml:2: serve.token: a secret does not stand in mbox.toml",
		"[serve]\ncert = 'c'\nkey = \"-----BEGIN PRIVATE KEY-----\\n" + secret + "\"": "mbox.toml:3: serve.key: is no path of a file",
		"[openai]\napi_key = '" + secret + "'":                                        "mbox.toml:2: openai.api_key: a secret does not stand in mbox.toml",
		"[openai]\n\"API-Key\" = '" + secret + "'":                                    "mbox.toml:2: .*a secret",
		"[agents.coder.brain]\ntoken = '" + secret + "'":                              "mbox.toml:2: agents.coder.brain.token: a secret",
		"[agents.coder]\nbrain = { kind = 'openai', password = '" + secret + "'}":     "mbox.toml:2: .*password: a secret",
		"password = '" + secret + "'":                                                 "mbox.toml:1: password: a secret",
		"[openai]\nkey_env = 'sk-" + secret + "'":                                     "mbox.toml:2: openai.key_env: is no name of a variable",
		"[openai]\nurl = 'https://me:" + secret + "@x/v1'":                            "mbox.toml:2: openai.url: has a user or a password",
		"[ollama]\nurl = 'http://me:" + secret + "@localhost'":                        "mbox.toml:2: ollama.url: has a user or a password",
		"[postgres]\nurl_env = 'postgres://u:" + secret + "@h/d'":                     "mbox.toml:2: .*is no name of a variable",
		"[postgres]\nurl = 'postgres://u:" + secret + "@h/d'":                         "mbox.toml:2: postgres.url: a secret does not stand in",
		"[qdrant]\nurl = 'http://me:" + secret + "@localhost'":                        "mbox.toml:2: qdrant.url: is no address",
		"[qdrant]\nurl = 'http://localhost?key=" + secret + "'":                       "mbox.toml:2: qdrant.url: is no address",
		"[qdrant]\napi_key = '" + secret + "'":                                        "mbox.toml:2: qdrant.api_key: a secret does not stand in",
		"[qdrant]\nkey_env = 'sk-" + secret + "'":                                     "mbox.toml:2: qdrant.key_env: is no name of a variable",
		"[agents.coder.brain]\nurl = 'http://me:" + secret + "@localhost'":            "mbox.toml:2: .*has a user or a password",
	} {
		_, err := Parse(Name, []byte(text))
		refuses(t, text, err, want)
		var e *Error
		if errors.As(err, &e) && strings.Contains(e.Error()+e.Excerpt+e.Hint, secret) {
			t.Errorf("%s: shows the secret: %+v", text, e)
		}
	}
}

// A configuration that others can write is not read, unless its folder is closed.
func TestConfigOfOthers(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, Name)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		folder, file os.FileMode
		good         bool
	}{{0o755, 0o644, true}, {0o755, 0o600, true}, {0o755, 0o664, false}, {0o755, 0o646, false}, {0o700, 0o666, true}, {0o710, 0o666, false}} {
		if err := errors.Join(os.Chmod(dir, c.folder), os.Chmod(file, c.file)); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir); (err == nil) != c.good {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Names of tools that mean something, or nothing by default, are taken.
func TestToolsTaken(t *testing.T) {
	for _, text := range []string{
		"[risk_profiles.x]\nalways_ask = ['*', 'deploy_compose', ' ']", "[risk_profiles.x]\nexcluded_tools = ['*']",
		"[risk_profiles.x]\nauto_approve = ['file_read', 'write_file']", "[risk_profiles.x]\nallowed_tools = ['web_fetch', 'read_file']",
		"[actions.deploy_compose]\nregistries = ['localhost:5000', 'ghcr.io', 'registry.lan']",
	} {
		if _, err := Parse(Name, []byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
