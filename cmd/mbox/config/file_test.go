package config

import (
	"os"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"mbox/mailbox"
	"mbox/mailbox/durable"
)

// The defaults that the help and the template name are those in force.
func TestDefaults(t *testing.T) {
	home := t.TempDir()
	if err := mailbox.Create(home, mailbox.Options{Sync: durable.None}); err != nil {
		t.Fatal(err)
	}
	box, err := mailbox.Open(t.Context(), home, mailbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	have, want := box.Options(), defaults().Options()
	for _, o := range []*mailbox.Options{&have, &want} {
		o.Now, o.Progress, o.Agents = nil, nil, nil
		o.CopyDelay = 0 // no key: only the commands copy by time
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("defaults of the configuration\n%+v\nof the mailbox\n%+v", want, have)
	}
}

// The template is valid as it is and with every line uncommented, documents
// every key, and its comments show the defaults.
func TestTemplate(t *testing.T) {
	text := string(Template("", false))
	plain, err := Parse(Name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(plain.where) != 2 { // the tables [audit] and [logs]
		t.Errorf("the template sets %v", plain.where)
	}
	checkDocumented(t, "the template", uncommented(text))
}

// mbox help configuration has every key, too, with its default.
func TestConfigurationTopic(t *testing.T) {
	const topic = "../help/configuration.md"
	page, err := os.ReadFile(topic)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, block := range regexp.MustCompile("(?s)\n```toml\n(.*?)```\n").FindAllSubmatch(page, -1) {
		text.Write(block[1])
	}
	checkDocumented(t, topic, text.String())
}

// checkDocumented wants a file that sets every key, to its default but for the tables
// of agents, which are examples.
func checkDocumented(t *testing.T, name, text string) {
	t.Helper()
	full, err := Parse(Name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keysOf(reflect.TypeFor[File](), "") {
		if !documents(full, key) {
			t.Errorf("%s does not document %s", name, key)
		}
	}
	want, err := Parse(Name, []byte("[serve]")) // without which there are no such settings
	if err != nil {
		t.Fatal(err)
	}
	shown, values := map[string]string{}, map[string]string{}
	for _, v := range full.Values() {
		shown[v.Key] = v.Value
	}
	for _, v := range want.Values() {
		values[v.Key] = v.Value
	}
	for key, value := range values {
		if strings.HasPrefix(key, "agents.") {
			continue
		}
		if runtime.GOOS == "linux" && key == "risk_profiles.default.allowed_commands" {
			value = strings.TrimSuffix(value, ", free")
		}
		if shown[key] != value {
			t.Errorf("%s shows %s = %q, the default is %q", name, key, shown[key], value)
		}
	}
}

// documents tells whether a text sets a key, in any of its tables where the key
// has a * for a name.
func documents(c *File, key string) bool {
	pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(key), `\*`, `[^.]+`) + "$")
	for set := range c.where {
		if pattern.MatchString(set) {
			return true
		}
	}
	return false
}

// uncommented turns "# key = value" and "# [table]" into settings.
func uncommented(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		rest, ok := strings.CutPrefix(l, "# ")
		word, _, _ := strings.Cut(rest, " ")
		list := strings.HasPrefix(rest, `  "`) || rest == "]"
		if ok && (list || strings.HasPrefix(rest, "[") || strings.HasPrefix(strings.TrimPrefix(rest, word), " = ")) {
			lines[i] = rest
		}
	}
	return strings.Join(lines, "\n")
}

func keysOf(t reflect.Type, prefix string) []string {
	switch t.Kind() {
	case reflect.Pointer:
		return keysOf(t.Elem(), prefix)
	case reflect.Map:
		return keysOf(t.Elem(), prefix+".*")
	case reflect.Struct:
	default:
		return []string{prefix}
	}
	var keys []string
	for f := range t.Fields() {
		if tag := f.Tag.Get("toml"); tag != "" {
			keys = append(keys, keysOf(f.Type, strings.TrimPrefix(prefix+"."+tag, "."))...)
		}
	}
	return keys
}

// The JSON names of a key, from which its schema is made, are its TOML names.
func TestNames(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[File](), reflect.TypeFor[Agent](), reflect.TypeFor[Audit](), reflect.TypeFor[Role](), reflect.TypeFor[Brain](),
		reflect.TypeFor[Memory](), reflect.TypeFor[Ollama](), reflect.TypeFor[OpenAI](), reflect.TypeFor[Delegation](),
		reflect.TypeFor[Actions](), reflect.TypeFor[WriteFile](), reflect.TypeFor[HTTPCheck](), reflect.TypeFor[DeployCompose](), reflect.TypeFor[Serve](), reflect.TypeFor[Schedule](), reflect.TypeFor[ScheduleAction](),
	} {
		for f := range typ.Fields() {
			if !f.IsExported() {
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != f.Tag.Get("toml") || !strings.Contains(f.Tag.Get("jsonschema"), "description=") {
				t.Errorf("%s.%s: tags %s", typ.Name(), f.Name, f.Tag)
			}
		}
	}
}

func TestAgentsOfConfig(t *testing.T) {
	c, err := Parse(Name, []byte(`
agents.inline = { types = ["action"], actions = ["write_file"] }
agents.off = { enabled = false, concurrency = 7 }
[agents."bridge:slack"]
enabled = false
only_named = true
timeout = "90s"
`))
	if err != nil {
		t.Fatal(err)
	}
	inline, bridge := c.Agents["inline"], c.Agents["bridge:slack"]
	if !inline.Enabled || inline.Concurrency != 1 || inline.Timeout != DefaultTimeout {
		t.Errorf("inline: %+v", inline)
	}
	if bridge.Enabled || !bridge.OnlyNamed || bridge.Timeout != Duration(90*time.Second) {
		t.Errorf("bridge: %+v", bridge)
	}
	if off := c.Agents["off"]; off.Enabled || off.Concurrency != 7 || c.origin("agents.off.enabled") != "mbox.toml:3" {
		t.Errorf("off: %+v, from %s", off, c.origin("agents.off.enabled"))
	}
	o := c.Options().Agents
	if !o["bridge:slack"].Disabled || o["inline"].Disabled || o["inline"].Actions[0] != "write_file" {
		t.Errorf("options: %+v", o)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte("lease = \"15m\"\n[agents.coder]\ntypes = [\"other\"]\n"))
	f.Add([]byte("[agents]\nx = {enabled = false}\n"))
	f.Add([]byte("sync = 'none'\nlease = '1h30m'\nretry_base = '1ms'\n[audit]\nhash_identities = true\n[agents.\"bridge:x\"]\ntypes = []\nactions = ['write_file']\nexec = \"\"\"a\nb\\u001b\"\"\"\nconcurrency = 64\ntimeout = '90s'\n"))
	f.Add([]byte("# \u202e\n[agents.coder]\nenabled=false\nonly_named=true\n"))
	f.Add([]byte("[[agents]]\n"))
	f.Add([]byte("[roles.x]\nactions = ['delegate']\ntimeout = '1h'\n[roles.coder]\nmodel = 'a:b'\n[risk_profiles.y]\nlevel = 'full'\ndelegation_policy = { mode = 'allow' }\n[runtime_profiles.z]\nagentic = true\n"))
	f.Add([]byte("[agents.a]\nrole = 'x'\nbrain = { kind = 'exec', command = 'c' }\nworkspace.access.coder = 'read'\n[roles.x]\n[agents.deployer]\nenabled = true\n"))
	f.Add([]byte("[agents.b]\nrole = 'coder'\n[agents.b.brain]\nkind = 'openai'\nurl = 'https://x/v1'\nmodel = 'm'\nkey_env = 'K'\ntemperature = 0.5\n[agents.b.memory]\nbackend = 'none'\n"))
	f.Add([]byte("[ollama]\nurl = ':1'\npull = ['m']\nkeep_alive = '-1'\n[openai]\nurl = 'http://[::1]/'\n[delegation]\nmax_depth = 2\n[actions]\nwrite_file.roots = ['a/b']\nhttp_check = { loopback = ['[::1]:80'] }\ndeploy_compose.run = true\n"))
	f.Add([]byte("[agents.coder]\nrole = ''\n[openai]\napi_key = 'x'\n"))
	f.Add([]byte("lease = 1979-05-27T07:32:00Z\n"))
	f.Add([]byte("[serve]\naddress = 'LOCALHOST:80'\ncert = 'c'\nkey = 'k'\nmax_body = 2048\n"))
	f.Add([]byte("serve = { address = '[::]:9', insecure = true }\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var c *File
		var err error
		bounded(t, func() { c, err = Parse(Name, data) })
		if err == nil {
			c.Values()
			c.Options()
			c.Policy()
			for name, a := range c.Agents {
				if role, has := c.RoleOf(name); has && (role.Name != a.Role || a.Exec != "" || role.MaxTokens < 1) {
					t.Errorf("%s: role %+v of %+v", name, role, a)
				}
			}
			checkRoundTrip(t, c)
		} else if err.Error() == "" {
			t.Error("an error without words")
		}
	})
}
