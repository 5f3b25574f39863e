package gateway

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mbox/agents/life"
	"mbox/cmd/mbox/gateway/token"
	"mbox/mailbox"
	"mbox/mailbox/lifecycle"
	"mbox/schemas"
)

// An agent's pulse is what the holder of its token says, and nobody else.
func TestPulse(t *testing.T) {
	p := newDesk(t)
	p.want(409, "a", "POST", "/api/agents/coder/heartbeat", "")
	if err := life.Birth(t.Context(), p.box, life.Newborn{Name: "coder", Entry: []byte("[agents.coder]\n"), By: "human"}); err != nil {
		t.Fatal(err)
	}
	state := func() (mailbox.Agent, *life.State) {
		t.Helper()
		a, err := mailbox.AgentOf(p.box, "coder")
		if err != nil {
			t.Fatal(err)
		}
		s, err := life.Stateful(p.box, "coder")
		if err != nil {
			t.Fatal(err)
		}
		return a, s
	}
	for _, secret := range []string{"o", "r"} {
		p.want(403, secret, "POST", "/api/agents/coder/heartbeat", "")
		p.want(403, secret, "POST", "/api/agents/register", "")
	}
	p.want(403, "a", "POST", "/api/agents/tester/heartbeat", "")
	if a, s := state(); a.State != lifecycle.Provisioning || s.LastPulseAt != nil {
		t.Fatalf("%+v %+v: who may not has said that it is there", a, s)
	}
	p.want(200, "a", "POST", "/api/agents/register", "")
	a, s := state()
	if a.State != lifecycle.Healthy || s.LastPulseAt == nil || s.BootCount != 1 {
		t.Errorf("%+v %+v", a, s)
	}
	begun := *s.LastPulseAt
	if out := p.want(200, "a", "POST", "/api/agents/coder/heartbeat", ""); out["name"] != "coder" {
		t.Errorf("%v", out)
	}
	if _, s := state(); s.LastPulseAt.Before(begun) || s.BootCount != 1 {
		t.Errorf("%+v", s)
	}
	silent, err := schemas.Encode(life.State{BootCount: 7})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.box.AgentDir("coder"), "state.json"), silent, 0o600); err != nil {
		t.Fatal(err)
	}
	p.want(200, "a", "POST", "/api/agents/coder/heartbeat", "")
	if _, s := state(); s.LastPulseAt == nil || s.BootCount != 7 {
		t.Errorf("nothing is kept of it: %+v", s)
	}
}

// An operator makes tokens of agents and readers, each with a record; of operators he
// makes none here.
func TestUsers(t *testing.T) {
	p := newDesk(t)
	for _, secret := range []string{"a", "r"} {
		p.want(403, secret, "POST", "/api/users", `{"username":"ada","role":"agent"}`)
	}
	p.want(401, "", "POST", "/api/users", `{"username":"ada","role":"agent"}`)
	p.want(422, "o", "POST", "/api/users", `{"username":"ada","role":"operator"}`)
	p.want(422, "o", "POST", "/api/users", `{"username":"../ada","role":"agent"}`)
	before, err := p.box.Changes(t.Context())
	if err != nil || len(before) != 0 {
		t.Fatalf("what was refused is recorded: %v %v", before, err)
	}
	made := p.want(201, "o", "POST", "/api/users", `{"username":"ada","role":"agent"}`)
	secret, _ := made["token"].(string)
	found, err := token.Open(p.box.Home()).Find(secret)
	if err != nil || found.Name != "ada" || found.Role != token.Agent || found.Agent != "ada" {
		t.Errorf("the secret is of %+v, %v", found, err)
	}
	p.want(201, "o", "POST", "/api/users", `{"username":"eyes","role":"reader"}`)
	again := p.ask("o", "POST", "/api/users", `{"username":"ada","role":"agent"}`)
	if again.Code != 409 || strings.Contains(again.Body.String(), "mbox_") {
		t.Errorf("%d %s", again.Code, again.Body)
	}
	changes, err := p.box.Changes(t.Context())
	if err != nil || len(changes) != 2 || changes[0].ID != made["record"] || !strings.Contains(changes[0].Description, "token ada is made: role agent for ada") {
		t.Errorf("the records are %+v, %v", changes, err)
	}
	for _, c := range changes {
		if text, err := c.Markdown(); err != nil || strings.Contains(string(text), secret) {
			t.Errorf("the record tells the secret: %v", err)
		}
	}
}
