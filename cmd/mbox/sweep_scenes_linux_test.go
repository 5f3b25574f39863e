package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mbox/agents/secret"
	"mbox/cmd/mbox/gateway/token"
	"mbox/mailbox"
)

// sweepScene is a verb that is broken at one call after another, what has to be
// there before it, and what holds once it was acknowledged.
type sweepScene struct {
	name   string
	before [][]string               // commands that prepare the home
	drop   map[string]string        // files in tasks/pending
	spoil  func(h *sweepHome)       // whatever else prepares it
	verb   []string                 // the command that is broken
	lease  bool                     // a claim with a lease file, by a process of this test
	code   int                      // with which it ends where nothing is broken
	again  []int                    // with which it may end when it is said again after all
	often  bool                     // said again it is done again
	makes  string                   // a file beside the home that may not be there when it is said
	effect promise                  // what holds when it was acknowledged
	told   func(out string) bool    // whether its output alone is an acknowledgement
	keeps  func(h *sweepHome) error // what holds at any moment
	after  func(h *sweepHome) error // what holds in the end, acknowledged or not
}

// acts is a task that carries an action.
const acts = `{"task":{"title":"x"},"assignment":{"target_agent":"coder"},"mbox":{"action":{"name":"write_file","params":{"path":"a.md","content":"x"}}}}`

var (
	send    = []string{"send", "work", "--id", "a", "--to", "coder"}
	claim   = []string{"claim", "--agent", "coder"}
	cancel  = []string{"cancel", "a"}
	decide  = []string{"decision", "new", "--context", "c", "--option", "o", "--decision", "d"}
	ended   = [][]string{send, cancel}
	claimed = [][]string{send, claim}

	bearAda     = []string{"agent", "birth", "ada", "--exec", "true", "--instruction", "i"}
	pauseWriter = []string{"agent", "pause", "writer", "--reason", "r"}
)

func tells(line string) func(string) bool {
	return func(out string) bool { return strings.Contains(out, line+"\n") }
}

func anyOutput(out string) bool { return strings.HasSuffix(out, "\n") }

// completed wants the output that the result was handed in with.
func completed(output string) func(*sweepHome) error {
	return func(h *sweepHome) error {
		data, err := os.ReadFile(h.Path("tasks", "completed", "a.json"))
		if err == nil && !strings.Contains(string(data), `"output": "`+output) {
			err = fmt.Errorf("the output is not %q: %s", output, data)
		}
		return err
	}
}

func inQuarantine(h *sweepHome) error {
	kept, err := filepath.Glob(h.Path("tasks", "quarantine", "*.reason.json"))
	if err == nil && len(kept) == 0 {
		err = errors.New("nothing is in quarantine")
	}
	return err
}

func recordHas(folder, text string) func(*sweepHome) error {
	return func(h *sweepHome) error {
		names, err := filepath.Glob(h.Path(folder, "*.md"))
		if err != nil || len(names) == 0 {
			return fmt.Errorf("no record in %s: %v", folder, err)
		}
		data, err := os.ReadFile(names[0])
		if err == nil && !strings.Contains(string(data), text) {
			err = fmt.Errorf("%s does not say %q", names[0], text)
		}
		return err
	}
}

// hasMessage wants a message, and that these agents have got it once.
func hasMessage(channel, id string, agents ...string) func(*sweepHome) error {
	return func(h *sweepHome) error {
		if _, err := os.Stat(h.Path("channels", channel, id+".json")); err != nil {
			return err
		}
		for _, agent := range agents {
			if r := h.run("inbox", "--agent", agent, "--json"); strings.Count(r.out, `"message":"`+id+`"`) != 1 {
				return fmt.Errorf("the inbox of %s: %s%s", agent, r.out, r.err)
			}
		}
		return nil
	}
}

// emptyInbox wants all of an agent's items to be acknowledged.
func emptyInbox(agent string) func(*sweepHome) error {
	return func(h *sweepHome) error {
		if r := h.run("inbox", "--agent", agent, "--json"); r.out != "" || r.code != 0 {
			return fmt.Errorf("its inbox: %s%s", r.out, r.err)
		}
		return nil
	}
}

// writerIs wants the agent to be in a state, and its claims to fit that.
func writerIs(state string) func(*sweepHome) error {
	return func(h *sweepHome) error {
		shown, claim := h.run("agent", "show", "writer"), h.run("claim", "--agent", "writer")
		if !strings.HasPrefix(shown.out, "writer  "+state+"\n") || strings.Contains(claim.err, "writer is paused") != (state == "paused") {
			return fmt.Errorf("it is not %s: %s%s%s", state, shown.out, shown.err, claim.err)
		}
		return nil
	}
}

// adaLives wants an agent with all that it was born with, and nothing left beside it.
func adaLives(h *sweepHome) error {
	shown := h.run("agent", "show", "ada")
	entry, err := os.ReadFile(h.Path("mbox.d", "ada.toml"))
	if !strings.HasPrefix(shown.out, "ada  provisioning\n") || // it has no worker here
		!strings.Contains(string(entry), "true") {
		return fmt.Errorf("it does not live: %s%s%s%w", shown.out, shown.err, entry, err)
	}
	for _, name := range []string{"CLAUDE.md", "SOUL.md", "IDENTITY.md", "heartbeat.md", "state.json", "agent.toml", "memory/memory.md", "workspace"} {
		if _, err := os.Stat(h.Path("agents", "ada", name)); err != nil {
			return err
		}
	}
	if kept, err := filepath.Glob(h.Path("mbox.d", "*.CLAUDE.md")); err != nil || len(kept) != 1 || strings.Contains(shown.out, "CLAUDE.md") {
		return fmt.Errorf("its CLAUDE.md is not kept: %v %w", kept, err)
	}
	if n := strings.Count(h.run("ls", "--for", "ada", "--json").out, "Introduce yourself"); n != 1 {
		return fmt.Errorf("it is to introduce itself %d times", n)
	}
	return noneLeft(h)
}

// adaIsEve wants an agent under its new name with all that was its own under the old one.
func adaIsEve(h *sweepHome) error {
	shown := h.run("agent", "show", "ada")
	entry, err := os.ReadFile(h.Path("mbox.d", "eve.toml"))
	if !strings.HasPrefix(shown.out, "eve  provisioning\n") || !strings.Contains(string(entry), `formerly = ['ada']`) {
		return fmt.Errorf("it is not eve: %s%s%s%w", shown.out, shown.err, entry, err)
	}
	for _, name := range []string{"CLAUDE.md", "state.json", "memory/memory.md"} {
		if _, err := os.Stat(h.Path("agents", "eve", name)); err != nil {
			return err
		}
	}
	for _, name := range []string{"agents/ada", "mbox.d/ada.toml"} {
		if _, err := os.Lstat(h.Path(name)); err == nil {
			return fmt.Errorf("%s is there", name)
		}
	}
	for name, n := range map[string]int{"ada": 0, "eve": 2} {
		if got := strings.Count(h.run("ls", "--for", "eve", "--json").out, `"target_agent":"`+name+`"`); got != n {
			return fmt.Errorf("%d tasks are for %s", got, name)
		}
	}
	if list := h.run("memory", "list", "--agent", "eve"); !strings.Contains(list.out, "The lock is green") {
		return fmt.Errorf("it remembers: %s%s", list.out, list.err)
	}
	return noneLeft(h)
}

// adaRemembers gives an agent a memory that others share.
func adaRemembers(h *sweepHome) {
	path := h.Path("mbox.d", "ada.toml")
	entry, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, append(entry, "[agents.ada.memory]\nbackend = \"sqlite\"\n"...), 0o600)
	}
	if err != nil {
		h.Fatal(err)
	}
	h.must("memory", "add", "--agent", "ada", "The lock is green")
}

func adaIsArchived(h *sweepHome) error {
	for _, name := range []string{"agents/ada", "mbox.d/ada.toml"} {
		if _, err := os.Lstat(h.Path(name)); err == nil {
			return fmt.Errorf("%s is there", name)
		}
	}
	kept, err := filepath.Glob(h.Path("agents", "_archive", "ada-*", "home", "CLAUDE.md"))
	if shown := h.run("agent", "show", "ada"); err != nil || len(kept) != 1 || !strings.HasPrefix(shown.out, "ada  dead\n") {
		return fmt.Errorf("it is not put away: %v %w%s%s", kept, err, shown.out, shown.err)
	}
	return noneLeft(h)
}

// noneLeft wants nothing that was staged for an agent.
func noneLeft(h *sweepHome) error {
	for _, pattern := range []string{h.Path("agents", ".*.birth"), h.Path("mbox.d", "*.new")} {
		if left, err := filepath.Glob(pattern); err != nil || len(left) > 0 {
			return fmt.Errorf("left: %v %w", left, err)
		}
	}
	return nil
}

// twoMemories makes a memory with two entries.
func twoMemories(h *sweepHome) {
	if err := os.WriteFile(h.Path("mbox.toml"), []byte("[agents.coder.memory]\nbackend = \"markdown\"\n"), 0o600); err != nil {
		h.Fatal(err)
	}
	h.must("memory", "add", "--agent", "coder", "gone")
	h.must("memory", "add", "--agent", "coder", "kept")
}

// memoryHas wants the coder to remember these texts whole, and by whom; or not to.
func memoryHas(there bool, texts ...string) func(*sweepHome) error {
	return func(h *sweepHome) error {
		list := h.run("memory", "list", "--agent", "coder", "--json")
		for _, text := range texts {
			if has := strings.Contains(list.out, `"content":"`+text+`",`) && strings.Contains(list.out, `"by":"human"`); has != there || list.code != 0 {
				return fmt.Errorf("%q is there: %v: %s%s", text, has, list.out, list.err)
			}
		}
		return nil
	}
}

// tokens wants exactly these.
func tokens(names ...string) func(*sweepHome) error {
	return func(h *sweepHome) error {
		have, err := token.List(h.home)
		if err != nil || len(have) != len(names) || len(have) > 0 && have[0].Name != names[0] {
			err = fmt.Errorf("tokens %v, not %q: %w", have, names, err)
		}
		return err
	}
}

// tokensRecorded wants the records to say of each token whether it works.
func tokensRecorded(h *sweepHome) error {
	have, _ := token.List(h.home) // a file that is cut off is none
	box, err := mailbox.Open(h.Context(), h.home, mailbox.Options{})
	if err != nil {
		return err
	}
	defer box.Close()
	changes, err := box.Changes(h.Context())
	if err == nil && len(have) == 1 && standing(changes, "phone") == "" {
		err = fmt.Errorf("it works, and %d records do not say so", len(changes))
	}
	return err
}

var setSecret = []string{"secret", "set", "--agent", "coder", "API_TOKEN", "--file", "base.first"}

// laySecret lays the values beside the home.
func laySecret(h *sweepHome) {
	for _, which := range []string{"first", "second"} {
		if err := os.WriteFile(h.home+"."+which, []byte(which+"-value\n"), 0o600); err != nil {
			h.Fatal(err)
		}
	}
}

func hasSecret(h *sweepHome) {
	laySecret(h)
	h.must(setSecret...)
}

// secretIs wants the secret to have a value, or not to be there.
func secretIs(value string) func(*sweepHome) error {
	return func(h *sweepHome) error {
		v, err := secret.Open(h.Context(), h.home, "coder")
		if err != nil || v["API_TOKEN"] != value {
			err = fmt.Errorf("it has %d bytes, not %d: %w", len(v["API_TOKEN"]), len(value), err)
		}
		return err
	}
}

// secretsHold wants the secret to be whole or not there, in clear nowhere, and recorded
// if it is there.
func secretsHold(h *sweepHome) error {
	v, err := secret.Open(h.Context(), h.home, "coder")
	if err != nil {
		return err
	}
	if got := v["API_TOKEN"]; got != "" && got != "first-value" && got != "second-value" {
		return fmt.Errorf("half a secret: %q", got)
	}
	box, err := mailbox.Open(h.Context(), h.home, mailbox.Options{})
	if err != nil {
		return err
	}
	defer box.Close()
	changes, err := box.Changes(h.Context())
	if err == nil && len(v) == 1 && !owed(changes, "coder", "API_TOKEN") {
		err = fmt.Errorf("commands get it, and %d records do not say so", len(changes))
	}
	return errors.Join(err, filepath.WalkDir(h.home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && (strings.Contains(string(data), "first-value") || strings.Contains(string(data), "second-value")) {
			err = fmt.Errorf("the value stands in %s", path)
		}
		return err
	}))
}

// refuse makes the mailbox read-only as a disk does it: by an error of the
// ledger's flush.
func refuse(h *sweepHome) {
	r := h.traced("fdatasync:error=EIO", "send", "lost", "--to", "coder")
	if _, err := os.Stat(h.Path(".mbox", "readonly")); r.code != exitIO || err != nil {
		h.Fatalf("a ledger that cannot be flushed: exit code %d, %v\n%s", r.code, err, r.err)
	}
}

// unsettle leaves a transition half-way: its line stands, its renames do not.
func unsettle(h *sweepHome) {
	if r := h.traced("renameat2:signal=KILL:when=1", "cancel", "a"); r.code != -1 {
		h.Fatalf("cancel could not be killed: exit code %d\n%s", r.code, r.err)
	}
}

var sweepScenes = []sweepScene{
	{
		name: "init", verb: []string{"init", "--sync", "standard"}, again: []int{0, exitConflict},
		after: func(h *sweepHome) error { _, err := os.Stat(h.Path("mbox.toml")); return err },
	},
	{
		name: "init where one is", before: [][]string{send}, verb: []string{"init"}, code: exitConflict, again: []int{exitConflict},
	},
	{
		name: "submit", verb: send, again: []int{0}, told: tells("a"),
		effect: promise{event: "task_created", id: "a", in: []string{"pending"}},
	},
	{
		name: "submit with a key", verb: []string{"send", "work", "--key", "k", "--to", "coder"}, again: []int{0}, told: anyOutput,
		effect: promise{event: "task_created", id: someTask, in: []string{"pending"}},
	},
	{
		name: "submit without an id", verb: []string{"send", "work", "--to", "coder"}, again: []int{0}, often: true, told: anyOutput,
		effect: promise{event: "task_created", id: someTask, in: []string{"pending"}},
	},
	{
		name: "admit", drop: map[string]string{"d.json": `{"task":{"title":"x"},"assignment":{"target_agent":"coder"}}`}, verb: []string{"ls"}, again: []int{0},
		effect: promise{event: "task_created", id: "d", in: []string{"pending"}},
	},
	{
		name: "admit under another name", drop: map[string]string{"a drop.json": `{"task":{"title":"x"},"assignment":{"target_agent":"coder"}}`}, verb: []string{"ls"}, again: []int{0},
		effect: promise{event: "task_created", id: someTask, in: []string{"pending"}},
	},
	{
		name: "reject", drop: map[string]string{"d.json": `{"task":{"title":"x","priority":"soon"}}`}, verb: []string{"ls"}, again: []int{0},
		effect: promise{event: "task_rejected", id: "d", in: []string{"failed"}, holds: inQuarantine},
	},
	{
		name: "quarantine", drop: map[string]string{"d.json": `[]`}, verb: []string{"ls"}, again: []int{0},
		effect: promise{event: "task_quarantined", holds: inQuarantine},
	},
	{
		name: "claim", before: [][]string{send}, verb: claim, again: []int{0, exitConflict},
		told:   func(out string) bool { return strings.HasSuffix(out, "}\n") },
		effect: promise{event: "task_picked", id: "a", in: []string{"in-progress"}},
	},
	{
		name: "claim with a lease", before: [][]string{send}, lease: true, again: []int{0, exitConflict}, told: anyOutput,
		// Its process is dead, so the task may have been taken back.
		effect: promise{event: "task_picked", id: "a", in: []string{"in-progress", "pending"}},
	},
	{
		name: "progress", before: claimed, verb: []string{"progress", "a", "--token", "TOKEN", "--percent", "5"}, again: []int{0}, often: true,
		effect: promise{event: "task_progress", id: "a", in: []string{"in-progress"}},
	},
	{
		name: "complete", before: claimed, verb: []string{"complete", "a", "--token", "TOKEN", "--output", "yes"}, again: []int{0},
		effect: promise{event: "task_completed", id: "a", in: []string{"completed"}, holds: completed("yes")},
	},
	{
		name: "send with a file",
		spoil: func(h *sweepHome) {
			if err := os.WriteFile(h.home+".file", []byte("file"), 0o600); err != nil {
				h.Fatal(err)
			}
		},
		verb: []string{"send", "work", "--id", "a", "--to", "coder", "--attach", "base.file"}, again: []int{0},
		effect: promise{event: "task_created", id: "a", in: []string{"pending"}, holds: func(h *sweepHome) error {
			data, err := os.ReadFile(h.Path("tasks", "artifacts", "a.0", "base.file"))
			if err == nil && string(data) != "file" {
				err = fmt.Errorf("the file is %q", data)
			}
			return err
		}},
	},
	{
		name: "complete at length", before: claimed,
		spoil: func(h *sweepHome) {
			if err := os.WriteFile(h.home+".long", []byte(strings.Repeat("long ", 60<<10)), 0o600); err != nil {
				h.Fatal(err)
			}
		},
		verb: []string{"complete", "a", "--token", "TOKEN", "--output-file", "base.long"}, again: []int{0},
		effect: promise{event: "task_completed", id: "a", in: []string{"completed"}, holds: func(h *sweepHome) error {
			kept, err := filepath.Glob(h.Path("tasks", "artifacts", "*", "*"))
			if err == nil && len(kept) != 1 {
				err = fmt.Errorf("%d artifacts", len(kept))
			}
			return err
		}},
	},
	{
		name: "complete too late", before: append(claimed[:2:2], cancel), code: exitStale, often: true,
		verb: []string{"complete", "a", "--token", "TOKEN", "--output", "yes"}, again: []int{exitStale},
		effect: promise{event: "task_late_result", id: "a", in: []string{"failed"}, holds: inQuarantine},
	},
	{
		name: "fail", before: claimed, verb: []string{"fail", "a", "--token", "TOKEN", "--reason", "no"}, again: []int{0},
		effect: promise{event: "task_retried", id: "a", in: []string{"pending"}},
	},
	{
		name: "fail for good", before: claimed, verb: []string{"fail", "a", "--token", "TOKEN", "--reason", "no", "--final"}, again: []int{0},
		effect: promise{event: "task_failed", id: "a", in: []string{"failed"}},
	},
	{
		name: "release", before: claimed, verb: []string{"release", "a", "--token", "TOKEN", "--delay", "1h"}, again: []int{0},
		effect: promise{event: "task_released", id: "a", in: []string{"pending"}},
	},
	{
		name: "cancel", before: claimed, verb: cancel, again: []int{0},
		effect: promise{event: "task_cancelled", id: "a", in: []string{"failed"}},
	},
	{
		name: "retry", before: ended, verb: []string{"retry", "a"}, again: []int{0},
		effect: promise{event: "task_retried", id: "a", in: []string{"pending"}},
	},
	{
		name: "edit", before: [][]string{send}, verb: []string{"edit", "a", "--priority", "urgent"}, again: []int{0},
		effect: promise{event: "task_edited", id: "a", in: []string{"pending"}},
	},
	{
		name: "archive", before: ended, verb: []string{"archive", "--older-than", "0s"}, again: []int{0},
		effect: promise{event: "task_archived", id: "a", in: []string{"archive"}},
	},
	{
		name: "decision", verb: decide, again: []int{0}, often: true, told: anyOutput,
		effect: promise{event: "decision", holds: recordHas("decisions", "d")},
	},
	{
		name: "create-channel", verb: []string{"create-channel", "builds"}, again: []int{0},
		effect: promise{event: "message", holds: hasMessage("builds", "channel-builds")},
	},
	{
		name: "post", before: [][]string{{"create-channel", "builds"}}, again: []int{0},
		verb:   []string{"post", "builds", "@coder @tester look", "--message-id", "m1"},
		effect: promise{holds: hasMessage("builds", "m1", "coder", "tester")},
	},
	{
		name: "ack", before: [][]string{{"create-channel", "builds"}, {"post", "builds", "@coder look"}}, again: []int{0},
		verb:   []string{"ack", "--all", "--agent", "coder"},
		effect: promise{holds: emptyInbox("coder")},
	},
	{
		name: "approve", drop: map[string]string{"a.json": acts}, spoil: func(h *sweepHome) { h.must("ls") }, verb: []string{"approve", "a"}, again: []int{0}, often: true, told: anyOutput,
		effect: promise{event: "decision", id: "a", in: []string{"pending"}, holds: recordHas("decisions", "Approved by human")},
	},
	{
		name: "outcome", before: [][]string{decide}, verb: []string{"decision", "outcome", "SAID", "it went well"}, again: []int{0}, often: true,
		effect: promise{event: "decision", holds: recordHas("decisions", "it went well")},
	},
	{
		name: "change", again: []int{0}, often: true, told: anyOutput,
		verb:   []string{"change", "new", "--description", "d", "--rationale", "r", "--before", "b", "--after", "a", "--rollback", "u", "--verification", "v"},
		effect: promise{event: "change", holds: recordHas("changes", "u")},
	},
	{
		name: "token create", verb: []string{"token", "create", "phone", "--role", "reader"}, again: []int{0, exitConflict}, often: true, told: anyOutput,
		effect: promise{event: "change", holds: tokens("phone")}, after: tokensRecorded,
	},
	{
		name: "token revoke", before: [][]string{{"token", "create", "phone", "--role", "reader"}}, verb: []string{"token", "revoke", "phone"}, again: []int{0, exitNotFound}, often: true,
		effect: promise{event: "change", holds: tokens()}, after: tokensRecorded,
	},
	{
		name: "secret set", spoil: laySecret, verb: setSecret, again: []int{0}, often: true,
		effect: promise{event: "change", holds: secretIs("first-value")}, after: secretsHold,
	},
	{
		name: "secret set anew", spoil: hasSecret, verb: []string{"secret", "set", "--agent", "coder", "API_TOKEN", "--file", "base.second"}, again: []int{0}, often: true,
		effect: promise{event: "change", holds: secretIs("second-value")}, after: secretsHold,
	},
	{
		name: "secret rm", spoil: hasSecret, verb: []string{"secret", "rm", "--agent", "coder", "API_TOKEN"}, again: []int{0, exitNotFound}, often: true,
		effect: promise{event: "change", holds: secretIs("")}, after: secretsHold,
	},
	{
		name: "pause", verb: pauseWriter, again: []int{0},
		effect: promise{event: "agent_state", holds: writerIs("paused")},
	},
	{
		name: "birth", verb: bearAda, again: []int{0, exitConflict},
		effect: promise{event: "agent_state", most: 2, holds: adaLives},
	},
	{
		name: "put away", before: [][]string{bearAda}, verb: []string{"agent", "kill", "ada"}, again: []int{0, exitConflict},
		effect: promise{event: "agent_state", most: 4, holds: adaIsArchived},
	},
	{
		name: "bring back", before: [][]string{bearAda, {"agent", "kill", "ada"}}, verb: []string{"agent", "restore", "ada"}, again: []int{0, exitConflict},
		effect: promise{event: "agent_state", most: 6, holds: adaLives},
	},
	{
		name: "rename", before: [][]string{bearAda, {"send", "work", "--id", "a", "--to", "ada"}}, spoil: adaRemembers,
		verb: []string{"agent", "rename", "ada", "eve"}, again: []int{0},
		effect: promise{event: "agent_state", most: 3, holds: adaIsEve},
	},
	{
		name: "dream", before: [][]string{bearAda}, spoil: adaHasLearned, verb: []string{"dream", "ada"}, again: []int{0}, keeps: adaKeeps(adaLearned),
		effect: promise{event: "change", most: 3, holds: adaDreamt}, after: adaCanUndo,
	},
	{
		name: "dream undo", before: [][]string{bearAda}, spoil: adaHasDreamt, verb: []string{"dream", "ada", "--undo"}, again: []int{0, exitConflict}, keeps: adaKeeps(adaTwice),
		effect: promise{event: "change", most: 4, holds: adaHasUndone}, after: adaDreamsAgain,
	},
	{
		name: "resume", before: [][]string{pauseWriter}, verb: []string{"agent", "resume", "writer"}, again: []int{0},
		effect: promise{holds: writerIs("idle")},
	},
	{
		name: "memory add", spoil: twoMemories, verb: []string{"memory", "add", "--agent", "coder", "new"}, again: []int{0}, often: true, told: anyOutput,
		effect: promise{holds: memoryHas(true, "new", "kept")}, after: memoryHas(true, "kept"),
	},
	{
		name: "memory forget", spoil: twoMemories, verb: []string{"memory", "forget", "--agent", "coder", "MEMORY:0"}, again: []int{0, exitNotFound}, often: true,
		effect: promise{event: "agent_state", holds: memoryHas(false, "gone")}, after: memoryHas(true, "kept"),
	},
	{
		name: "backup", before: claimed, verb: []string{"backup", "backup.tar"}, makes: "backup.tar", again: []int{0},
		after: func(h *sweepHome) error {
			whole := *h
			whole.home = h.home + ".restored"
			defer whole.remove()
			h.must("restore", "backup.tar", whole.home)
			return whole.account(promises{{event: "task_picked", id: "a", in: []string{"in-progress", "pending"}}}, false)
		},
	},
	{
		name: "recover", before: claimed, spoil: unsettle, verb: []string{"recover"}, again: []int{0},
		effect: promise{event: "task_cancelled", id: "a", in: []string{"failed"}},
	},
	{
		name: "recover after a failed flush", before: claimed, spoil: refuse, verb: []string{"recover", "--after-io-error"}, again: []int{0},
		effect: promise{event: "task_picked", id: "a", in: []string{"in-progress"}},
	},
}

// someTask is the id of a task that mbox names itself. Which number it gets is
// open: one that was drawn and not used stays unused.
const someTask = "task-*"

// prepare makes the scene's home, and the promises of what was acknowledged on
// the way.
func (sc *sweepScene) prepare(t *testing.T, bin, dir string) (*sweepHome, promises) {
	t.Helper()
	h := &sweepHome{T: t, bin: bin, home: filepath.Join(dir, "base")}
	if sc.name == "init" {
		return h, nil
	}
	h.must("init", "--sync", "standard")
	// A scene's claim must outlive its sweep, however slow the machine is, and no
	// task may wait so long that a line tells of it.
	if err := os.WriteFile(h.Path("mbox.toml"), []byte("lease = \"7d\"\nstart_within = \"7d\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var j promises
	for _, line := range sc.before {
		h.said = strings.TrimSpace(h.must(line...).out)
		if event := map[string]string{"send": "task_created", "claim": "task_picked", "cancel": "task_cancelled"}[line[0]]; event != "" {
			j = append(j, promise{event: event, id: "a"})
		}
	}
	for name, text := range sc.drop {
		path := h.Path("tasks", "pending", name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-time.Minute)
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if sc.spoil != nil {
		sc.spoil(h)
	}
	if sc.keeps != nil {
		j = append(j, promise{holds: sc.keeps})
	}
	return h, j
}

// strike runs the scene's command with one call broken.
func (sc *sweepScene) strike(h *sweepHome, inject string) ran {
	h.Helper()
	sc.unmake(h)
	if !sc.lease {
		return h.traced(inject, sc.verb...)
	}
	self, err := os.Executable()
	if err != nil {
		h.Fatal(err)
	}
	leased := *h
	leased.bin = "/usr/bin/env"
	return leased.traced(inject, leasedHome+"="+h.home, self)
}

// said says the scene's command once more.
func (sc *sweepScene) said(h *sweepHome) ran {
	h.Helper()
	sc.unmake(h)
	if !sc.lease {
		return h.run(sc.verb...)
	}
	return sc.strike(h, "")
}

func (sc *sweepScene) unmake(h *sweepHome) {
	h.Helper()
	if sc.makes == "" {
		return
	}
	if err := os.Remove(filepath.Join(filepath.Dir(h.home), sc.makes)); err != nil && !errors.Is(err, os.ErrNotExist) {
		h.Fatal(err)
	}
}

// acknowledged tells whether the command has promised its effect.
func (sc *sweepScene) acknowledged(r ran) bool {
	if r.code >= 0 {
		return r.code == sc.code || r.code == exitCommitted
	}
	return sc.told != nil && sc.told(r.out)
}

// leasedHome makes this test binary a one-shot command that claims with a lease
// file in the home that it names, as a worker does.
const leasedHome = "MBOX_TEST_LEASED"

func init() {
	home := os.Getenv(leasedHome)
	if home == "" {
		return
	}
	err := claimWithLease(home)
	code, _ := judge(err)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func claimWithLease(home string) error {
	box, err := mailbox.Open(context.Background(), home, mailbox.Options{RetryBase: time.Nanosecond})
	if err != nil {
		return err
	}
	defer box.Close()
	c, err := box.Claim(context.Background(), mailbox.ClaimRequest{Agent: "coder", Process: true})
	if err != nil {
		return err
	}
	fmt.Println(c.Token())
	return c.Close()
}
