package agents

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/secret"
	"mbox/agents/secret/secrettest"
	"mbox/mailbox"
	"mbox/schemas"
)

// What a command is given as secret stands in its environment, and in nothing that is
// kept of what it says: result, progress, log, failure.
func TestSecretsOfCommands(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{MaxAttempts: 1})
	good, bad := s.submit("x"), s.submit("y")
	w := s.worker(`echo "mbox:progress 5 with $KEY" >&2; echo "a $KEY b" >&2
printf %s "$KEY" >$OUT/key-$MBOX_TASK_ID
case $(cat) in *'"y"'*) exit 3;; esac
printf '{"a":["%s",1],"n":987654321,"%s":"x"}' "$KEY" "$KEY"`)
	opened := 0
	w.Unlock = func(context.Context) (secret.Values, error) {
		opened++
		return secret.Values{"KEY": "canary-of-a-key", "PIN": "987654321"}, nil
	}
	w.Env = append(os.Environ(), "KEY=not-the-secret")
	s.once(w)
	for _, id := range []mailbox.ID{good, bad} {
		if data, err := os.ReadFile(s.dir + "/key-" + string(id)); string(data) != "canary-of-a-key" || err != nil {
			t.Errorf("it was given %q: %v", data, err)
		}
	}
	if found, err := secrettest.Find(s.dir, "canary-of-a-key", s.dir+"/key-"+string(good), s.dir+"/key-"+string(bad)); found != nil || err != nil {
		t.Errorf("it stands in %q, %v", found, err)
	}
	if found, err := secrettest.Find(s.box.Home(), "canary-of-a-key"); found != nil || err != nil {
		t.Errorf("it stands in %q, %v", found, err)
	}
	if opened != 2 {
		t.Errorf("opened %d times for 2 attempts", opened)
	}
	if log := strings.Join(texts(s.logged()), "|"); log != "a <redacted> b|a <redacted> b" {
		t.Errorf("kept: %q", log)
	}
	task, _ := s.task(good)
	if got := string(task.Result.Output); strings.Contains(got, "canary") || strings.Contains(got, "98765") || !strings.Contains(got, "<redacted>") {
		t.Errorf("the result: %s", got)
	}
	failed, _ := s.task(bad)
	if m := failed.Result.Error.Message; strings.Contains(m, "canary") || !strings.Contains(m, "a <redacted> b") {
		t.Errorf("the failure: %q", m)
	}
	for _, task := range []*mailbox.Task{task, failed} {
		if p := task.Mbox.Progress; p != nil && strings.Contains(p.Message, "canary") {
			t.Errorf("the progress: %q", p.Message)
		}
	}
}

// Secrets that cannot be opened keep the command from starting, burn no attempt, and let
// the worker claim nothing more for a while.
func TestSecretsThatAreLocked(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{MaxAttempts: 1})
	ids := []mailbox.ID{s.submit("x"), s.submit("y")}
	w := s.worker(`touch $OUT/ran; echo hello`)
	w.Unlock = func(context.Context) (secret.Values, error) {
		return nil, errors.New("/home/.mbox/keys/identity: not private")
	}
	s.onceFails(w, "cannot work: its secrets cannot be opened (mbox doctor): ")
	if _, err := os.Stat(s.dir + "/ran"); err == nil {
		t.Error("the command has run")
	}
	given := 0
	for _, id := range ids {
		task, state := s.task(id)
		if state != mailbox.Pending || task.Mbox.Attempt != 0 {
			t.Errorf("%s is %s, attempt %d", id, state, task.Mbox.Attempt)
		}
		if data, err := schemas.Encode(task); err != nil || strings.Contains(string(data), "cannot be opened (mbox doctor): /home/.mbox/keys/identity: not private") {
			given++
		}
	}
	if given != 1 {
		t.Errorf("%d tasks were given back, not one", given)
	}
}

// Neither does it come through by the words of a runtime, of a check or of the output's
// own failure, which are no lines of stderr.
func TestSecretsInFailures(t *testing.T) {
	a := &attempt{secrets: secret.Values{"KEY": "canary-of-a-key"}}
	v := failed("agent", "it says canary-of-a-key")
	if got := a.silenced(v); got.failure.Message != "it says <redacted>" || got.failure.Code != "agent" {
		t.Errorf("%+v", got.failure)
	}
	if got := a.silenced(verdict{release: "canary-of-a-key has no quota"}); got.release != "<redacted> has no quota" {
		t.Errorf("%q", got.release)
	}
	if got := a.silenced(verdict{complete: true, output: jsontext.Value(`{"said":"canary-of-a-key"}`)}); !got.complete || string(got.output) != `{"said":"<redacted>"}` {
		t.Errorf("%s", got.output)
	}
	if v.failure.Message != "it says canary-of-a-key" {
		t.Error("it changes what others have")
	}
}

func TestWithoutWords(t *testing.T) {
	words := []string{"se\"cret\n1", "123456"}
	for in, want := range map[string]string{
		``:                                 ``,
		`"nothing"`:                        `"nothing"`,
		` {"a" : 1.0e5 } `:                 ` {"a" : 1.0e5 } `,
		`"a se\"cret\n1 b"`:                `"a <redacted> b"`,
		`"\u0073e\u0022cret\u000a1"`:       `"<redacted>"`,
		`{"se\"cret\n1":[true,null,0.5]}`:  `{"<redacted>":[true,null,0.5]}`,
		`[123456,1234567,12345]`:           `["<redacted>","<redacted>7",12345]`,
		`{"a":"123456","a":"se\"cret\n1"}`: `{"a":"<redacted>","a":"<redacted>"}`,
		`"an end is missing`:               `"<redacted>"`,
		`[[[[[{"x":[{"y":"123456"}]}]]]]]`: `[[[[[{"x":[{"y":"<redacted>"}]}]]]]]`,
	} {
		if got := string(withoutWords(words, jsontext.Value(in))); got != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
	if got := withoutWords(nil, jsontext.Value(`"123456"`)); string(got) != `"123456"` {
		t.Errorf("without secrets: %s", got)
	}
}

// aKey is a secret that an escape would change, and hideKey hides it.
const aKey = "canary-of\ta-key"

func hideKey(text string) string { return hideWords([]string{strings.Repeat("z", 1000), aKey}, text) }

// A secret does not come through where a line is cut, nor where what was hidden before it
// has made the line shorter.
func TestRemarksCutNoSecret(t *testing.T) {
	t.Parallel()
	for long, most := range map[string]int{"": maxRemark, strings.Repeat("z", 17_000): maxHeard - 17_000} {
		for _, at := range []int{0, most - 20, most - len(aKey), most - 7, most - 1, most, most + 9} {
			var lines []string
			r := &remarks{log: func(line string) { lines = append(lines, line) }, hide: hideKey, heard: func() {}}
			for _, piece := range []string{long, strings.Repeat("ä", at/2) + strings.Repeat(" ", at%2), aKey[:5], aKey[5:], strings.Repeat("y", 3*maxHeard), "\nnext\n"} {
				_, _ = r.Write([]byte(piece))
			}
			if len(lines) != 2 || len(lines[0]) > maxRemark || strings.Contains(lines[0], "can") || lines[1] != "next" {
				t.Errorf("at %d: %d lines, the first has %d bytes and ends in %q", at, len(lines), len(lines[0]), lines[0][max(0, len(lines[0])-30):])
			}
		}
	}
}

// Nor does one in a progress or a failure, which are cut and escaped, wherever it begins.
func TestSecretsAreHiddenBeforeTheCut(t *testing.T) {
	t.Parallel()
	for at := range maxTail + 2 {
		said := strings.Repeat("y", at) + aKey
		r, progress := reads(t, FormatCodex, `{"type":"error","message":`+strconv.Quote(said)+"}\n"+`{"type":"turn.failed","error":{"message":`+strconv.Quote(said)+"}}\n")
		_, lines := reads(t, FormatLines, strings.Repeat("z", 17_000)+said+"\n")
		if all := strings.Join(append(append(progress, lines...), r.fault), "|"); strings.Contains(all, "can") || strings.Contains(all, "zz") {
			t.Errorf("behind %d: %q", at, all)
		}
	}
}

// Nor in what is left of a result, or of a line, that was too long.
func TestSecretsAtTheEndOfOutput(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		format Format
		most   int
		end    string
	}{
		"a result": {FormatJSON, maxOutput, ""},
		"a line":   {FormatClaude, maxEvent, "\nthe end\n"},
	} {
		t.Run(name, func(t *testing.T) {
			keep := &output{dir: t.TempDir(), heard: func() {}, hide: hideKey}
			defer keep.close()
			r := &recital{format: c.format, prose: keep, hide: hideKey, progress: func(mailbox.Progress) {}}
			to := io.Writer(r)
			if c.format == FormatJSON {
				to = keep
			}
			_, _ = io.WriteString(to, strings.Repeat("y", c.most-6)+aKey+c.end)
			r.end()
			v, err := r.value()
			if text := string(v); err != nil || strings.Contains(text, "can") || len(text) < c.most-secret.Most-6 || !strings.Contains(text, strings.TrimSpace(c.end)) {
				t.Errorf("%d bytes, which end in %s, %v", len(text), text[max(0, len(text)-80):], err)
			}
		})
	}
}

// told is a runtime that says what it was told to, and what its progress has become.
type told struct {
	done     Done
	progress *string
}

func (told) Here() bool { return false }

func (r told) Work(ctx context.Context, j *Job) Done {
	j.Progress(nil, r.done.Message+r.done.Said+r.done.Release)
	for ctx.Err() == nil && *r.progress == "" {
		time.Sleep(5 * time.Millisecond)
		if t, _, err := j.a.Box.Task(ctx, j.a.claim.ID()); err == nil && t.Mbox.Progress != nil {
			*r.progress = t.Mbox.Progress.Message
		}
	}
	return r.done
}

// Nor in the words of a runtime.
func TestSecretsOfRuntimes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before int
		done   func(text string) Done
	}{
		"a message":    {maxTail - 5, func(text string) Done { return Failed("x", "%s", text) }},
		"a last word":  {maxTail - 5, func(text string) Done { return Done{Code: "x", Message: "it says", Said: text} }},
		"a progress":   {maxNews - 5, func(text string) Done { return Done{Code: "x", Said: text} }},
		"given back":   {200 - 5, func(text string) Done { return Done{Release: text, Delay: time.Hour} }},
		"with escapes": {0, func(text string) Done { return Done{Code: "x", Message: text, Said: text} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newCompany(t, nil)
			id := s.send("coder", "x", nil)
			w := s.member("coder")
			progress := ""
			w.Runtime = told{c.done(strings.Repeat("y", c.before) + aKey), &progress}
			w.Unlock = func(context.Context) (secret.Values, error) { return secret.Values{"KEY": aKey}, nil }
			s.once(w)
			task, _ := s.task(id)
			if data, err := schemas.Encode(task); err != nil || strings.Contains(string(data)+progress, "canar") {
				t.Errorf("%v %s, progress %q", err, data, progress)
			}
			if found, err := secrettest.Find(s.box.Home(), "canary"); found != nil || err != nil {
				t.Errorf("it stands in %q, %v", found, err)
			}
		})
	}
}
