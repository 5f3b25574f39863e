package email

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"

	"mbox/agents/chat"
	"mbox/agents/chat/chattest"
)

// TestDovecot is the long suite's: a server of other people, which says things in
// another order and at other times.
func TestDovecot(t *testing.T) {
	if os.Getenv("MBOX_TORTURE") == "" {
		return
	}
	program, err := exec.LookPath("dovecot")
	if err != nil {
		program = "/usr/sbin/dovecot"
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("Dovecot is missing, so the e-mail bridge is not tried with it: apt-get install dovecot-imapd")
	}
	d := startDovecot(t, program)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()

	in := chattest.NewInbox()
	d.deliver(ctx, t, letterOf("old@x", "was there before"))
	end := receiving(ctx, t, d.channel(t, secret), "", in)
	chattest.Next(ctx, t, in.Kept)
	kept, first := "", chat.Message{}
	for i := range 20 {
		d.deliver(ctx, t, letterOf(fmt.Sprintf("%d@x", i), fmt.Sprintf("text %d", i)))
		m := chattest.Next(ctx, t, in.Took)
		if m.Text != fmt.Sprintf("text %d", i) {
			t.Errorf("%+v", m)
		}
		if i == 0 {
			first = m
		}
		kept = chattest.Next(ctx, t, in.Kept)
	}
	end()
	if line, err := d.channel(t, secret).Check(ctx); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1:") {
		t.Errorf("%q %v", line, err) // INBOX is there, and nobody sends
	}
	if err := d.channel(t, "another word").Receive(ctx, kept, in); !errors.Is(err, chat.ErrSetup) {
		t.Errorf("with another password: %v", err)
	}

	d.deliver(ctx, t, letterOf("while@x", "while it was off"))
	end = receiving(ctx, t, d.channel(t, secret), kept, in)
	if m := chattest.Next(ctx, t, in.Took); m.Text != "while it was off" {
		t.Errorf("%+v", m)
	}
	kept = chattest.Next(ctx, t, in.Kept)
	end()

	d.renumber(t)
	end = receiving(ctx, t, d.channel(t, secret), kept, in)
	defer end()
	chattest.Next(ctx, t, in.Took) // the one that was there an hour before, at most
	if m := chattest.Next(ctx, t, in.Took); m.ID != first.ID {
		t.Errorf("read again, the first mail is %q, and was %q", m.ID, first.ID)
	}
}

// dovecot is a server of this test alone.
type dovecot struct{ folder, address string }

func startDovecot(t *testing.T, program string) dovecot {
	folder, err := os.MkdirTemp("", "mbox-dovecot") // its sockets have short names
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	l := listen(t)
	d := dovecot{folder, l.Addr().String()}
	_, port, _ := net.SplitHostPort(d.address)
	l.Close()
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = 65534, 65534 // Dovecot hands no mail to root
	}
	who, err := user.LookupId(fmt.Sprint(uid))
	if err != nil {
		t.Fatal(err)
	}
	group, err := user.LookupGroupId(fmt.Sprint(gid))
	if err != nil {
		t.Fatal(err)
	}
	mails := filepath.Join(folder, "mails")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(folder, 0o755), os.Mkdir(mails, 0o700), os.Chown(mails, uid, gid)); err != nil {
		t.Fatal(err)
	}
	write("users", agent+":{PLAIN}"+secret+"::::::\n")
	write("dovecot.conf", fmt.Sprintf(`
protocols = imap
listen = 127.0.0.1
base_dir = %[1]s/run
state_dir = %[1]s/state
log_path = %[1]s/log
ssl = no
disable_plaintext_auth = no
default_internal_user = %[2]s
default_login_user = %[2]s
default_internal_group = %[6]s
first_valid_uid = 1
mail_location = maildir:%[1]s/mails
passdb {
  driver = passwd-file
  args = %[1]s/users
}
userdb {
  driver = static
  args = uid=%[3]d gid=%[4]d home=%[1]s/mails
}
service imap-login {
  chroot =
  inet_listener imap {
    port = %[5]s
  }
  inet_listener imaps {
    port = 0
  }
}
service anvil {
  chroot =
}
`, folder, who.Username, uid, gid, port, group.Name))
	run := exec.Command(program, "-F", "-c", filepath.Join(folder, "dovecot.conf"))
	var said strings.Builder
	run.Stdout, run.Stderr = &said, &said
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = run.Process.Signal(os.Interrupt)
		_ = run.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(folder, "log"))
			t.Logf("%s%s", &said, text)
		}
	})
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.Dial("tcp", d.address)
		if err == nil {
			conn.Close()
			return d
		}
		if time.Now().After(end) {
			t.Fatalf("Dovecot does not start: %v", err)
		}
	}
}

func (d dovecot) channel(t *testing.T, password string) *channel {
	c := opened(t, chat.Settings{Server: "imap://" + d.address, Outgoing: "smtp://127.0.0.1:1", User: agent, Password: password})
	c.patience, c.idle = time.Minute, time.Hour
	return c
}

func (d dovecot) deliver(ctx context.Context, t *testing.T, text string) {
	t.Helper()
	s, err := d.channel(t, secret).inbox(ctx, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	text = strings.ReplaceAll(text, "\n", "\r\n")
	err = s.do(ctx, maxReply, func() error {
		command := s.client.Append("INBOX", int64(len(text)), &imap.AppendOptions{})
		_, err := command.Write([]byte(text))
		err = errors.Join(err, command.Close())
		_, waited := command.Wait()
		return errors.Join(err, waited)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// renumber makes Dovecot forget the numbers of the mails.
func (d dovecot) renumber(t *testing.T) {
	t.Helper()
	forgotten, err := filepath.Glob(filepath.Join(d.folder, "mails", "dovecot*"))
	if err != nil || len(forgotten) == 0 {
		t.Fatalf("%v: %d files", err, len(forgotten))
	}
	for _, file := range forgotten {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}
