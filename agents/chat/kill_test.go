package chat

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mbox/mailbox"
	"mbox/mailbox/durable"
)

// A process that dies before any of the steps by which a delivery changes the disk,
// or with the message just sent, is followed by another one: no result is lost, and
// none comes twice but where the channel's class says so, and then it says so.
func TestKilledAtEachStep(t *testing.T) {
	every := 9 // in the short form each run takes other steps
	if os.Getenv("MBOX_TORTURE") != "" {
		every = 1
	}
	for _, once := range []Once{AtLeastOnce, ByKey, BySearch} {
		for step, more := rand.N(every), true; more; step += every {
			if more = killedAt(t, once, step); t.Failed() {
				t.Fatalf("class %d, step %d", once, step)
			}
		}
	}
}

var errKilled = errors.New("the process is dead")

// killedAt tells whether there was such a step.
func killedAt(t *testing.T, once Once, step int) bool {
	p := newPost(t, once)
	long := strings.Repeat("word ", 60)
	id := p.done(long)
	steps, dead := 0, false
	die := func() error {
		if steps++; steps > step {
			dead = true
		}
		if dead {
			return errKilled
		}
		return nil
	}
	remove := durable.SetFault(func(durable.Op, string) (bool, error) {
		err := die()
		return err == nil, err
	})
	_, _ = NewDelivery(DeliveryOptions{
		Box: p.box, Name: "chat", Channel: dying{p.fake, die}, Kind: p.o.Kind, Allowed: p.o.Allowed, Pause: time.Millisecond,
	}).Once(t.Context())
	remove()
	p.box.Close()
	box, err := mailbox.Open(t.Context(), p.box.Home(), p.box.Options())
	p.must(err)
	p.box, p.o.Box = box, box
	t.Cleanup(func() { box.Close() })
	p.deliver(100)
	p.once(once, map[mailbox.ID]string{id: long}, p.fake.has)
	if left, err := Undelivered(box); err != nil || len(left) > 0 {
		t.Errorf("step %d: %+v is left, %v", step, left, err)
	}
	return dead
}

// dying is a channel of a process that may die before a message is sent, and behind.
type dying struct {
	*fake
	die func() error
}

func (d dying) Send(ctx context.Context, n Notice) (string, error) {
	if err := d.die(); err != nil {
		return "", err
	}
	id, err := d.fake.Send(ctx, n)
	if gone := d.die(); gone != nil {
		return "", gone
	}
	return id, err
}

// once holds what a server has got against what it should have.
func (p *post) once(once Once, want map[mailbox.ID]string, got []Notice) {
	p.Helper()
	seen, text := map[string]int{}, ""
	for _, n := range got {
		if seen[n.Key]++; seen[n.Key] > 1 && (once != AtLeastOnce || !n.Again || !strings.HasPrefix(n.Text, repetition)) {
			p.Errorf("it came %d times, %+v", seen[n.Key], n)
		}
		if seen[n.Key] == 1 {
			text += strings.TrimPrefix(n.Text, repetition) + "\n"
		}
	}
	for id, w := range want {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), strings.TrimSpace(w)) {
			p.Errorf("%s is lost: %q", id, text)
		}
	}
}

// TestMain is also the process that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("DELIVER_HOME"); dir != "" {
		if err := delivering(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// paper is a server that is a file: a line for each message that it has got.
type paper struct {
	fake
	path string
	log  *os.File
}

func openPaper(path string, once Once) (*paper, error) {
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	p := &paper{fake: fake{once: once}, path: path, log: log}
	for lines := bufio.NewScanner(log); lines.Scan(); {
		key, text, _ := strings.Cut(lines.Text(), " ")
		p.has = append(p.has, Notice{Key: key, Text: text, Again: strings.HasPrefix(text, repetition)})
	}
	return p, nil
}

// Send takes its time, before the message is there and behind.
func (p *paper) Send(ctx context.Context, n Notice) (string, error) {
	time.Sleep(rand.N(8 * time.Millisecond))
	before := len(p.has)
	id, err := p.fake.Send(ctx, n)
	if len(p.has) > before {
		if _, err := fmt.Fprintf(p.log, "%s %s\n", n.Key, strings.Join(strings.Fields(n.Text), " ")); err != nil {
			return "", err
		}
	}
	time.Sleep(rand.N(8 * time.Millisecond))
	return id, err
}

var classes = map[string]Once{"least": AtLeastOnce, "key": ByKey, "search": BySearch}

// delivering delivers until it is killed.
func delivering(dir string) error {
	box, err := mailbox.Open(context.Background(), dir, mailbox.Options{Sync: durable.None})
	if err != nil {
		return err
	}
	once := classes[os.Getenv("DELIVER_ONCE")]
	server, err := openPaper(filepath.Join(filepath.Dir(dir), "server"), once)
	if err != nil {
		return err
	}
	return NewDelivery(DeliveryOptions{
		Box: box, Name: "chat", Channel: server, Kind: Kind{Name: "fake", Once: once, Limits: Limits{Text: 200, Parts: 3}},
		Allowed: func(Conversation) bool { return true }, Pause: time.Millisecond,
	}).Run(context.Background())
}

// A process that is killed again and again, at any moment, loses nothing.
func TestKilledAgainAndAgain(t *testing.T) {
	tasks := 10
	if testing.Short() {
		tasks = 4
	}
	if os.Getenv("MBOX_TORTURE") != "" {
		tasks = 200
	}
	for name, once := range classes {
		p := newPost(t, once)
		want := map[mailbox.ID]string{}
		for i := range tasks {
			text := fmt.Sprintf("result %d. %s", i, strings.Repeat("word ", i%3*30))
			want[p.done(text)] = text
		}
		kills := 0
		for ; kills < 100*tasks; kills++ {
			if left, err := Undelivered(p.box); err != nil || len(left) == 0 {
				p.must(err)
				break
			}
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "DELIVER_HOME="+p.box.Home(), "DELIVER_ONCE="+name)
			var said strings.Builder
			cmd.Stderr = &said
			p.must(cmd.Start())
			// Where a process takes long to begin, each lives a little longer.
			time.Sleep(10*time.Millisecond + rand.N(40*time.Millisecond+time.Duration(kills)*time.Millisecond))
			p.must(cmd.Process.Kill())
			if err := cmd.Wait(); err == nil || said.Len() > 0 {
				t.Fatalf("it ended by itself: %v: %s", err, said.String())
			}
		}
		server, err := openPaper(filepath.Join(filepath.Dir(p.box.Home()), "server"), once)
		p.must(err)
		server.log.Close()
		p.once(once, want, server.has)
		if left, err := Undelivered(p.box); err != nil || len(left) > 0 {
			t.Errorf("%s: %d are left after %d kills, %v", name, len(left), kills, err)
		}
		t.Logf("%s: %d kills, %d messages", name, kills, len(server.has))
	}
}
