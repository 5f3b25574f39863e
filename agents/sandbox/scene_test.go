//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// scene is what an act is tried on: a mailbox, what lies outside of it, and a
// process that plays the router.
type scene struct {
	Home, Workspace       string
	Friend, Drop, Peer    string // workspaces: to be read, to be written, closed
	Outside               string
	Binary                string // this one
	Victim                int
	Inherited             int // a descriptor without close-on-exec
	TCP4, TCP6, MPTCP     int // ports that somebody listens on
	UDP4, UDP6            int
	Stream, Datagram      string // sockets with a path
	Abstract              string
	SharedMemory, MemSize int
}

func (s scene) rules() Rules {
	return Rules{
		Mailbox: s.Home, Workspace: s.Workspace, ReadOnly: []string{s.Friend, s.Binary}, WriteOnly: []string{s.Drop},
		Protected: []string{filepath.Join(s.Home, "tasks")},
	}
}

// newScene makes the files and the victim, for one act.
func newScene(t *testing.T) scene {
	t.Helper()
	dir := t.TempDir()
	binary, err := os.Readlink(itself)
	if err != nil {
		t.Fatal(err)
	}
	agents := filepath.Join(dir, "home", "agents")
	s := scene{
		Home: filepath.Join(dir, "home"), Outside: filepath.Join(dir, "outside"), Binary: binary,
		Workspace: filepath.Join(agents, "me"), Friend: filepath.Join(agents, "friend"),
		Drop: filepath.Join(agents, "drop"), Peer: filepath.Join(agents, "peer"),
	}
	for name, text := range map[string]string{
		"home/.mbox/keys/signing": "secret", "home/audit/shared/day.jsonl": "{}\n", "home/tasks/pending/a.json": "{}",
		"home/agents/me/own": "mine", "home/agents/me/sub/own": "mine", "home/agents/friend/note": "hello",
		"home/agents/drop/letter": "sealed", "home/agents/peer/diary": "private", "outside/.ssh/id_rsa": "key", "outside/file": "text",
		"outside/tool": "#!/bin/sh\necho ok\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// withVictim starts the process that plays the router.
func (s *scene) withVictim(t *testing.T) {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "600")
	cmd.Env = []string{"SECRET=token"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	s.Victim = cmd.Process.Pid
}

// world is what listens outside, shared by all acts.
func world(t *testing.T) (s scene) {
	t.Helper()
	dir := t.TempDir()
	var plain, many net.ListenConfig
	plain.SetMultipathTCP(false)
	many.SetMultipathTCP(true)
	s.TCP4 = listen(t, &plain, "tcp4", "127.0.0.1:0")
	s.TCP6 = listen(t, &plain, "tcp6", "[::1]:0")
	s.MPTCP = listen(t, &many, "tcp4", "127.0.0.1:0")
	s.UDP4 = listen(t, &plain, "udp4", "127.0.0.1:0")
	s.UDP6 = listen(t, &plain, "udp6", "[::1]:0")
	s.Stream, s.Datagram = filepath.Join(dir, "s"), filepath.Join(dir, "d")
	s.Abstract = "@mbox-sandbox-" + strconv.Itoa(os.Getpid())
	listen(t, &plain, "unix", s.Stream)
	listen(t, &plain, "unixgram", s.Datagram)
	listen(t, &plain, "unix", s.Abstract)
	s.shareMemory(t)
	s.leak(t, filepath.Join(dir, "leaked"))
	return s
}

func listen(t *testing.T, c *net.ListenConfig, network, address string) (port int) {
	t.Helper()
	var at net.Addr
	switch network {
	case "udp4", "udp6", "unixgram":
		l, err := c.ListenPacket(context.Background(), network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		at = l.LocalAddr()
	default:
		l, err := c.Listen(context.Background(), network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		at = l.Addr()
	}
	switch at := at.(type) {
	case *net.TCPAddr:
		return at.Port
	case *net.UDPAddr:
		return at.Port
	}
	return 0
}

// shareMemory makes a segment that any process of this user can attach.
func (s *scene) shareMemory(t *testing.T) {
	t.Helper()
	s.SharedMemory, s.MemSize = 0x6d620000+os.Getpid()&0xffff, os.Getpagesize()
	id, err := unix.SysvShmGet(s.SharedMemory, s.MemSize, unix.IPC_CREAT|0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
}

// leak opens a file as sloppy programs do: what they start inherits it.
func (s *scene) leak(t *testing.T, path string) {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CREAT, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	s.Inherited = fd
}
