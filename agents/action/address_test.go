package action

import (
	"bufio"
	"net/netip"
	"os"
	"strings"
	"testing"

	"code.dny.dev/ssrf"
)

// cases reads a table of testdata: two columns a line.
func cases(t *testing.T, file string, do func(rule, text string)) (n int) {
	t.Helper()
	f, err := os.Open("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		rule, text, ok := strings.Cut(lines.Text(), "\t")
		if ok && !strings.HasPrefix(rule, "#") {
			do(rule, text)
			n++
		}
	}
	return n
}

func TestAddresses(t *testing.T) {
	g := guard{own: noAddresses}
	n := cases(t, "addresses.txt", func(rule, text string) {
		at, err := netip.ParseAddrPort(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			return
		}
		got, want := "ok", "address_"+rule
		if d := refusal(g.check("tcp6", "example.com", text)); d != nil {
			got = d.Rule
		}
		if rule == "ok" {
			want = rule
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
		if rule == "ok" && forbidden(at.Addr()) != nil {
			t.Errorf("%s: forbidden", text)
		}
	})
	if n < 230 {
		t.Errorf("only %d addresses", n)
	}
}

// Every range has its two ends in the table of tests, or a narrower range there.
func TestRangesAreTested(t *testing.T) {
	tested := map[netip.Addr]bool{}
	cases(t, "addresses.txt", func(rule, text string) {
		if at, err := netip.ParseAddrPort(text); err == nil && rule != "ok" {
			tested[at.Addr()] = true
		}
	})
	for _, r := range ranges {
		any := false
		for ip := range tested {
			any = any || r.prefix.Contains(ip)
		}
		if !any {
			t.Errorf("no address of %s (%s) is tested", r.prefix, r.rule)
		}
	}
}

// What the library refuses is refused by our own table too: neither stands alone.
func TestRangesCoverLibrary(t *testing.T) {
	for _, prefix := range append(ssrf.IPv4DeniedPrefixes, ssrf.IPv6DeniedPrefixes...) {
		if forbidden(prefix.Addr()) == nil {
			t.Errorf("%s is not forbidden", prefix)
		}
	}
}

func TestURLs(t *testing.T) {
	n := cases(t, "urls.txt", func(rule, text string) {
		_, err := parseURL(text)
		got := "ok"
		if d := refusal(err); d != nil {
			got = d.Rule
		}
		if got != rule {
			t.Errorf("%s: %s, want %s", text, got, rule)
		}
		if invalid := (&HTTPCheck{URL: text}).Validate(Limits{}); (invalid == nil) != (rule == "ok") {
			t.Errorf("%s: Validate says %v", text, invalid)
		}
	})
	if n < 150 {
		t.Errorf("only %d URLs", n)
	}
	long := "http://example.com/" + strings.Repeat("a", maxURL-19)
	if _, err := parseURL(long); err != nil {
		t.Errorf("%d characters: %v", maxURL, err)
	}
	if d := refusal(second(parseURL(long + "a"))); d == nil || d.Rule != "url_length" {
		t.Errorf("%d characters: %v", maxURL+1, d)
	}
}

func second[T any](_ T, err error) error { return err }
