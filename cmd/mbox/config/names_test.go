package config

import (
	"strings"
	"testing"
)

const (
	eveEntry = `# by hand
[agents]
  [agents . "eve"] # she
exec = "echo agents.eve"

[agents.eve.memory]
backend = "markdown"
[schedules.eve]
every = "1h"
title = "x"
to = "eve"
`
	ofEve = `
[agents.reader]
risk_profile = "coordinator"
delegates = ["eve"]
[agents.reader.workspace]
access = { eve = "read" }
read_memory_from = ["eve"]
[bridges.irc]
kind = "stdio"
to = "eve"
[notify.me]
on = ["failed"]
command = ["/bin/true"]
agent = "eve"
`
)

// toEve is a schedule for eve, and one for anybody.
const toEve = `[schedules.nightly]
every = "24h"
title = "Look"
to = "eve"
[schedules.open]
every = "24h"
title = "Look"
to = "any"
`

// What names an agent by a name that it had means it, in every setting; another name
// changes nothing of the text but that.
func TestFormerly(t *testing.T) {
	home := homeOf(t, map[string]string{"mbox.d/eve.toml": eveEntry, "mbox.toml": ofEve})
	c, err := Load(home)
	if err != nil {
		t.Fatal(err)
	}
	text, next, err := Rename(c, "eve", "joy")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer(`"eve"] # she`+"\n", `joy] # she`+"\n"+`formerly = ['eve']`+"\n", "agents.eve.memory", "agents.joy.memory").Replace(eveEntry)
	equal(t, "its text", string(text), want)
	reader := next.Agents["reader"]
	for what, got := range map[string]string{
		"delegates": reader.Delegates[0], "memory": reader.Workspace.ReadMemoryFrom[0], "bridge": next.Bridges["irc"].To,
		"schedule": next.Schedules["eve"].To, "notify": next.Notify["me"].Agent,
	} {
		equal(t, what, got, "joy")
	}
	equal(t, "access", reader.Workspace.Access["joy"], "read")
	if next.Agents["eve"] != nil || next.Agents["joy"].Memory.Backend != "markdown" {
		t.Error("the table has not moved")
	}

	// Again, and back.
	home = homeOf(t, map[string]string{"mbox.d/joy.toml": string(text), "mbox.toml": ofEve})
	if c, err = Load(home); err != nil {
		t.Fatal(err)
	}
	text, _, err = Rename(c, "joy", "sue")
	if err != nil || !strings.Contains(string(text), "\nformerly = ['eve', 'joy']\n") {
		t.Errorf("%s%v", text, err)
	}
	text, _, err = Rename(c, "joy", "eve")
	if err != nil || !strings.Contains(string(text), "[agents . eve] # she\nformerly = ['joy']\n") {
		t.Errorf("%s%v", text, err)
	}

	// A name that somebody has is that one.
	c, err = Parse(Name, []byte("[agents.eve]\nexec = \"true\"\n[agents.joy]\nformerly = [\"eve\"]\n[agents.a]\nworkspace.access.eve = \"read\"\n"))
	if err != nil || c.Agents["a"].Workspace.Access["eve"] == "" {
		t.Errorf("eve is joy: %v", err)
	}
	for text, want := range map[string]string{
		"[agents.a]\nformerly = [\"E V\"]\n": `line 2: agents.a.formerly: "E V" is no agent name`,
		"[agents.apes]\n":                    `line 1: agents.apes: "apes" is a group in channels`,
		"[agents.agents]\n":                  `line 1: agents.agents: "agents" is a group in channels`,
		"[agents.a]\nuuid = \"x\"\n":         `agents.a.uuid: "x" is no UUID`,
		"[agents.a]\nunits = \"cron\"\n":     `agents.a.units: "cron"`,
		"[agents.a]\nformerly = [\"x\"]\n[agents.b]\nformerly = [\"x\"]\n":       "b was called x, too",
		"[agents.a]\nuuid = \"" + id + "\"\n[agents.b]\nuuid = \"" + id + "\"\n": "that is b, too",
	} {
		if _, err := Parse(Name, []byte(text)); err == nil || !strings.Contains(strings.Replace(err.Error(), "mbox.toml:", "line ", 1), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	// While a name is changed there are two entries, of which one tells of the other.
	for _, two := range []string{
		"[agents.a]\nformerly = [\"x\"]\n[agents.b]\nformerly = [\"x\", \"a\"]\n",
		"[agents.a]\nformerly = [\"x\", \"b\"]\n[agents.b]\nformerly = [\"x\"]\n",
	} {
		if _, err := Parse(Name, []byte(two)); err != nil {
			t.Errorf("%s: %v", two, err)
		}
	}
	for _, entry := range []string{"agents.eve.exec = \"true\"\n", "[agents]\neve = { exec = \"true\" }\n", "[agents.eve]\nformerly = [\n\"x\"]\n"} {
		c, err := Load(homeOf(t, map[string]string{"mbox.d/eve.toml": entry}))
		if err != nil {
			t.Fatal(err)
		}
		if text, _, err := Rename(c, "eve", "joy"); err == nil {
			t.Errorf("%s is now %s", entry, text)
		}
	}
	if _, _, err := Rename(c, "a", "joy"); err == nil {
		t.Error("a table of mbox.toml has another name")
	}
}

const id = "0f6c1e9a-3b52-4a49-9c64-1d7a2d0c8f11"

// What names an agent that was put away is no fault, by whatever name; what names nobody
// is one, and so is what names one that is neither there nor in the archive.
func TestNamesOfTheDead(t *testing.T) {
	const archived = "agents/_archive/joy-20261122T100000000Z/agent.toml"
	const joy = "[agents.joy]\nformerly = [\"eve\"]\nexec = \"true\"\nmemory.backend = \"markdown\"\n"
	files := map[string]string{"mbox.d/joy.toml": joy, "mbox.toml": ofEve + toEve + "[agents.writer]\n[agents.writer.workspace]\naccess = { joy = \"read\", reader = \"read\" }\n"}
	home := homeOf(t, files)
	c, err := Load(home)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "while it lives", len(NamingDead(c)), 0)
	without, err := With(home, "mbox.d/joy.toml", nil)
	if err != nil {
		t.Fatal(err)
	}
	dead := func(c *File) {
		t.Helper()
		want := []string{
			"mbox.toml:4: agents.reader.delegates names eve", "mbox.toml:6: agents.reader.workspace.access.eve names eve",
			"mbox.toml:7: agents.reader.workspace.read_memory_from names eve", "mbox.toml:10: bridges.irc.to names eve",
			"mbox.toml:14: notify.me.agent names eve", "mbox.toml:18: schedules.nightly.to names eve", "mbox.toml:25: agents.writer.workspace.access.joy names joy",
		}
		equal(t, "what names it", strings.Join(NamingDead(c), "\n"), strings.Join(want, "\n"))
		reader, writer := c.Agents["reader"], c.Agents["writer"]
		if len(reader.Delegates)+len(reader.Workspace.ReadMemoryFrom)+len(reader.Workspace.Access) > 0 || len(writer.Workspace.Access) != 1 {
			t.Errorf("the dead have rights: %+v %+v", reader, writer)
		}
	}
	dead(without)

	files[archived] = joy
	delete(files, "mbox.d/joy.toml")
	home = homeOf(t, files)
	if c, err = Load(home); err != nil {
		t.Fatal(err)
	}
	dead(c)
	if _, err = With(home, "mbox.d/x.toml", []byte("[agents.reader2]\nworkspace.read_memory_from = [\"eva\"]\n")); err == nil || !strings.Contains(err.Error(), "there is no [agents.eva]") {
		t.Errorf("a name that nobody had: %v", err)
	}

	// One that has come back counts, though its entry lies in the archive, too.
	files["mbox.d/joy.toml"] = joy
	files["agents/_archive/bob-20261122T100000000Z/agent.toml"] = "[agents.bob]\nmemory.backend = \"markdown\"\n"
	files["mbox.toml"] += "[agents.writer3]\nworkspace.read_memory_from = [\"bob\"]\n"
	if c, err = Load(homeOf(t, files)); err != nil {
		t.Fatal(err)
	}
	equal(t, "what names the dead", strings.Join(NamingDead(c), "\n"), "mbox.toml:27: agents.writer3.workspace.read_memory_from names bob")
	equal(t, "delegates", strings.Join(c.Agents["reader"].Delegates, " "), "joy")
	equal(t, "access", c.Agents["writer"].Workspace.Access["joy"], "read")
}
