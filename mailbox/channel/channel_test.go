package channel

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"mbox/mailbox/task"
	"mbox/schemas"
)

func message(change func(*Message)) *Message {
	m := &Message{ID: "m1", Version: 1, Channel: "general", Posted: task.At(time.Unix(0, 0)), From: "coder", Type: DefaultType, Text: "hello"}
	change(m)
	return m
}

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Message)
		path   string
	}{
		"plain":             {func(*Message) {}, ""},
		"human":             {func(m *Message) { m.From = "human" }, ""},
		"hidden characters": {func(m *Message) { m.Text = "a\u202eb\x1b[2J" }, ""}, // kept as they are; who prints makes them visible
		"longest text":      {func(m *Message) { m.Text = strings.Repeat("x", MaxText) }, ""},
		"most names":        {func(m *Message) { m.Text = strings.Repeat("@a ", 99) }, ""},
		"version":           {func(m *Message) { m.Version = 2 }, "version"},
		"id":                {func(m *Message) { m.ID = "../x" }, "id"},
		"long id":           {func(m *Message) { m.ID = strings.Repeat("x", 129) }, "id"},
		"channel":           {func(m *Message) { m.Channel = "General" }, "channel"},
		"channel of dots":   {func(m *Message) { m.Channel = ".." }, "channel"},
		"long channel":      {func(m *Message) { m.Channel = strings.Repeat("x", 65) }, "channel"},
		"nobody":            {func(m *Message) { m.From = "any" }, "from"},
		"type":              {func(m *Message) { m.Type = "a b" }, "type"},
		"reply":             {func(m *Message) { m.ReplyTo = "a/b" }, "reply_to"},
		"no text":           {func(m *Message) { m.Text = " \n" }, "text"},
		"text too long":     {func(m *Message) { m.Text = strings.Repeat("x", MaxText+1) }, "text"},
		"bytes":             {func(m *Message) { m.Text = "\xff" }, "text"},
		"too many":          {func(m *Message) { m.Receivers = make([]Receiver, MaxReceivers+1) }, "receivers"},
		"too many names": {func(m *Message) {
			for i := range MaxMentions + 1 {
				m.Text += " @a" + strings.Repeat("b", i)
			}
		}, "text"},
	} {
		err := message(c.change).Check()
		var bad *schemas.Error
		if c.path == "" && err != nil || c.path != "" && (!errors.As(err, &bad) || bad.Path != c.path) {
			t.Errorf("%s: %v, want a fault at %q", name, err, c.path)
		}
	}
}

func TestCheckID(t *testing.T) {
	for id, good := range map[string]bool{"m1": true, "msg-2026": true, "": false, "a/b": false, "channel-general": false, "Reply-1": false, "replying": true} {
		if err := CheckID(id); (err == nil) != good {
			t.Errorf("%q: %v", id, err)
		}
	}
	if a, b := ReplyID("Task-1"), ReplyID("task-1"); a != b || a == ReplyID("task-2") || CheckID(a) == nil {
		t.Errorf("the answers to one item are %s and %s", a, b)
	}
	longest := message(func(m *Message) { m.ID = ReplyID(task.ID(strings.Repeat("x", 128))) })
	if err := longest.Check(); err != nil {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	for text, want := range map[string]string{
		"@coder":                                "coder",
		"hi @coder, and @Tester.":               "coder tester",
		"(@coder)@tester":                       "coder tester",
		"twice @coder @coder":                   "coder",
		"你好@coder你好":                            "coder",
		"me@coder.example":                      "",
		"@coder.example":                        "",
		"@coder@host":                           "",
		"npm @scope/name and a/@coder":          "",
		"@@coder x@coder":                       "",
		"@coder...":                             "coder",
		"@":                                     "",
		"@" + strings.Repeat("x", 65):           "",
		"@coder-2 @coder_3":                     "coder-2 coder_3",
		"line\n@coder\n\u202e@tester `@writer`": "coder tester writer",
	} {
		if got := strings.Join(names(text), " "); got != want {
			t.Errorf("%q names %q, want %q", text, got, want)
		}
	}
}

func TestAddress(t *testing.T) {
	members := []Member{
		{Name: "coder"},
		{Name: "off", Off: true, Watches: []string{"general"}},
		{Name: "tester", Watches: []string{"other", "general"}},
		{Name: "writer"},
		{Name: "builtin", Unasked: true},
	}
	for text, want := range map[string]string{
		"hello":                        "tester:watch",
		"@writer":                      "writer:mention tester:watch",
		"@off":                         "off:mention tester:watch",
		"@coder":                       "tester:watch", // it says so itself
		"@agents":                      "tester:broadcast writer:broadcast",
		"@agents @tester and @writer":  "tester:mention writer:mention",
		"@agents @builtin":             "builtin:mention tester:broadcast writer:broadcast",
		"@apes @nobody":                "tester:watch people ?nobody",
		"@apes @agents @writer @nobod": "writer:mention tester:broadcast people ?nobod",
	} {
		m := message(func(m *Message) { m.Text = text })
		m.Receivers, m.People = []Receiver{{"stranger", Mention}}, true // what somebody wrote there counts for nothing
		unknown := m.Address(members)
		var got []string
		for _, r := range m.Receivers {
			got = append(got, r.Agent+":"+r.Trigger)
		}
		if m.People {
			got = append(got, "people")
		}
		for _, name := range unknown {
			got = append(got, "?"+name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q is for %v, want %s", text, got, want)
		}
	}
}

// Where there is nobody else, all are nobody.
func TestAddressOfNobody(t *testing.T) {
	m := message(func(m *Message) { m.Text = "@agents" })
	members := []Member{{Name: "coder"}, {Name: "off", Off: true}, {Name: "builtin", Unasked: true}, {Name: "watcher", Off: true, Watches: []string{"general"}}}
	if unknown := m.Address(members); !slices.Equal(unknown, []string{Agents}) || len(m.Receivers) > 0 {
		t.Errorf("it is for %v, and %q are unknown", m.Receivers, unknown)
	}
}

func TestParse(t *testing.T) {
	m := message(func(m *Message) { m.Receivers = []Receiver{{"tester", Watch}} })
	data, err := schemas.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	read, err := Parse(data)
	if err != nil || !read.Same(m) || !slices.Equal(read.Receivers, m.Receivers) || read.File() != "channels/general/m1.json" {
		t.Errorf("%+v: %v", read, err)
	}
	for _, bad := range []string{"", "{}", `{"id":"m1"}`, strings.Replace(string(data), `"version"`, `"extra": 1, "version"`, 1)} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	for _, change := range []func(*Message){
		func(m *Message) { m.ID = "m2" }, func(m *Message) { m.Channel = "other" }, func(m *Message) { m.From = "tester" },
		func(m *Message) { m.Type = "alert" }, func(m *Message) { m.Text += " " }, func(m *Message) { m.ReplyTo = "m0" },
	} {
		if other := message(change); other.Same(m) {
			t.Errorf("%+v says the same as %+v", other, m)
		}
	}
}
