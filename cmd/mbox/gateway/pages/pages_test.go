package pages

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

func TestMarkdown(t *testing.T) {
	for text, want := range map[string]string{
		"a *b* **c** `d*e*`":            "<p>a <em>b</em> <strong>c</strong> <code>d*e*</code></p>",
		"# A\n\n### B ##":               "<h2>A</h2>\n<h4>B</h4>",
		"- a\n- b\n  more\n\n1. c":      "<ul>\n<li>a</li>\n<li>b\nmore</li>\n</ul>\n<ol>\n<li>c</li>\n</ol>",
		"> a\n> b":                      "<blockquote>a\nb</blockquote>",
		"```go\n<b>\n```\nx":            "<pre tabindex=\"0\"><code>&lt;b&gt;\n</code></pre>\n<p>x</p>",
		"```\nno end":                   "<pre tabindex=\"0\"><code>no end\n</code></pre>",
		"[a](https://b.example/?c&d)":   `<p><a rel="noreferrer nofollow" href="https://b.example/?c&amp;d">a</a></p>`,
		"[a](javascript:alert(1))":      "<p>[a](javascript:alert(1))</p>",
		"[a](javascript://b.example/x)": "<p>[a](javascript://b.example/x)</p>",
		"[a](data:text/html,x)":         "<p>[a](data:text/html,x)</p>",
		"[a](//evil.example)":           "<p>[a](//evil.example)</p>",
		"![a](https://evil.example/x)":  `<p>!<a rel="noreferrer nofollow" href="https://evil.example/x">a</a></p>`,
		"[a](https://c.example:9/x)":    `<p><a rel="noreferrer nofollow" href="https://c.example:9/x">a</a></p>`,
		"<script>alert(1)</script>":     "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>",
		"`<img src=x onerror=y>`":       "<p><code>&lt;img src=x onerror=y&gt;</code></p>",
		"a\u202eb":                      `<p>a\u202eb</p>`,
		"* * *":                         "<ul>\n<li>* *</li>\n</ul>",
		"":                              "",
		"\n \n":                         "",
	} {
		if got := strings.TrimSuffix(string(Markdown("here.example", text)), "\n"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// What an agent writes leads to no port of this machine, where its own command might wait
// for the cookie of who comes.
func TestMarkdownLinksToNoNeighbour(t *testing.T) {
	for _, host := range []string{
		"here.example", "HERE.example.", "localhost", "localhost.", "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.0.0.1.", "[::1]", "[::ffff:127.0.0.1]",
		"intranet", "１２７.0.0.1", "127。0。0。1", "%31%32%37.0.0.1", "a.0x7f", "a.1", "you@here.example", "good.example@evil.example", "", ".",
	} {
		text := "[a](http://" + host + ":9999/)"
		if got := string(Markdown("here.example", text)); strings.Contains(got, "<a") {
			t.Errorf("%s", got)
		}
	}
}

// A record may be as large as it may be, and be made to take long.
func TestMarkdownIsSoonDone(t *testing.T) {
	begun := time.Now()
	for _, piece := range []string{"[", "[a](", "[a](http://", "*a", "**a", "`", "- ", "> ", "*a* ", "#", "1. "} {
		Markdown("here.example", strings.Repeat(piece, (64<<10)/len(piece)))
	}
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

// harmless is all that may come out of markdown.
var harmless = regexp.MustCompile(`^(?:[^<>"]|&#34;|</?(?:p|em|strong|code|ul|ol|li|blockquote|h[2-6]|pre|a)>|<pre tabindex="0">|<a rel="noreferrer nofollow" href="https?://[^"<>]*">)*$`)

func FuzzMarkdown(f *testing.F) {
	for _, text := range []string{"[a](http://b\"c)", "[<b>](http://x)", "`[a](http://x)`", "**[a](http://x)**", "```\n~~~\n```", "- > # a", "[a](http://x\u202e)", "\x00\xff", "[](http://x)", "*\n*"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got := string(Markdown("here.example", text)); !harmless.MatchString(got) {
			t.Errorf("%q becomes %q", text, got)
		}
	})
}

func TestLay(t *testing.T) {
	now := time.Unix(1000, 0)
	steps := Lay([]Step{{From: now.Add(-10 * time.Second), To: now.Add(-5 * time.Second)}, {From: now.Add(-5 * time.Second)}, {From: now}}, now)
	for i, want := range [][2]int{{0, 500}, {500, 500}, {1000 - least, least}} {
		if s := steps[i]; s.X != want[0] || s.Width != want[1] {
			t.Errorf("%d: %+v", i, s)
		}
	}
	for _, s := range Lay([]Step{{From: now}}, now) {
		if s.X != 0 || s.Width != 1000-0 && s.Width != least {
			t.Errorf("%+v", s)
		}
	}
}

func TestTexts(t *testing.T) {
	by := "coder"
	for got, want := range map[string]string{
		Text(&by): "coder", Text("a\nb\u202e"): `a\nb\u202e`, Block("a\tb\r\nc\u200b"): "a    b\nc\\u200b", JSON(jsontext.Value(`"a\nb"`)): "a\nb", JSON(jsontext.Value(`{"a":"\u202e"}`)): "{\n  \"a\": \"\\u202e\"\n}",
		Duration(90 * time.Second): "1 min", Duration(-3 * time.Second): "in 3 s", Duration(50 * time.Hour): "2 days", short("sha256:0123456789abcdef"): "0123456789ab",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
