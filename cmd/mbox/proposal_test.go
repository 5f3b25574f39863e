package main

import "testing"

// Commands of mbox's own name the home, and nothing else is changed.
func TestProposals(t *testing.T) {
	oneByOne(t)
	const home = proposals(`--home "my box"`)
	for text, want := range map[string]string{
		"mbox why p1 tells more; mbox recover --adopt p1": `mbox --home "my box" why p1 tells more; mbox --home "my box" recover --adopt p1`,
		"an approval (mbox approve p1)":                   `an approval (mbox --home "my box" approve p1)`,
		`mbox send "mbox ls" and mbox ls`:                 `mbox --home "my box" send "mbox ls" and mbox --home "my box" ls`,
		`mbox send 'it'\''s mbox ls' --to x`:              `mbox --home "my box" send 'it'\''s mbox ls' --to x`,
		"the agent's table; mbox up, or mbox's own":       `the agent's table; mbox --home "my box" up, or mbox's own`,
		"mbox doctor --fix; mbox help damage":             `mbox --home "my box" doctor --fix; mbox help damage`,
		`mbox ls --home "my box"`:                         `mbox ls --home "my box"`,
		`mbox "--home=my box" send x`:                     `mbox "--home=my box" send x`,
		"mbox init makes one":                             `mbox --home "my box" init makes one`,
		"mbox init /tmp/x":                                "mbox init /tmp/x",
		"mbox ls --help":                                  "mbox ls --help",
		"mv .mbox ls":                                     "mv .mbox ls",
	} {
		if got := home.named(text); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
		if got := proposals("").named(text); got != text {
			t.Errorf("without --home: %s", got)
		}
	}
}
