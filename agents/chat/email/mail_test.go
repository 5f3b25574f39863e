package email

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"mbox/agents/chat"
)

// receives is the message of a mail, and why there is none.
func receives(text string) (chat.Message, string) {
	raw := []byte(strings.ReplaceAll(text, "\n", "\r\n"))
	r := reader{own: agent, domain: "example.org", authserv: "mx.example.org"}
	return r.message(&letter{uid: 1, size: int64(len(raw)), at: time.Unix(1, 0), bytes: raw})
}

func taken(t *testing.T, text string) chat.Message {
	t.Helper()
	m, ignored := receives(text)
	if ignored != "" {
		t.Fatalf("ignored: %s", ignored)
	}
	return m
}

// Only a sender whom everybody reads in the same way counts.
func TestTheSenderIsOneAddress(t *testing.T) {
	for header, want := range map[string]string{
		"From: anna@example.com":                                    "anna@example.com",
		"From: <Anna@EXAMPLE.com>":                                  "Anna@example.com",
		"From: Anna Example\n <anna@example.com>":                   "anna@example.com",
		"From: =?utf-8?q?J=C3=BCrgen?= <j@example.com>":             "j@example.com",
		"From: \"anna@example.com\" <anna@example.com>":             "anna@example.com",
		"From: \"boss@bank.com\" <eve@evil.com>":                    "",
		"From: =?utf-8?q?boss=40bank=2Ecom?= <eve@evil.com>":        "",
		"From: =?utf-8?q?boss=EF=BC=A0bank?= <eve@evil.com>":        "",
		"From: =?utf-8?q?=E2=80=AEanna?= <eve@evil.com>":            "",
		"From: \"<boss>\" <eve@evil.com>":                           "",
		"From: anna@example.com, eve@evil.com":                      "",
		"From: anna@example.com\nFrom: eve@evil.com":                "",
		"From : anna@example.com\nFrom: eve@evil.com":               "",
		"From: Friends: anna@example.com;":                          "",
		"From: anna@example.com (Anna)":                             "",
		"From: anna@example.com (<eve@evil.com>)":                   "",
		"From: <@a.org,@b.org:anna@example.com>":                    "",
		"From: \"anna\"@example.com":                                "",
		"From: \"a b\"@example.com":                                 "",
		"From: anna@exämple.com":                                    "",
		"From: änna@example.com":                                    "",
		"From: anna@example.com\x00":                                "",
		"From: anna@example..com":                                   "",
		"From: anna":                                                "",
		"From:":                                                     "",
		"To: anna@example.com":                                      "",
		"From: " + strings.Repeat("a", 300) + "@example.com":        "",
		"Reply-To: eve@evil.com\nSender: x@y\nFrom: a@b.c":          "a@b.c",
		"From: eve@evil.com\n\nFrom: anna@example.com":              "eve@evil.com",
		"X-A: b\n From: eve@evil.com\nFrom: anna@example.com":       "anna@example.com",
		"From: anna@example.com\nResent-From: eve@evil.com\nX-A: b": "anna@example.com",
	} {
		m, ignored := receives(header + "\n\ntext\n")
		if m.From != want || m.In.Peer != want || (ignored == "") != (want != "") {
			t.Errorf("%q: from %q, ignored %q; want %q", header, m.From, ignored, want)
		}
	}
}

// What a machine wrote is not answered, else two of them write for ever.
func TestMachinesAreNotAnswered(t *testing.T) {
	const from = "From: anna@example.com"
	for header, ignored := range map[string]bool{
		from:                                                               false,
		from + "\nAuto-Submitted: no":                                      false,
		from + "\nAuto-Submitted: No (a person)":                           true,
		from + "\nAuto-Submitted: auto-replied":                            true,
		from + "\nAuto-submitted: auto-generated; owner=x":                 true,
		from + "\nPrecedence: Bulk":                                        true,
		from + "\nPrecedence: list":                                        true,
		from + "\nPrecedence: first-class":                                 false,
		from + "\nX-Auto-Response-Suppress: OOF, AutoReply":                true,
		from + "\nX-Autoreply: yes":                                        true,
		from + "\nList-Id: <x.example.com>":                                true,
		from + "\nList-Unsubscribe: <mailto:x@y>":                          true,
		"Return-Path: <>\n" + from:                                         true,
		"Return-Path: < >\n" + from:                                        true,
		"Return-Path: <anna@example.com>\n" + from:                         false,
		"From: Mailer-Daemon@example.com":                                  true,
		"From: postmaster@example.com":                                     true,
		"From: AGENT@example.org":                                          true,
		from + "\nContent-Type: multipart/report; boundary=x":              true,
		from + "\nContent-Type: Multipart/Report; report-type=x":           true,
		from + "\nSubject: Auto-Submitted: auto-replied":                   false,
		from + "\nX-Loop: x\nListing: y":                                   false,
		from + "\nAuto-Submitted:\n auto-replied\nX: y":                    true,
		from + "\n\nAuto-Submitted: auto-replied\nPrecedence: bulk\nbye\n": false,
	} {
		if _, why := receives(header + "\n\ntext\n"); (why != "") != ignored {
			t.Errorf("%q: %q", header, why)
		}
	}
}

func TestAThreadHasTheNameOfItsFirstMail(t *testing.T) {
	for header, want := range map[string]string{
		"Message-ID: <a@x>":                                                   "a@x",
		"Message-ID: <b@x>\nIn-Reply-To: <a@x>":                               "a@x",
		"Message-ID: <c@x>\nIn-Reply-To: <b@x>\nReferences: <a@x>\n <b@x>":    "a@x",
		"Message-ID: <c@x>\nReferences: <a@x><b@x>":                           "a@x",
		"Message-ID: <c@x>\nReferences: junk <a\"@x> <a@x>":                   "a@x",
		"Message-ID: <c@x>\nReferences: <" + strings.Repeat("a", 300) + "@x>": "c@x",
		"Message-ID: c@x":            "",
		"Message-ID: <c x@x>":        "",
		"Message-ID: <ü@x>":          "",
		"Message-ID: <a@x>, <b@x>":   "",
		"Message-ID: <a@x>\r\r Bcc:": "",
		"X: y":                       "",
	} {
		m := taken(t, "From: anna@example.com\n"+header+"\n\ntext\n")
		if m.In.Thread != want {
			t.Errorf("%q: thread %q, want %q", header, m.In.Thread, want)
		}
	}
}

// The ID is the same whenever and by whichever way a mail comes; and nobody can take
// that of another's mail.
func TestAMailKeepsItsID(t *testing.T) {
	const mail = "From: anna@example.com\nMessage-ID: <a@x>\nSubject: s\n\ntext\n"
	first := taken(t, mail)
	if replyID(first.ID) != "a@x" {
		t.Errorf("%q", first.ID)
	}
	for name, other := range map[string]struct {
		text string
		same bool
	}{
		"again":         {mail, true},
		"another way":   {"Received: from a by b\nReturn-Path: <anna@example.com>\n" + mail, true},
		"another text":  {strings.Replace(mail, "text", "other", 1), false},
		"another one":   {strings.Replace(mail, "anna", "eve", 1), false},
		"another ID":    {strings.Replace(mail, "a@x", "b@x", 1), false},
		"no ID":         {strings.Replace(mail, "Message-ID", "X-ID", 1), false},
		"a trick":       {strings.Replace(mail, "a@x>", "a@x#000000000000000000000000>", 1), false},
		"not in a form": {strings.Replace(mail, "<a@x>", "a@x", 1), false},
	} {
		if m := taken(t, other.text); (m.ID == first.ID) != other.same {
			t.Errorf("%s: %q and %q", name, m.ID, first.ID)
		}
	}
	none := strings.Replace(mail, "Message-ID", "X-ID", 1)
	if a, b := taken(t, none), taken(t, strings.Replace(none, "Subject: s", "Subject: t", 1)); a.ID == b.ID || replyID(a.ID) != "" {
		t.Errorf("%q and %q", a.ID, b.ID)
	}
}

const head = "From: anna@example.com\nMessage-ID: <a@x>\nMIME-Version: 1.0\n"

func multi(kind string, parts ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Content-Type: multipart/%s; boundary=\"==%[1]s\"\n\n", kind)
	for _, p := range parts {
		fmt.Fprintf(&b, "--==%s\n%s\n", kind, p)
	}
	fmt.Fprintf(&b, "--==%s--\n", kind)
	return b.String()
}

func TestTheTextOfAMail(t *testing.T) {
	const plain, page = "Content-Type: text/plain; charset=utf-8\n\nplain ü\n", "Content-Type: text/html; charset=utf-8\n\n<p>page\n"
	const file = "Content-Type: text/plain; name=a.txt\nContent-Disposition: attachment; filename=a.txt\n\nin the file\n"
	for name, c := range map[string]struct{ mail, want string }{
		"no type":          {"\nhello\n\nworld\n", "hello\n\nworld"},
		"plain":            {plain, "plain ü"},
		"html":             {page, "page"},
		"alternative":      {multi("alternative", page, plain), "plain ü"},
		"empty plain":      {multi("alternative", "Content-Type: text/plain\n\n \n", page), "page"},
		"mixed":            {multi("mixed", multi("alternative", plain, page), file), "plain ü"},
		"two texts":        {multi("mixed", plain, plain), "plain ü\n\nplain ü"},
		"only a file":      {multi("mixed", file), ""},
		"quoted-printable": {"Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n\nsch=F6n=\n er\n", "schön er"},
		"base64":           {"Content-Transfer-Encoding: base64\n\naGVs\nbG8=\n", "hello"},
		"windows":          {"Content-Type: text/plain; charset=\"Windows-1252\"\n\n\x80 5\n", "€ 5"},
		"japanese":         {"Content-Type: text/plain; charset=iso-2022-jp\n\n\x1b$B%\x22\x1b(B\n", "ア"},
		"no charset":       {"\nsch\xf6n\n", "schön"},
		"wrong charset":    {"Content-Type: text/plain; charset=utf-8\n\nsch\xf6n\n", "schön"},
		"unknown charset":  {"Content-Type: text/plain; charset=klingon\n\nsch\xf6n\n", "sch\ufffdn"},
		"odd type":         {"Content-Type: text/plain; charset\n\nhello\n", "hello"},
	} {
		m := taken(t, head+c.mail)
		if m.Text != c.want {
			t.Errorf("%s: %q, want %q", name, m.Text, c.want)
		}
	}
}

func TestTheTitleOfAMail(t *testing.T) {
	for in, want := range map[string]string{
		"hello":                           "hello",
		"=?UTF-8?B?c2Now7Zu?=":            "schön",
		"=?iso-8859-1?q?sch=F6n?= =?x?q?": "schön =?x?q?",
		"=?klingon?q?a=F6?=":              "=?klingon?q?a=F6?=",
		"a\n b":                           "a b",
	} {
		if m := taken(t, head+"Subject: "+in+"\n\n"); m.Title != want {
			t.Errorf("%q: %q", in, m.Title)
		}
	}
}

func TestAttachmentsAreFiles(t *testing.T) {
	m := taken(t, head+multi("mixed", "\nhello\n",
		"Content-Type: application/pdf\nContent-Disposition: attachment; filename*=utf-8''r%C3%A9sum%C3%A9.pdf\nContent-Transfer-Encoding: base64\n\naGVsbG8=\n",
		"Content-Type: image/png; name=\"../../a.png\"\nContent-Disposition: inline\n\nxx\n",
		"Content-Type: message/rfc822\n\nFrom: a@b.c\nSubject: x\n\nforwarded\n",
		"Content-Type: text/plain; charset=iso-8859-1\nContent-Disposition: attachment\n\n\xf6\n",
		"Content-Type: application/pgp-signature\n\nxx\n"))
	var got []string
	for _, f := range m.Files {
		got = append(got, fmt.Sprintf("%s %s %d %q", f.Name, f.Type, f.Size, opensTo(t, f)))
	}
	want := []string{
		`résumé.pdf application/pdf 5 "hello"`, `../../a.png image/png 4 "xx\r\n"`,
		`part-5 message/rfc822 38 "From: a@b.c\r\nSubject: x\r\n\r\nforwarded\r\n"`, `part-6 text/plain 3 "\xf6\r\n"`,
	}
	if m.Text != "hello" || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q with\n%s", m.Text, strings.Join(got, "\n"))
	}
}

func opensTo(t *testing.T, f chat.File) string {
	t.Helper()
	r, err := f.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	all, err := io.ReadAll(r)
	if err != nil || int64(len(all)) != f.Size {
		t.Errorf("%s has %d bytes, said are %d: %v", f.Name, len(all), f.Size, err)
	}
	return string(all)
}

// What is not taken apart is there as a whole, or is told to be too large.
func TestNothingOfAMailIsLeftOutInSilence(t *testing.T) {
	deep := "\nbottom\n"
	for range maxDepth + 2 {
		deep = multi("mixed", deep)
	}
	for name, mail := range map[string]string{
		"many parts":     multi("mixed", strings.Split(strings.Repeat("\nx\n|", maxParts+5), "|")...),
		"deep":           deep,
		"cut off":        strings.TrimSuffix(multi("mixed", "\nx\n"), "--==mixed--\n"),
		"broken base64":  "Content-Transfer-Encoding: base64\n\n!!!!\n",
		"other encoding": "Content-Transfer-Encoding: uuencode\n\nbegin\n",
		"long text":      "\n" + strings.Repeat("x", maxText+1) + "\n",
	} {
		m := taken(t, head+mail)
		if len(m.Files) == 0 || m.Files[len(m.Files)-1].Name != "mail.eml" {
			t.Errorf("%s: %d files, the text has %d bytes", name, len(m.Files), len(m.Text))
			continue
		}
		opensTo(t, m.Files[len(m.Files)-1])
	}
	raw := []byte(head + "\nstart")
	m, ignored := reader{own: agent}.message(&letter{size: maxMail + 1, bytes: raw})
	if ignored != "" || len(m.Files) != 1 || m.Files[0].Size != maxMail+1 || m.Text != "start" {
		t.Fatalf("%q %+v", ignored, m)
	}
	if r, err := m.Files[0].Open(t.Context()); err == nil {
		r.Close()
		t.Error("a mail that was not fetched can be opened")
	}
	if _, ignored := receives("From: anna@example.com\nX: " + strings.Repeat("x", maxHeader) + "\n\nx\n"); ignored == "" {
		t.Error("a header without an end is read")
	}
}

func TestQuotedHistoryIsCutOff(t *testing.T) {
	const answer = "Yes, do it.\n"
	for name, c := range map[string]struct{ text, want string }{
		"gmail":         {answer + "\nOn Mon, Nov 2, 2026 at 9:00 AM Agent <agent@example.org> wrote:\n\n> Shall I?\n>\n> > before\n", "Yes, do it."},
		"two lines":     {answer + "\nOn Mon, Nov 2, 2026 at 9:00 AM Agent <agent@example.org>\nwrote:\n> Shall I?\n", "Yes, do it."},
		"german":        {answer + "\nAm 02.11.26 um 09:00 schrieb Agent:\n> Soll ich?\n", "Yes, do it."},
		"outlook":       {answer + "\n-----Original Message-----\nFrom: Agent\n\nShall I?\n", "Yes, do it."},
		"signature":     {answer + "-- \nAnna\n+49 1\n\nOn 1.1. X wrote:\n> a\n", "Yes, do it."},
		"own quotation": {"Please answer:\n> What is it?\n", "Please answer:\n> What is it?"},
		"between":       {"On 1.1. X wrote:\n> Shall I?\nYes.\n> And that?\nNo.\n", "On 1.1. X wrote:\n> Shall I?\nYes.\n> And that?\nNo."},
		"nothing else":  {"On 1.1. X wrote:\n> Shall I?\n", "On 1.1. X wrote:\n> Shall I?"},
		"dashes":        {"a\n--\nb\n", "a\n--\nb"},
		"long":          {"a\n-- \n" + strings.Repeat("b\n", 20), "a\n-- \n" + strings.TrimSpace(strings.Repeat("b\n", 20))},
	} {
		if m := taken(t, head+"In-Reply-To: <z@x>\n\n"+c.text); m.Text != c.want {
			t.Errorf("%s: %q, want %q", name, m.Text, c.want)
		}
	}
	fresh := "Look:\nOn 1.1. X wrote:\n> Shall I?"
	if m := taken(t, head+"\n"+fresh+"\n"); m.Text != fresh {
		t.Errorf("of a mail that answers none remains %q", m.Text)
	}
}

func TestHTMLIsReadAsText(t *testing.T) {
	for page, want := range map[string]string{
		"<p>one<p>two":                                                     "one\n\ntwo",
		"<div>one</div><div>two<br>three</div>":                            "one\ntwo\nthree",
		"a <b>b</b>c\n d&nbsp;&amp;":                                       "a bc d &",
		"<style>x</style><script>y<b></script><title>z</title>t":           "t",
		"<ul><li>a<li>b</ul>":                                              "- a\n- b",
		"see <a href=\"https://x.org/a?b=1&amp;c\">here</a>.":              "see here <https://x.org/a?b=1&c>.",
		"<a href='https://x.org'>https://x.org</a>":                        "https://x.org",
		"<a href='javascript:x'>here</a>":                                  "here",
		"yes<blockquote>was<blockquote>before</blockquote></blockquote>no": "yes\n> was\n> > before\nno",
		"<pre>a\n  b\n\nc</pre>d":                                          "a\n  b\n\nc\nd",
		"<table><tr><td>a<td>b<tr><td>c</table>":                           "a b\nc",
		"<!-- x --><p":                                                     "",
		"a<b":                                                              "a",
		"</p></pre></blockquote></a>x":                                     "x",
		"1 < 2 <3 </ >":                                                    "1 < 2 <3 </ >",
		"<a title=it's href = x.org\nHREF='https://x.org/'>a</A >":         "a <https://x.org/>",
		"<p title=\"a>b\" data-href=https://y>c":                           "c",
		"<a href=https://x.org>a":                                          "a",
		"<a href=https://x.org/?a=b&amp;c=d>a</a>":                         "a <https://x.org/?a=b&c=d>",
		"a<!DOCTYPE x><?xml?>b<a href=\"":                                  "ab",
		"a<SCRIPT>b</scrip</style></Script >c":                             "ac",
		"<p>" + strings.Repeat("<b>", 9e4):                                 "",
	} {
		if got := undressed(page); got != want {
			t.Errorf("%.60s: %q, want %q", page, got, want)
		}
	}
}

func FuzzMail(f *testing.F) {
	for _, seed := range []string{
		"From: a@b.c\nContent-Type: text/html\n\n<p>a<!-- b --><A HREF='https://x'>c</a><script>d</script><pre>e\n f</pre>&amp;&#0;<blockquote>g",
		letterOf("a@x", "hello"),
		head + multi("mixed", multi("alternative", "Content-Type: text/plain\n\nx\n", "Content-Type: text/html\n\n<p>x<a href=https://y>z\n"), "Content-Disposition: attachment; filename=a\n\nb\n"),
		head + "Authentication-Results: mx.example.org; dkim=pass header.d=example.com\nReferences: <a@x> <b@x>\nIn-Reply-To: <b@x>\n\nYes\n\nOn 1.1. X wrote:\n> a\n-- \nme\n",
		"From: =?utf-8?q?J=C3=BC?= <j@x.org>\nSubject: =?iso-8859-1?b?w/Y=?=\nContent-Transfer-Encoding: base64\nContent-Type: text/html; charset=iso-2022-jp\n\naGVsbG8=\n",
	} {
		f.Add([]byte(strings.ReplaceAll(seed, "\n", "\r\n")))
		f.Add([]byte(seed))
	}
	r := reader{own: agent, domain: "example.org", authserv: "mx.example.org"}
	f.Fuzz(func(t *testing.T, raw []byte) {
		l := &letter{size: int64(len(raw)), bytes: raw}
		m, ignored := r.message(l)
		if ignored != "" {
			return
		}
		again, _ := r.message(l)
		from, domain, ok := address(m.From)
		switch {
		case !ok || from != m.From || m.In.Peer != m.From || m.From == agent:
			t.Errorf("from %q in %q", m.From, m.In.Peer)
		case m.ID == "" || m.ID != again.ID || m.Text != again.Text || len(m.Files) != len(again.Files):
			t.Errorf("%q the first time, %q the second", m.ID, again.ID)
		case m.In.Thread != "" && msgID("<"+m.In.Thread+">") != m.In.Thread:
			t.Errorf("thread %q", m.In.Thread)
		case strings.ToValidUTF8(m.Text+m.Title, "") != m.Text+m.Title:
			t.Errorf("text %q", m.Text)
		}
		for word := range strings.FieldsSeq(m.Proof) {
			if word != "dkim="+domain && word != "spf="+domain && word != "dmarc=pass" {
				t.Errorf("%q proves something about %q", word, domain)
			}
		}
		for _, file := range m.Files {
			if file.Name == "" {
				t.Error("a file has no name")
			}
		}
	})
}
