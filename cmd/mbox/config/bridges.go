package config

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"mbox/agents/chat"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// Bridges are the tables [bridges.NAME], by name.
type Bridges map[string]*Bridge

// Bridge is a table [bridges.NAME]: a chat system by which people reach an agent.
type Bridge struct {
	Enabled        bool     `toml:"enabled" json:"enabled,omitzero" jsonschema:"default=true,description=false: mbox up does not run it"`
	Kind           string   `toml:"kind" json:"kind,omitzero" jsonschema:"description=which chat system; mbox help bridges lists them"`
	To             string   `toml:"to" json:"to,omitzero" jsonschema:"description=the agent that gets what is written"`
	Allow          []string `toml:"allow" json:"allow,omitzero" jsonschema:"description=who may write\\, exactly as the system names them; * is everybody in one of the rooms"`
	Operators      []string `toml:"operators" json:"operators,omitzero" jsonschema:"description=who may besides approve and cancel any task"`
	RequireProof   bool     `toml:"require_proof" json:"require_proof,omitzero" jsonschema:"default=false,description=a message counts only where the system knows more of its sender than a name"`
	MaxMessage     int      `toml:"max_message" json:"max_message,omitzero" jsonschema:"default=32768,minimum=1,maximum=262144,description=bytes of a message"`
	MaxAttachment  int64    `toml:"max_attachment" json:"max_attachment,omitzero" jsonschema:"default=10485760,minimum=1,maximum=52428800,description=bytes of a file that comes with a message"`
	MaxAttachments int      `toml:"max_attachments" json:"max_attachments,omitzero" jsonschema:"default=10,minimum=0,maximum=20,description=files of a message\\, 64 MiB of them together at most; 0: a message with a file is refused"`
	PerHour        int      `toml:"per_hour" json:"per_hour,omitzero" jsonschema:"default=60,minimum=1,maximum=100000,description=messages of one sender"`
	Burst          int      `toml:"burst" json:"burst,omitzero" jsonschema:"default=10,minimum=1,maximum=10000,description=of these at once"`
	TotalPerHour   int      `toml:"total_per_hour" json:"total_per_hour,omitzero" jsonschema:"default=600,minimum=1,maximum=1000000,description=messages of all but operators\\, a tenth of them at once"`

	// Settings of the kind; those that are not secrets have the names that they
	// have in chat.Settings.
	Server       string   `toml:"server" json:"server,omitzero" jsonschema:"description=the server: a URL\\, whose scheme tells protocol and TLS"`
	Outgoing     string   `toml:"outgoing" json:"outgoing,omitzero" jsonschema:"description=the server that sends\\, where it is another"`
	User         string   `toml:"user" json:"user,omitzero" jsonschema:"description=the account"`
	TokenFile    string   `toml:"token_file" json:"token_file,omitzero" jsonschema:"description=file that holds the token; relative ones from the mailbox's folder"`
	TokenEnv     string   `toml:"token_env" json:"token_env,omitzero" jsonschema:"description=name of the environment variable that holds the token"`
	PasswordFile string   `toml:"password_file" json:"password_file,omitzero" jsonschema:"description=file that holds the password; relative ones from the mailbox's folder"`
	PasswordEnv  string   `toml:"password_env" json:"password_env,omitzero" jsonschema:"description=name of the environment variable that holds the password"`
	Rooms        []string `toml:"rooms" json:"rooms,omitzero" jsonschema:"description=the groups that are listened to"`
	Listen       string   `toml:"listen" json:"listen,omitzero" jsonschema:"description=host:port where the server calls us"`
	Command      []string `toml:"command" json:"command,omitzero" jsonschema:"description=a program and its arguments that speaks for us"`
	CA           string   `toml:"ca" json:"ca,omitzero" jsonschema:"description=PEM file of who signs the server's certificate; relative ones from the mailbox's folder"`
	Insecure     bool     `toml:"insecure" json:"insecure,omitzero" jsonschema:"default=false,description=credentials may travel in the clear to another machine"`
	Authserv     string   `toml:"authserv" json:"authserv,omitzero" jsonschema:"description=by which name the server says in a mail's header what it knows of the sender"`
	Method       string   `toml:"method" json:"method,omitzero" jsonschema:"description=by which of its ways the server sends\\, where it has several"`
	Format       string   `toml:"format" json:"format,omitzero" jsonschema:"description=how messages are written\\, where the kind knows several ways"`

	home string // the mailbox's folder
}

// secrets are the settings that stand in a file or a variable.
var secrets = []string{"token", "password"}

// fillBridges puts the defaults under what the tables say.
func fillBridges(c *File) {
	def := Bridge{Enabled: true, MaxMessage: 32 << 10, MaxAttachment: 10 << 20, MaxAttachments: 10, PerHour: 60, Burst: 10, TotalPerHour: 600}
	for name, b := range c.Bridges {
		fill(c, "bridges."+name, b, &def)
		b.home = c.Home()
	}
}

// checkBridges refuses what makes no sense whatever the kind is.
func checkBridges(c *File) error {
	return checkTables(c, "bridges", "bridge", c.Bridges, func(key string, b *Bridge) error {
		if b.To != "" && !c.dead[b.To] {
			if err := checkName(c, key+".to", b.To, "agents", c.Agents); err != nil {
				return err
			}
		}
		if err := c.checkPeople(key, b); err != nil {
			return err
		}
		if err := c.checkNumbers(key, bound{".max_message", b.MaxMessage, 1, 256 << 10},
			bound{".max_attachment", int(b.MaxAttachment), 1, 50 << 20}, bound{".max_attachments", b.MaxAttachments, 0, task.MaxAttachments}, bound{".per_hour", b.PerHour, 1, 100_000},
			bound{".burst", b.Burst, 1, 10_000}, bound{".total_per_hour", b.TotalPerHour, 1, 1_000_000}); err != nil {
			return err
		}
		return c.checkConnection(key, b)
	})
}

func (f *origins) checkPeople(key string, b *Bridge) error {
	for _, list := range []struct {
		key   string
		names []string
	}{{"allow", b.Allow}, {"operators", b.Operators}, {"rooms", b.Rooms}} {
		for i, name := range list.names {
			if !chat.IsName(name) || slices.Contains(list.names[:i], name) {
				return f.wrong(key+"."+list.key, "%s is not allowed: want each name once, on one line, of at most 256 bytes", quoted(name))
			}
		}
	}
	if slices.Contains(b.Operators, chat.Anyone) || slices.Contains(b.Rooms, chat.Anyone) {
		return f.wrong(key+".operators", "%q names nobody here: operators and rooms are spelled out", chat.Anyone)
	}
	if slices.Contains(b.Allow, chat.Anyone) && len(b.Rooms) == 0 {
		return advise(f.wrong(key+".allow", "%q is everybody in the rooms, and there are none", chat.Anyone), "rooms names those in which everybody may write; else allow names each person")
	}
	return nil
}

// checkConnection never shows what stands where a secret may stand by mistake.
func (f *origins) checkConnection(key string, b *Bridge) error {
	for _, s := range []struct{ name, file, variable string }{{"token", b.TokenFile, b.TokenEnv}, {"password", b.PasswordFile, b.PasswordEnv}} {
		if err := f.checkSecret(key, s.name, s.file, s.variable); err != nil {
			return err
		}
	}
	for _, s := range []struct{ name, address string }{{"server", b.Server}, {"outgoing", b.Outgoing}} {
		if u, err := url.Parse(s.address); err != nil || u.User != nil {
			return f.wrongSecret(key+"."+s.name, "is no address, or has a user or a password in it: want it without")
		}
	}
	return nil
}

// checkSecret never shows it, either.
func (f *origins) checkSecret(key, name, file, variable string) error {
	switch {
	case file != "" && variable != "":
		return f.wrongSecret(key+"."+name+"_env", "the %s is named twice: want %s_file or %s_env", name, name, name)
	case variable != "" && !variableName().MatchString(variable):
		return f.wrongSecret(key+"."+name+"_env", "is no name of a variable")
	case len(file) > 1024 || strings.ContainsAny(file, "\x00\n"):
		return f.wrongSecret(key+"."+name+"_file", "is no path of a file")
	}
	return nil
}

// CheckBridges holds the bridges against the kinds that there are. It changes nothing.
func CheckBridges(c *File, kinds []chat.Kind) error {
	for _, name := range slices.Sorted(maps.Keys(c.Bridges)) {
		b, key := c.Bridges[name], "bridges."+name
		known := make([]string, len(kinds))
		for i, k := range kinds {
			known[i] = k.Name
		}
		if !c.has(key + ".kind") {
			return advise(c.wrong(key, "it does not say of which kind it is"), "kind is %s", oneOfThese(known))
		}
		if err := c.checkWord(key+".kind", b.Kind, known); err != nil {
			return err
		}
		kind := &kinds[slices.Index(known, b.Kind)]
		if err := c.checkKind(key, b, kind); err != nil {
			return err
		}
		if err := checkTwins(c, name, b, kind); err != nil {
			return err
		}
	}
	return nil
}

// checkTwins refuses a second bridge that hears somebody in the same account: each
// would make a task of a message, and both would answer.
func checkTwins(c *File, name string, b *Bridge, k *chat.Kind) error {
	if k.Stdio || k.Sends || !b.Enabled {
		return nil
	}
	for _, other := range c.Bridges.Names() {
		if o := c.Bridges[other]; other < name && b.account() == o.account() && b.hearsAsWell(o) {
			return advise(c.wrong("bridges."+name, "[bridges.%s] has the same account and hears the same people: they would be answered twice", other), "one bridge for each account, or allow and rooms that have nobody in common")
		}
	}
	return nil
}

// account is what the table says of the account, for comparison.
func (b *Bridge) account() string {
	return fmt.Sprintf("%q", []any{b.Kind, b.Server, b.User, b.TokenFile, b.TokenEnv, b.PasswordFile, b.PasswordEnv, b.Listen, b.Command})
}

// hearsAsWell tells whether both may hear the same message.
func (b *Bridge) hearsAsWell(o *Bridge) bool {
	ours, theirs := slices.Concat(b.Allow, b.Operators), slices.Concat(o.Allow, o.Operators)
	common := func(a, b []string) bool {
		return slices.ContainsFunc(a, func(name string) bool { return name != chat.Anyone && slices.Contains(b, name) })
	}
	return common(ours, theirs) || slices.Contains(slices.Concat(ours, theirs), chat.Anyone) && common(b.Rooms, o.Rooms)
}

func (f *origins) checkKind(key string, b *Bridge, k *chat.Kind) error {
	if b.To == "" && !k.Sends {
		return advise(f.wrong(key, "it does not say to whom messages go"), `to = "NAME", an agent of this mailbox`)
	}
	for _, s := range kindSettings() {
		uses := slices.ContainsFunc(slices.Concat(k.Needs, k.Takes), func(n string) bool { return trimSecret(n) == trimSecret(s) })
		if f.has(key+"."+s) && !uses {
			return f.wrong(key+"."+s, "a bridge of kind %q has none: want %s", k.Name, strings.Join(written(slices.Concat(k.Needs, k.Takes)), ", "))
		}
	}
	for _, need := range k.Needs {
		if !slices.ContainsFunc(keysFor(need), func(s string) bool { return f.has(key + "." + s) }) {
			page := k.Name
			if page == "stdio" { // it has none of its own
				page = "bridges"
			}
			return advise(f.wrong(key, "a bridge of kind %q needs %s", k.Name, strings.Join(keysFor(need), " or ")), "mbox help %s tells what stands there", page)
		}
	}
	if k.Sends {
		return f.checkSender(key, b, k)
	}
	switch {
	case len(b.Allow)+len(b.Operators) == 0:
		return advise(f.wrong(key, "it allows nobody"), "allow names each person that may write, exactly as %s names them", k.Name)
	case b.RequireProof && !k.Claims:
		return advise(f.wrong(key+".require_proof", "%s itself vouches for its senders, and has no other proof: nobody would be heard", k.Name), "leave it out")
	case b.RequireProof && b.Authserv == "" && slices.Contains(k.Takes, "authserv"):
		return advise(f.wrong(key+".require_proof", "authserv does not say whose word is a proof: nobody would be heard"), "mbox help %s tells what authserv is", k.Name)
	case k.Claims && len(b.Operators) > 0 && !b.RequireProof:
		return advise(f.wrong(key+".operators", "with %s anybody can take anybody's name, and an operator's word counts", k.Name), "require_proof = true in [%s]", key)
	}
	return nil
}

// checkSender refuses what makes no sense for a bridge that hears nobody.
func (f *origins) checkSender(key string, b *Bridge, k *chat.Kind) error {
	for _, s := range []string{"to", "operators", "require_proof", "max_message", "per_hour", "burst", "total_per_hour"} {
		if f.has(key + "." + s) {
			return f.wrong(key+"."+s, "a bridge of kind %q only sends: this is for one that hears people", k.Name)
		}
	}
	if len(b.Allow)+len(b.Rooms) == 0 {
		return advise(f.wrong(key, "it may answer nobody"), "allow names each person that results go to, and rooms each group: mbox help %s", k.Name)
	}
	return nil
}

// kindSettings are the keys of a table that belong to its kind.
func kindSettings() (keys []string) {
	own := false
	for f := range reflect.TypeFor[Bridge]().Fields() {
		if own = own || f.Name == "Server"; own {
			keys = append(keys, f.Tag.Get("toml"))
		}
	}
	return keys
}

// keysFor are the keys by which a table gives a setting; a secret has two.
func keysFor(setting string) []string {
	if setting = trimSecret(setting); slices.Contains(secrets, setting) {
		return []string{setting + "_file", setting + "_env"}
	}
	return []string{setting}
}

func written(settings []string) (keys []string) {
	for _, s := range settings {
		keys = append(keys, keysFor(s)...)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func trimSecret(key string) string {
	for _, s := range secrets {
		if key == s+"_file" || key == s+"_env" {
			return s
		}
	}
	return key
}

// Rules are what a bridge's table says of who may use it.
func (b *Bridge) Rules() chat.Rules {
	return chat.Rules{
		Allow: slices.Clone(b.Allow), Operators: slices.Clone(b.Operators), RequireProof: b.RequireProof,
		MaxMessage: b.MaxMessage, MaxAttachment: b.MaxAttachment, MaxAttachments: b.MaxAttachments,
		PerHour: b.PerHour, Burst: b.Burst, TotalPerHour: b.TotalPerHour,
	}
}

// Settings are those of the bridge's channel. The secrets are read now; they are
// never kept, and never part of an error.
func (b *Bridge) Settings() (s chat.Settings, err error) {
	from, to := reflect.ValueOf(b).Elem(), reflect.ValueOf(&s).Elem()
	for i := range to.NumField() {
		if f := from.FieldByName(to.Type().Field(i).Name); f.IsValid() {
			to.Field(i).Set(f)
		}
	}
	if s.CA != "" {
		s.CA = b.path(s.CA)
	}
	if s.Token, err = b.secret("token", b.TokenFile, b.TokenEnv); err == nil {
		s.Password, err = b.secret("password", b.PasswordFile, b.PasswordEnv)
	}
	return s, err
}

// SecretFiles are the files that hold the bridge's secrets, by the names that they
// have in the table, and where these lead.
func (b *Bridge) SecretFiles() (paths []string) {
	for _, file := range []string{b.TokenFile, b.PasswordFile} {
		if file == "" {
			continue
		}
		paths = append(paths, b.path(file))
		if real, err := filepath.EvalSymlinks(b.path(file)); err == nil && real != b.path(file) {
			paths = append(paths, real)
		}
	}
	return paths
}

func (b *Bridge) path(file string) string { return pathFrom(b.home, file) }

func pathFrom(home, file string) string {
	if filepath.IsAbs(file) {
		return filepath.Clean(file)
	}
	return filepath.Join(home, file)
}

// maxSecret is how long a token or a password may be, in bytes.
const maxSecret = 16 << 10

// secret reads a secret of a bridge.
func (b *Bridge) secret(what, file, variable string) (string, error) {
	text, err := readSecret(b.home, what, file, variable)
	if err != nil {
		return "", fmt.Errorf("%w: %w", chat.ErrSetup, err)
	}
	return text, nil
}

// readSecret reads a secret from a file that nobody else can read, or a variable. Where
// none is named there is none.
func readSecret(home, what, file, variable string) (text string, err error) {
	switch {
	case file != "":
		real, err := filepath.EvalSymlinks(pathFrom(home, file)) // the name may be a link to where a system keeps its secrets
		if err != nil {
			return "", fmt.Errorf("the %s's file: %w", what, err)
		}
		data, err := durable.ReadPrivate(real, maxSecret)
		if err != nil {
			return "", fmt.Errorf("the %s's file: %w", what, err)
		}
		text = strings.TrimSpace(string(data))
	case variable != "":
		text = strings.TrimSpace(os.Getenv(variable))
	default:
		return "", nil
	}
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", fmt.Errorf("the %s is empty, or more than one line", what)
	}
	return text, nil
}

// Names are those of the bridges that mbox up is to run.
func (b Bridges) Names() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if b[name].Enabled {
			names = append(names, name)
		}
	}
	return names
}

// listen are the addresses where bridges are called.
func (b Bridges) listen() (at []string) {
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if address, problem := listenAddress(b[name].Listen); problem == "" {
			at = append(at, address)
		}
	}
	return at
}

// Named is the table of this name; an error guesses which was meant.
func (b Bridges) Named(name string) (*Bridge, error) {
	if one := b[name]; one != nil {
		return one, nil
	}
	e := &Error{File: Name, Problem: fmt.Sprintf("there is no [bridges.%s]", schemas.Sentence(name, 80)), Hint: "mbox help bridges tells how to make one"}
	if near := schemas.Suggest(name, slices.Sorted(maps.Keys(b))); near != "" {
		e.Hint = fmt.Sprintf("did you mean %s?", near)
	}
	return nil, e
}
