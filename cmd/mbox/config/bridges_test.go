package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"mbox/agents/chat"
)

var someKinds = []chat.Kind{
	{Name: "plain", Needs: []string{"user"}, Takes: []string{"rooms"}},
	{Name: "net", Needs: []string{"server", "token"}, Takes: []string{"rooms", "ca", "password_file", "password_env"}, Claims: true},
	{Name: "mail", Needs: []string{"user"}, Takes: []string{"authserv"}, Claims: true},
	{Name: "out", Needs: []string{"server"}, Takes: []string{"rooms"}, Sends: true},
}

func TestBridgesAreChecked(t *testing.T) {
	const plain = "[bridges.b]\nkind = 'plain'\nto = 'coder'\nuser = 'us'\nallow = ['anna']\n"
	const net = "[bridges.b]\nkind = 'net'\nto = 'coder'\nserver = 'https://x'\ntoken_env = 'T'\nallow = ['anna']\n"
	const out = "[bridges.b]\nkind = 'out'\nserver = 'x'\nallow = ['anna']\n"
	mail := strings.Replace(plain, "'plain'", "'mail'", 1) + "require_proof = true\n"
	for _, good := range []string{plain, net, mail + "authserv = 'mx'", plain + "operators = ['anna']", net + "operators = ['anna']\nrequire_proof = true", plain + "rooms = ['#r']", net + "password_env = 'P'", out, out + "rooms = ['#r']", "[bridges.b]\nkind = 'out'\nserver = 'x'\nrooms = ['#r']"} {
		if err := CheckBridges(read(t, good), someKinds); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"[bridges.b]\nkind = 'plain'", "^mbox.toml:[12]: bridges.b: it does not say to whom"},
		{out + "to = 'coder'", "bridges.b.to: .*only sends"},
		{out + "operators = ['anna']", "only sends"},
		{out + "per_hour = 5", "only sends"},
		{strings.Replace(out, "['anna']", "[]", 1), "it may answer nobody"},
		{"[bridges.B]\nto = 'coder'", "no name of a bridge"},
		{"[bridges.b]\nto = 'codr'", `mbox.toml:2: bridges.b.to: there is no \[agents.codr\]`},
		{"[bridges.b]\nto = 'any'", "there is no"},
		{"[bridges.b]\nto = 'coder'", "does not say of which kind"},
		{"[bridges.b]\nto = 'coder'\nkind = 'plan'", "mbox.toml:3: bridges.b.kind: .*did you mean plain"},
		{strings.Replace(plain, "user = 'us'\n", "", 1), `of kind "plain" needs user`},
		{strings.Replace(net, "token_env = 'T'\n", "", 1), `of kind "net" needs token_file or token_env`},
		{strings.Replace(plain, "allow = ['anna']\n", "", 1), "it allows nobody"},
		{strings.Replace(plain, "['anna']", "[]", 1), "it allows nobody"},
		{plain + "server = 'x'", `mbox.toml:6: bridges.b.server: a bridge of kind "plain" has none`},
		{plain + "token_file = 'x'", `a bridge of kind "plain" has none`},
		{plain + "insecure = false", "has none"},
		{strings.Replace(plain, "anna", "*", 1), "everybody in the rooms, and there are none"},
		{strings.Replace(plain, "'anna'", "'anna', 'anna'", 1), "each name once"},
		{strings.Replace(plain, "'anna'", `"an\u202ena"`, 1), "mbox.toml:5: bridges.b.allow: .*want each name"},
		{strings.Replace(plain, "'anna'", `""`, 1), "want each name"},
		{plain + "operators = ['*']", "names nobody here"},
		{plain + "rooms = ['*']", "names nobody here"},
		{net + "operators = ['anna']", "anybody can take anybody's name"},
		{plain + "require_proof = true", "nobody would be heard"},
		{mail, "authserv does not say .* nobody would be heard"},
		{net + "token_file = 'x'", "named twice"},
		{strings.Replace(net, "'T'", "'not a name'", 1), "no name of a variable"},
		{strings.Replace(net, "https://x", "https://u:p@x", 1), "password in it"},
		{plain + "per_hour = 0", "want 1 to"},
		{plain + "burst = 0", "want 1 to"},
		{plain + "total_per_hour = 0", "want 1 to"},
		{plain + "max_message = 262145", "want 1 to"},
		{plain + "token = 's3cr3t'", "a secret does not stand"},
		{plain + "pasword = 's3cr3t'", "unknown key bridges.b.pasword"},
	} {
		f, err := Parse(Name, []byte(c.text))
		if err == nil {
			err = CheckBridges(f, someKinds)
		}
		refuses(t, c.text, err, c.want)
		if err != nil && strings.Contains(err.Error(), "s3cr3t") && !strings.Contains(c.text, "pasword") {
			t.Errorf("%v shows a secret", err)
		}
	}
}

// Two bridges to one account answer nobody twice.
func TestNobodyIsHeardTwice(t *testing.T) {
	const start = "[bridges.a]\nkind = 'net'\nto = 'coder'\nserver = 'https://x'\ntoken_env = 'T'\n"
	const b = "[bridges.b]\nkind = 'net'\nto = 'coder'\nserver = 'https://x'\ntoken_env = 'T'\n"
	for _, c := range []struct{ a, b, want string }{
		{"allow = ['anna', 'bert']", "allow = ['carl', 'bert']", "bridges.b: .*bridges.a.* has the same account"},
		{"allow = ['anna']", "require_proof = true\noperators = ['anna']\nallow = ['carl']", "answered twice"},
		{"allow = ['*']\nrooms = ['#r']", "allow = ['anna']\nrooms = ['#r']", "answered twice"},
		{"allow = ['anna']", "allow = ['bert']", ""},
		{"allow = ['anna']\nrooms = ['#r']", "allow = ['bert']\nrooms = ['#r']", ""},
		{"allow = ['*']\nrooms = ['#q']", "allow = ['*']\nrooms = ['#r']", ""},
		{"allow = ['anna']\nenabled = false", "allow = ['anna']", ""},
		{"allow = ['anna']", "allow = ['anna']\nenabled = false", ""},
		{"allow = ['anna']", "allow = ['anna']\nca = 'x'\nuser = 'other'", ""},
	} {
		text := start + c.a + "\n" + b + c.b
		kinds := []chat.Kind{{Name: "net", Needs: []string{"server", "token"}, Takes: []string{"rooms", "ca", "user"}, Claims: true}}
		err := CheckBridges(read(t, text), kinds)
		if c.want == "" && err != nil {
			t.Errorf("%s: %v", text, err)
		} else if c.want != "" {
			refuses(t, text, err, c.want)
		}
	}
}

// Every setting that a kind can have can be written, under the same name.
func TestEverySettingHasItsKey(t *testing.T) {
	to := reflect.TypeFor[Bridge]()
	for f := range reflect.TypeFor[chat.Settings]().Fields() {
		key, known := to.FieldByName(f.Name)
		switch {
		case slices.Contains([]string{"Name", "Token", "Password", "Log"}, f.Name):
		case !known || key.Type != f.Type || key.Tag.Get("toml") != strings.ToLower(f.Name):
			t.Errorf("chat.Settings.%s has no key in [bridges.NAME]", f.Name)
		case !slices.Contains(kindSettings(), strings.ToLower(f.Name)):
			t.Errorf("%s is not checked against the kinds", f.Name)
		}
	}
}

func TestSettingsOfABridge(t *testing.T) {
	home := t.TempDir()
	secret := filepath.Join(home, "token")
	if err := os.WriteFile(secret, []byte("s3cr3t\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PASS", "word")
	text := "[bridges.b]\nto = 'coder'\nserver = 'https://x'\nrooms = ['#r']\ncommand = ['a', 'b']\nca = 'ca.pem'\ninsecure = true\ntoken_file = 'token'\npassword_env = 'PASS'\n"
	f, err := Parse(filepath.Join(home, Name), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.Bridges["b"].Settings()
	want := chat.Settings{Server: "https://x", Rooms: []string{"#r"}, Command: []string{"a", "b"}, CA: filepath.Join(home, "ca.pem"), Insecure: true, Token: "s3cr3t", Password: "word"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, c := range []struct {
		what  string
		spoil func() error
	}{
		{"open to others", func() error { return os.Chmod(secret, 0o644) }},
		{"two lines", func() error {
			return errors.Join(os.Chmod(secret, 0o600), os.WriteFile(secret, []byte("s3cr3t\nb"), 0o600))
		}},
		{"empty", func() error { return os.WriteFile(secret, nil, 0o600) }},
		{"gone", func() error { return os.Remove(secret) }},
	} {
		if err := c.spoil(); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Bridges["b"].Settings(); !errors.Is(err, chat.ErrSetup) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("a file that is %s: %v", c.what, err)
		}
	}
}

func TestBridgesAreSettings(t *testing.T) {
	const b = "[bridges.b]\nto = 'coder'\nkind = 'plain'\n"
	if got := read(t, b+"per_hour = 5").Changes(read(t, b+"per_hour = 6\nlisten = 'localhost:8080'")); !strings.Contains(got, "bridges.b.per_hour") {
		t.Errorf("%q", got)
	}
	if never := read(t, b+"listen = 'localhost:8080'").HTTP().Never; !slices.Contains(never, "127.0.0.1:8080") {
		t.Errorf("http_check reaches where a bridge listens: %q", never)
	}
	if names := read(t, b+"enabled = false").Bridges.Names(); len(names) != 0 {
		t.Errorf("%q", names)
	}
}
