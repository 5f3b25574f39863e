package irc

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParse(t *testing.T) {
	for raw, want := range map[string]line{
		"PING":                          {command: "PING"},
		"ping :a b":                     {command: "PING", params: []string{"a b"}},
		":s  001  mbox  :":              {prefix: "s", command: "001", params: []string{"mbox", ""}},
		":n!u@h PRIVMSG #a ::-) x":      {prefix: "n!u@h", command: "PRIVMSG", params: []string{"#a", ":-) x"}},
		`@a=1\:\s\\\r\n\b;b;+c= :s X y`: {tags: map[string]string{"a": "1; \\\r\nb", "b": "", "+c": ""}, prefix: "s", command: "X", params: []string{"y"}},
		"X" + strings.Repeat(" p", 20):  {command: "X", params: append(strings.Fields(strings.Repeat("p ", 14)), "p p p p p p")},
	} {
		if got, ok := parse(raw); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %+v", raw, got)
		}
	}
	for _, raw := range []string{"", " ", ":s", ":s ", "@a", "@a :s", "@a  "} {
		if l, ok := parse(raw); ok {
			t.Errorf("%q is %+v", raw, l)
		}
	}
}

func TestAddressed(t *testing.T) {
	for text, want := range map[string]string{
		"mbox: hi": "hi", "MBOX, hi": "hi", " @mbox hi": "hi", "@mbox: hi": "hi", "mbox:hi": "hi", "mbox: /status": "/status",
		"mbox hi": "-", "mboxes: hi": "-", "mbox": "-", "hi mbox: x": "-", "": "-", "@mboxes hi": "-", "ſbox: x": "-",
	} {
		if got, ok := addressed(text, "mbox"); ok != (want != "-") || ok && got != want {
			t.Errorf("%q is %q, %v", text, got, ok)
		}
	}
}

func FuzzLine(f *testing.F) {
	for _, seed := range []string{"@a=1;b :n!u@h PRIVMSG #ops :mbox: hi", ":s 005 mbox CHATHISTORY=9 BOT=B :x", "BATCH +1 chathistory #ops", ":n!u@h PRIVMSG mbox :\x01ACTION x\x01", "CAP * LS * :sasl=PLAIN", "\xff \x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		l, ok := parse(raw)
		if !ok {
			return
		}
		if l.command == "" || len(l.params) > maxParams {
			t.Errorf("%q is %+v", raw, l)
		}
		_ = l.String()
		m := taken(t, raw, "message-tags", "server-time", "account-tag")
		if m.From != "" && (!utf8.ValidString(m.From) || !utf8.ValidString(m.Text) || m.ID == "" || m.Text == "" || m.In.Peer == "") {
			t.Errorf("%q is %+v", raw, m)
		}
	})
}

func FuzzCut(f *testing.F) {
	f.Add("one two three\nfour", 10)
	f.Add(strings.Repeat("ü", 100)+"\r\n\x01a\x00\xff", 7)
	f.Fuzz(func(t *testing.T, text string, size int) {
		size = 4 + (size&0xfff)%600
		got := cut(text, size)
		for _, l := range got {
			if l == "" || len(l) > size || !utf8.ValidString(l) || strings.ContainsAny(l, "\r\n\x00\x01") {
				t.Errorf("%q has the line %q", text, l)
			}
		}
		bare := func(s string) string {
			return strings.ReplaceAll(strings.Map(visible, strings.ReplaceAll(s, "\n", " ")), " ", "")
		}
		var want string
		for l := range strings.SplitSeq(text, "\n") {
			want += bare(strings.ToValidUTF8(l, "\uFFFD"))
		}
		if bare(strings.Join(got, " ")) != want {
			t.Errorf("%q became %q", text, got)
		}
	})
}
