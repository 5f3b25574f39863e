package irc

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mbox/agents/chat"
	"mbox/agents/chat/chattest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if daemon.stop != nil {
		daemon.stop()
	}
	os.Exit(code)
}

// daemon is the ngircd that all tests share.
var daemon struct {
	once        sync.Once
	err         error
	plain, tls  string // host:port
	certificate string
	stop        func()
}

const letIn = "let-me-in" // the server's own password

// ngircd starts the server on loopback, once, or skips where there is none.
func ngircd(t *testing.T) {
	t.Helper()
	path, err := exec.LookPath("ngircd")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/ngircd")
	}
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("ngircd is missing: make test installs it")
		}
		t.Skip("ngircd is missing: install the package ngircd")
	}
	daemon.once.Do(func() {
		for range 3 { // a port may be taken between finding it and using it
			if daemon.err = startDaemon(path); daemon.err == nil {
				return
			}
		}
	})
	if daemon.err != nil {
		t.Fatal(daemon.err)
	}
}

func startDaemon(path string) error {
	dir, err := os.MkdirTemp("", "ngircd")
	if err != nil {
		return err
	}
	daemon.certificate = filepath.Join(dir, "certificate.pem")
	key := filepath.Join(dir, "key.pem")
	if err := selfSigned(daemon.certificate, key); err != nil {
		return err
	}
	daemon.plain, daemon.tls = freePort(), freePort()
	_, port, _ := net.SplitHostPort(daemon.plain)
	_, tlsPort, _ := net.SplitHostPort(daemon.tls)
	config := filepath.Join(dir, "ngircd.conf")
	err = os.WriteFile(config, fmt.Appendf(nil, "[Global]\nName = irc.example.org\nInfo = test\nListen = 127.0.0.1\nPorts = %s\nPassword = %s\nMotdPhrase = hello\n"+
		"[Limits]\nMaxConnectionsIP = 0\nMaxNickLength = 20\nMaxPenaltyTime = 0\nIdleTimeout = 300\n[Options]\nDNS = no\nIdent = no\nPAM = no\n"+
		"[SSL]\nCertFile = %s\nKeyFile = %s\nPorts = %s\n", port, letIn, daemon.certificate, key, tlsPort), 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(path, "-n", "-f", config)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	daemon.stop = func() {
		_ = cmd.Process.Kill()
		<-ended
		os.RemoveAll(dir)
	}
	return reachable(daemon.tls, ended, &said)
}

func reachable(address string, ended chan error, said fmt.Stringer) error {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		select {
		case err := <-ended:
			ended <- err
			return fmt.Errorf("ngircd ended: %w: %s", err, said)
		case <-time.After(20 * time.Millisecond):
		}
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			return nil
		}
	}
	return fmt.Errorf("ngircd does not listen")
}

func freePort() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return ""
	}
	defer l.Close()
	return l.Addr().String()
}

// selfSigned makes a certificate for 127.0.0.1 and its key.
func selfSigned(certificate, key string) error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "irc.example.org"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, private.Public(), private)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	if err := os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		return err
	}
	return os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600)
}

// A person is a client of the plainest kind.
type person struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

func newPerson(t *testing.T, nick string) *person {
	t.Helper()
	conn, err := net.Dial("tcp", daemon.plain)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	p := &person{t, conn, bufio.NewReader(conn)}
	p.say("PASS "+letIn, "NICK "+nick, "USER "+nick+" 0 * :"+nick)
	p.hears(" 376 ")
	return p
}

func (p *person) say(lines ...string) {
	p.t.Helper()
	if _, err := p.conn.Write([]byte(strings.Join(lines, "\r\n") + "\r\n")); err != nil {
		p.t.Fatal(err)
	}
}

// hears reads up to a line that has words in it, and returns that line.
func (p *person) hears(words string) string {
	p.t.Helper()
	p.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	for {
		l, err := p.r.ReadString('\n')
		if err != nil {
			p.t.Fatalf("%q was not heard: %v", words, err)
		}
		if strings.HasPrefix(l, "PING ") {
			p.say("PONG" + l[4:])
		}
		if strings.Contains(l, words) {
			return strings.TrimRight(l, "\r\n")
		}
	}
}

// quick makes a channel whose pauses suit tests.
func quick(t *testing.T, s chat.Settings) *channel {
	t.Helper()
	s.Log = t.Logf
	opened, err := open(s)
	if err != nil {
		t.Fatal(err)
	}
	c := opened.(*channel)
	c.pace, c.tending, c.patience, c.grace = 0, 50*time.Millisecond, 10*time.Second, 10*time.Second
	return c
}

// onDaemon is a channel that is at work on the shared server.
func onDaemon(ctx context.Context, t *testing.T, nick string, rooms ...string) (*channel, *chattest.Inbox) {
	t.Helper()
	ngircd(t)
	c := quick(t, chat.Settings{Server: "irc://" + daemon.plain, User: nick, Token: letIn, Rooms: rooms})
	in := chattest.NewInbox()
	chattest.Receiving(ctx, t, c, "", in)
	if _, err := c.received(ctx); err != nil {
		t.Fatal(err)
	}
	return c, in
}

func timely(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
