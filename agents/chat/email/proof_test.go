package email

import "testing"

// Only what our server says about exactly the sender's domain is a proof.
func TestProofs(t *testing.T) {
	const ours = "Authentication-Results: mx.example.org; "
	for _, c := range []struct{ name, header, want string }{
		{"nothing", "X: y", ""},
		{"dkim", ours + "dkim=pass header.d=example.com", "dkim=example.com"},
		{"gmail", ours + "dkim=pass header.i=@example.com header.s=s header.b=a4B=;\n spf=pass (google.com: domain of a@example.com designates 1.2.3.4 as permitted sender) smtp.mailfrom=a@example.com;\n dmarc=pass (p=NONE sp=NONE dis=NONE) header.from=Example.com", "dkim=example.com dmarc=pass spf=example.com"},
		{"spaces", ours + "DKIM = PASS (good; really \\) \"yes) header.d = EXAMPLE.com", "dkim=example.com"},
		{"version", "Authentication-Results: MX.Example.ORG 1; dkim/1=pass header.d=example.com", "dkim=example.com"},
		{"fail", ours + "dkim=fail header.d=example.com", ""},
		{"none", ours + "none", ""},
		{"another domain", ours + "dkim=pass header.d=evil.com; spf=pass smtp.mailfrom=a@evil.com; dmarc=pass header.from=evil.com", ""},
		{"a domain below", ours + "dkim=pass header.d=mail.example.com", ""},
		{"a longer name", ours + "dkim=pass header.d=example.com.evil.com", ""},
		{"d before i", ours + "dkim=pass header.d=evil.com header.i=@example.com", ""},
		{"second of two", ours + "dkim=pass header.d=evil.com; dkim=pass header.d=example.com", "dkim=example.com"},
		{"no property", ours + "dmarc=pass", ""},
		{"another server", "Authentication-Results: mx.evil.com; dkim=pass header.d=example.com", ""},
		{"no server", "Authentication-Results: dkim=pass header.d=example.com", ""},
		{"a longer server", "Authentication-Results: mx.example.org.evil.com; dkim=pass header.d=example.com", ""},
		{"forged below", ours + "dkim=fail header.d=example.com\n" + ours + "dkim=pass header.d=example.com", ""},
		{"forged below a broken one", ours + "dkim\n" + ours + "dkim=pass header.d=example.com", ""},
		{"another above", "Authentication-Results: inner.example.org; none\n" + ours + "dkim=pass header.d=example.com", "dkim=example.com"},
		{"in the local part", ours + `spf=pass smtp.mailfrom="x; dkim=pass header.d=example.com"@evil.com`, ""},
		{"in quotes", ours + `spf=fail reason="; dkim=pass header.d=example.com; "`, ""},
		{"in a comment", ours + "spf=fail (was; dkim=pass header.d=example.com; ) smtp.mailfrom=evil.com", ""},
		{"in a comment in a comment", ours + "spf=fail ((a) ; dkim=pass header.d=example.com ;) smtp.mailfrom=evil.com", ""},
		{"an open comment", ours + "dkim=pass header.d=example.com; spf=fail (x", ""},
		{"open quotes", ours + `dkim=pass header.d=example.com; spf=fail reason="x`, ""},
		{"said twice", ours + "dkim=pass header.d=evil.com header.d=example.com", ""},
		{"in the reason", ours + "dkim=pass reason=header.d=example.com header.d=evil.com", ""},
	} {
		if m := taken(t, c.header+"\nFrom: anna@example.com\n\nx\n"); m.Proof != c.want {
			t.Errorf("%s: %q, want %q", c.name, m.Proof, c.want)
		}
	}
	r := reader{own: agent}
	raw := []byte(ours + "dkim=pass header.d=example.com\nFrom: anna@example.com\n\nx\n")
	if m, _ := r.message(&letter{size: int64(len(raw)), bytes: raw}); m.Proof != "" {
		t.Errorf("a server that the settings do not name proves %q", m.Proof)
	}
}

func FuzzAuthenticationResults(f *testing.F) {
	f.Add("mx.example.org 1; dkim=pass (a (b) \\)) header.d=example.com; spf=fail reason=\"a;b\"")
	f.Fuzz(func(t *testing.T, field string) {
		name, results, ok := parseResults(field)
		if name2, results2, ok2 := parseResults(field); name != name2 || ok != ok2 || len(results) != len(results2) {
			t.Error("read twice, it is not the same")
		}
		for _, r := range results {
			if ok && r.method == "" {
				t.Errorf("%+v", r)
			}
		}
	})
}
