package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ircd starts an ngircd on loopback, and returns where it listens.
func ircd(t *testing.T, dir string) (address string) {
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
	for range 3 { // a port may be taken between finding it and using it
		if address = startIRCD(t, path, dir); address != "" {
			return address
		}
	}
	t.Fatal("ngircd does not listen")
	return ""
}

func startIRCD(t *testing.T, path, dir string) (address string) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = free.Addr().String()
	free.Close()
	config := filepath.Join(dir, "ngircd.conf")
	_, port, _ := net.SplitHostPort(address)
	text := fmt.Sprintf("[Global]\nName = irc.example.org\nInfo = test\nListen = 127.0.0.1\nPorts = %s\nMotdPhrase = hello\n"+
		"[Limits]\nMaxConnectionsIP = 0\nMaxNickLength = 20\nMaxPenaltyTime = 0\n[Options]\nDNS = no\nIdent = no\nPAM = no\n", port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	server := exec.Command(path, "-n", "-f", config)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	for range 500 {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			return address
		}
		time.Sleep(10 * time.Millisecond)
	}
	return ""
}

// chatter is somebody on IRC.
type chatter struct {
	*testing.T
	net.Conn
	lines *bufio.Reader
}

func newChatter(t *testing.T, address, nick string) *chatter {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := &chatter{t, conn, bufio.NewReader(conn)}
	c.say("NICK "+nick, "USER "+nick+" 0 * :"+nick)
	c.hears(" 376 ")
	return c
}

func (c *chatter) say(lines ...string) {
	c.Helper()
	if _, err := fmt.Fprintf(c, "%s\r\n", strings.Join(lines, "\r\n")); err != nil {
		c.Fatal(err)
	}
}

// hears reads up to a line that has words in it, and returns all up to there.
func (c *chatter) hears(words string) (heard string) {
	c.Helper()
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	for {
		line, err := c.lines.ReadString('\n')
		if err != nil {
			c.Fatalf("%q was not heard: %v", words, err)
		}
		if heard += line; strings.Contains(line, words) {
			return heard
		}
	}
}

// What somebody says on a real server becomes a task, and its result comes back to
// him: by mbox up, and by mbox deliver where nobody is at the bridge.
func TestIRCBringsATaskAndItsResult(t *testing.T) {
	dir := diskDir(t)
	address := ircd(t, dir)
	s := &storm{T: t, bin: asMbox(t, dir), dir: dir, home: filepath.Join(dir, "agents")}
	s.must("init")
	const anna = "anna!~anna@127.0.0.1"
	table := fmt.Sprintf("[agents.echo]\nexec = '''jq -r '\"You wrote: \" + .task.description' '''\n[agents.pi]\n"+
		"[bridges.chat]\nkind = 'irc'\nto = 'echo'\nserver = 'irc://%s'\nuser = 'mboxup'\nrooms = ['#ops']\nallow = ['%s']\n", address, anna)
	if err := os.WriteFile(filepath.Join(s.home, "mbox.toml"), []byte(table), 0o600); err != nil {
		t.Fatal(err)
	}
	asks, stranger := newChatter(t, address, "anna"), newChatter(t, address, "eve")
	asks.say("JOIN #ops")
	asks.hears(" 366 ")

	up := s.command("up")
	var stderr bytes.Buffer
	up.Stderr = &stderr
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end := func() {
		if !ended {
			ended = true
			_ = up.Process.Signal(os.Interrupt)
			_ = up.Wait()
		}
	}
	t.Cleanup(func() {
		if end(); t.Failed() {
			t.Logf("%s", stderr.Bytes())
		}
	})
	asks.hears("mboxup!~mbox@127.0.0.1 JOIN")
	stranger.say("PRIVMSG mboxup :for eve")
	asks.say("PRIVMSG mboxup :Will it rain?")
	asks.hears("PRIVMSG anna :You wrote: Will it rain?")
	stranger.say("PING :end")
	if heard := stranger.hears("end"); strings.Contains(heard, "PRIVMSG") {
		t.Errorf("a stranger got an answer: %s", heard)
	}
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(s.must("tail", "--no-follow", "--json"), `"leg":"notified"`) && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	end()
	if said := s.must("tail", "--no-follow", "--json"); strings.Count(said, `"task_created"`) != 1 || !strings.Contains(said, `"policy_denied"`) {
		t.Errorf("the ledger: %s", said)
	}

	s.must("send", "Later", "--id", "later", "--to", "pi", "--from", "bridge:chat", "--session", "agent:pi:chat:direct:"+anna)
	s.must("cancel", "later")
	if said := s.must("deliver"); !strings.Contains(said, "chat: 1 sent, 0 left, 0 given up") {
		t.Errorf("mbox deliver: %s", said)
	}
	asks.hears("PRIVMSG anna :later was cancelled")
}
