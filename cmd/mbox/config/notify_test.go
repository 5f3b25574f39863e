package config

import (
	"regexp"
	"testing"
)

func TestNotifyIsChecked(t *testing.T) {
	const command = "[notify.me]\non = ['failed']\ncommand = ['/bin/x', 'y']\n"
	const hook = "[notify.me]\non = ['failed']\nurl = 'https://x/y'\ntoken_env = 'T'\n"
	const ntfy = "[notify.me]\non = ['failed']\nntfy = 'https://x/t'\n"
	for text, kind := range map[string]string{command: "command", hook: "webhook", ntfy: "ntfy", command + "agent = 'coder'": "command"} {
		c, err := Parse(Name, []byte(text))
		if err != nil || c.Notify["me"].Kind() != kind {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"[notify.me]\ncommand = ['/bin/x']", "^mbox.toml:1: notify.me: it does not say what is told"},
		{"[notify.me]\non = ['failed']", "it does not say whom to tell"},
		{command + "ntfy = 'https://x/t'", "or says it twice"},
		{"[notify.me]\non = ['faild']\ncommand = ['/bin/x']", "mbox.toml:2: notify.me.on: .*did you mean failed"},
		{"[notify.me]\non = ['alarm', 'alarm']\ncommand = ['/bin/x']", "stands there twice"},
		{"[notify.me]\non = ['alarm']\ncommand = ['x']", "no absolute path"},
		{"[notify.me]\non = ['alarm']\nurl = 'https://x'", "needs a token"},
		{"[notify.me]\non = ['alarm']\nurl = 'https://u:p@x'\ntoken_env = 'T'", "without a user"},
		{"[notify.me]\non = ['alarm']\nurl = 'file:///x'\ntoken_env = 'T'", "want a URL"},
		{hook + "token_file = 'x'", "named twice"},
		{hook + "token = 's3cr3t'", "a secret does not stand"},
		{command + "agent = 'codr'", "there is no"},
		{"[notify.ME]\non = ['alarm']\ncommand = ['/x']", "no name of a target"},
		{"archive_after = '4000d'", "archive_after: 4000d is not allowed: want 0s to 3650d"},
	} {
		_, err := Parse(Name, []byte(c.text))
		if err == nil || !regexp.MustCompile(c.want).MatchString(err.Error()) {
			t.Errorf("%s: %v, want %s", c.text, err, c.want)
		}
	}
}
