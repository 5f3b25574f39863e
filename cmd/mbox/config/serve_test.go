package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mbox/mailbox/durable"
)

// The table alone opens the doors as the defaults say. Without it mbox up does not,
// mbox serve does.
func TestServeTable(t *testing.T) {
	want := Listener{Address: "127.0.0.1:42617", MaxBody: 65536}
	equal(t, "no table", read(t, "").Listener(), want)
	want.Up = true
	for _, text := range []string{"[serve]", "serve = {}", "[serve]\ninsecure = false", "[serve]\naddress = 'localhost:42617'"} {
		equal(t, text, read(t, text).Listener(), want)
	}
	want.Address = "127.0.0.1:8080"
	equal(t, "the variable", read(t, "[serve]", "ZEROCLAW_GATEWAY_PORT=8080").Listener(), want)
	want.Up = false
	equal(t, "the variable alone", read(t, "", "ZEROCLAW_GATEWAY_PORT=8080").Listener(), want)

	home := read(t, "").Home()
	equal(t, "all of it", read(t, "[serve]\naddress = 'BOX.lan:080'\ncert = 'tls/cert.pem'\nkey = '/k.pem'\nmax_body = 1048576").Listener(),
		Listener{Address: "box.lan:80", Cert: filepath.Join(home, "tls/cert.pem"), Key: "/k.pem", MaxBody: 1 << 20, Up: true})
	equal(t, "in the clear", read(t, "[serve]\naddress = ':80'\ninsecure = true").Listener(), Listener{Address: ":80", Insecure: true, MaxBody: 65536, Up: true})
	if l := read(t, "[serve]\naddress = '127.9.9.9:80'\ninsecure = true").Listener(); l.Insecure {
		t.Errorf("loopback is no danger: %+v", l)
	}
}

// That mbox up listens from now on is told by the record of changed settings.
func TestServeIsAChange(t *testing.T) {
	if got := read(t, "").Changes(read(t, "[serve]")); !strings.Contains(got, "serve.address") {
		t.Errorf("%q", got)
	}
	if read(t, "").State() == read(t, "[serve]").State() {
		t.Error("the settings are the same")
	}
}

// http_check reaches none of the addresses on which mbox may listen.
func TestNeverWhereMboxListens(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                    {"127.0.0.1:42617"},
		"[serve]":                             {"127.0.0.1:42617"},
		"[serve]\naddress = 'localhost:8080'": {"127.0.0.1:42617", "127.0.0.1:8080"},
		"[serve]\naddress = '[::1]:08080'":    {"127.0.0.1:42617", "[::1]:8080"},
		"[serve]\naddress = '[::ffff:0.0.0.0]:8080'\ninsecure = true":     {"127.0.0.1:42617", "0.0.0.0:8080"},
		"[serve]\naddress = ':8080'\ninsecure = true":                     {"127.0.0.1:42617", ":8080"},
		"[serve]\naddress = '192.168.1.2:8080'\ninsecure = true":          {"127.0.0.1:42617", "192.168.1.2:8080"},
		"[serve]\naddress = 'Box.lan:8080'\ncert = 'c'\nkey = 'k'":        {"127.0.0.1:42617", "box.lan:8080", ":8080"},
		"[serve]\naddress = '127.1:8080'\ncert = 'c'\nkey = 'k'":          {"127.0.0.1:42617", "127.1:8080", ":8080"},
		"[actions.http_check]\nloopback = ['127.0.0.1:42617', '[::1]:1']": {"127.0.0.1:42617"},
	} {
		if got := read(t, text).HTTP().Never; !slices.Equal(got, append(want, "127.0.0.1:11434")) {
			t.Errorf("%s: %q", text, got)
		}
	}
	if got := read(t, "", "ZEROCLAW_GATEWAY_PORT=8080").HTTP().Never; !slices.Contains(got, "127.0.0.1:8080") || !slices.Contains(got, "127.0.0.1:42617") {
		t.Errorf("the variable: %q", got)
	}
}

// A certificate is used only with a key of its own that nobody else can read.
func TestServeTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := selfSigned(t, dir, "one")
	_, other := selfSigned(t, dir, "two")
	l := Listener{Cert: cert, Key: key}
	if got, err := l.TLS(); err != nil || len(got.Certificates) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := (Listener{}).TLS(); err != nil || got != nil {
		t.Errorf("without one: %+v, %v", got, err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(key, link); err != nil {
		t.Fatal(err)
	}
	if _, err := (Listener{Cert: cert, Key: link}).TLS(); err != nil {
		t.Errorf("a key that a link leads to: %v", err)
	}
	for name, l := range map[string]Listener{
		"another key": {Cert: cert, Key: other}, "no key": {Cert: cert, Key: dir + "/none"}, "no certificate": {Cert: dir + "/none", Key: key}, "the key for both": {Cert: key, Key: key},
	} {
		if got, err := l.TLS(); err == nil || got != nil || strings.Contains(err.Error(), "BEGIN") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620} {
		if err := os.Chmod(key, mode); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{key, link} {
			if _, err := (Listener{Cert: cert, Key: path}).TLS(); !errors.Is(err, durable.ErrNotPrivate) {
				t.Errorf("mode %o: %v", mode, err)
			}
		}
	}
}

func selfSigned(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	is := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	public, err := x509.CreateCertificate(rand.Reader, is, is, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, name+".cert"), filepath.Join(dir, name+".key")
	err = errors.Join(
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: public}), 0o644),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}
