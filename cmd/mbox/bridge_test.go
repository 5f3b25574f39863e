package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mbox/agents/chat"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
)

// spool is a chat system in a folder: what lines are appended to the file in has been
// said, and answers are appended to out. Its place is a number of bytes, so lines
// behind the place that was kept last are handed over again, as any server does.
type spool struct{ dir, token string }

func init() {
	testKinds = []chat.Kind{{
		Name: "spool", Needs: []string{"server"}, Takes: []string{"token", "rooms"}, Limits: chat.Limits{Text: 1000, Parts: 3},
		Open: func(s chat.Settings) (chat.Channel, error) { return &spool{s.Server, s.Token}, nil },
	}}
}

func (s *spool) Receive(ctx context.Context, kept string, in chat.Inbox) error {
	if strings.HasSuffix(s.token, "wrong") {
		return fmt.Errorf("%w: the password is %s", chat.ErrSetup, s.token)
	}
	at, _ := strconv.ParseInt(kept, 10, 64)
	for n := 0; ; {
		f, err := os.Open(filepath.Join(s.dir, "in"))
		if err != nil {
			return err
		}
		_, err = f.Seek(at, io.SeekStart)
		lines := bufio.NewReader(f)
		for err == nil {
			var line string
			if line, err = lines.ReadString('\n'); err != nil {
				break
			}
			id, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			err = in.Take(ctx, chat.Message{ID: id, From: "anna", In: chat.Conversation{Peer: "anna"}, Text: text})
			at += int64(len(line))
			if n++; err == nil && n%3 == 0 {
				err = in.Keep(ctx, fmt.Sprint(at))
			}
		}
		f.Close()
		if !errors.Is(err, io.EOF) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *spool) Send(_ context.Context, n chat.Notice) (string, error) {
	f, err := os.OpenFile(filepath.Join(s.dir, "out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, err = fmt.Fprintf(f, "%s %s\n", n.Reply, strings.ReplaceAll(n.Text, "\n", " "))
	return n.Key, err
}

func (s *spool) Check(context.Context) (string, error) { return "a folder", nil }

// What would hear nobody, have nothing to say, or take an operator's name for him is
// refused, with the kinds as they are.
func TestTablesOfNoUseAreRefused(t *testing.T) {
	const start = "[agents.pi]\n[bridges.b]\nto = 'pi'\nallow = ['anna']\ntoken_env = 'T'\n"
	for _, c := range []struct{ text, want string }{
		{"kind = 'webhook'\nserver = 'https://x'", `of kind "webhook" needs listen`},
		{"kind = 'irc'\nserver = 'ircs://x'\nuser = 'u'\noperators = ['anna!a@b']", "anybody can take anybody's name"},
		{"kind = 'telegram'\nrequire_proof = true", "nobody would be heard"},
		{"kind = 'webhook'\nlisten = '127.0.0.1:0'", ""},
		{"kind = 'irc'\nserver = 'ircs://x'\nuser = 'u'\nrequire_proof = true\noperators = ['account:anna']", ""},
	} {
		f, err := config.Parse(config.Name, []byte(start+c.text))
		if err == nil {
			err = config.CheckBridges(f, chatKinds())
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
}

// What may pass does not end a bridge of mbox up for good; what a person has to mend does.
func TestABridgeBeginsAgain(t *testing.T) {
	var told bytes.Buffer
	v := &service{session: &session{err: &told, meter: &meter{}, level: choice{value: "info"}}}
	mend := fmt.Errorf("%w: the password", chat.ErrSetup)
	ends := []error{syscall.ENOSPC, mailbox.ErrReadOnly, mailbox.ErrBusy, mailbox.ErrBusy, mend, nil}
	runs := 0
	err := v.keepOn(t.Context(), "bridge b", time.Millisecond, func() error { runs++; return ends[runs-1] })
	if !errors.Is(err, chat.ErrSetup) || runs != 5 || strings.Count(told.String(), "another process") != 1 || strings.Count(told.String(), "begins again") != 2 {
		t.Errorf("%d runs, %v: %s", runs, err, told.String())
	}
	ctx, stop := context.WithCancel(t.Context())
	if err := v.keepOn(ctx, "bridge b", time.Hour, func() error { stop(); return syscall.ENOSPC }); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
}

// asMbox is this program under the name of mbox: it knows the kind spool.
func asMbox(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "mbox")
	if err := os.Symlink(self, name); err != nil {
		t.Fatal(err)
	}
	return name
}

// Whatever a bridge is killed at, each message is one task: none is lost, and none is
// taken twice.
func TestKilledBridgeLosesNoMessage(t *testing.T) {
	dir := diskDir(t)
	s := &storm{T: t, bin: asMbox(t, dir), dir: dir, home: filepath.Join(dir, "agents"), random: rand.New(rand.NewPCG(7, 11))}
	s.must("init")
	table := fmt.Sprintf("[agents.pi]\n[bridges.b]\nkind = 'spool'\nto = 'pi'\nserver = '%s'\nallow = ['anna']\nper_hour = 100000\nburst = 10000\ntotal_per_hour = 1000000\n", dir)
	if err := os.WriteFile(filepath.Join(s.home, "mbox.toml"), []byte(table), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.OpenFile(filepath.Join(dir, "in"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	said, kills := 0, sized(6, 15, 500)
	for range kills {
		bridge := s.command("bridge", "b")
		var stderr bytes.Buffer
		bridge.Stderr = &stderr
		if err := bridge.Start(); err != nil {
			t.Fatal(err)
		}
		killer := time.AfterFunc(time.Duration(s.random.Int64N(int64(250*time.Millisecond))), func() { _ = bridge.Process.Kill() })
		for range 10 {
			said++
			fmt.Fprintf(in, "m%d hello %d\n", said, said)
			time.Sleep(time.Duration(s.random.Int64N(int64(10 * time.Millisecond))))
		}
		err := bridge.Wait()
		killer.Stop()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != -1 {
			t.Fatalf("the bridge ended by itself: %v\n%s", err, stderr.Bytes())
		}
	}
	last := s.command("bridge", "b")
	if err := last.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); len(s.messages()) < said; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			break
		}
	}
	_ = last.Process.Kill()
	_ = last.Wait()
	s.must("recover")
	got := s.messages()
	for i := 1; i <= said; i++ {
		if n := got[fmt.Sprint("m", i)]; n != 1 {
			t.Errorf("m%d is %d tasks", i, n)
		}
	}
	t.Logf("%d messages, %d kills", said, kills)
	s.calm()
}

// messages counts the tasks of each message.
func (s *storm) messages() map[string]int {
	s.Helper()
	got := map[string]int{}
	names, err := filepath.Glob(filepath.Join(s.home, "tasks", "*", "*.json"))
	if err != nil {
		s.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // it moved
		}
		var task struct {
			Mbox struct{ Labels struct{ Message string } }
		}
		if err := errors.Join(err, json.Unmarshal(data, &task)); err != nil {
			s.Fatal(err)
		}
		got[task.Mbox.Labels.Message]++
	}
	return got
}
