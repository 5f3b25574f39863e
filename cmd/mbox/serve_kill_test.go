package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// freeAddress is one on loopback that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// besieged is a mailbox whose door is killed, and what it said before.
type besieged struct {
	*storm
	url string

	mu    sync.Mutex
	acked map[string]string // idempotency key → the id that was answered
}

// serve starts the door and returns when it listens.
func (g *besieged) serve() *exec.Cmd {
	g.Helper()
	cmd := g.command("serve")
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		g.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		answer, err := http.Get(g.url + "/openapi.json")
		if err == nil {
			answer.Body.Close()
			return cmd
		}
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			g.Fatalf("mbox serve does not listen: %v\n%s", err, said.Bytes())
		}
	}
}

// post leaves a task as a careful client does: with a key, again and again until the
// door has answered. It returns the id.
func (g *besieged) post(client *http.Client, key string) (string, error) {
	body := fmt.Sprintf(`{"task":{"title":%q},"assignment":{"target_agent":"coder"}}`, key)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		r, err := http.NewRequest("POST", g.url+"/task", strings.NewReader(body))
		if err != nil {
			return "", err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", key)
		answer, err := client.Do(r)
		if err == nil {
			var data []byte
			data, err = io.ReadAll(answer.Body)
			answer.Body.Close()
			var sent struct{ ID string }
			switch {
			case err != nil:
			case answer.StatusCode == http.StatusAccepted:
				return sent.ID, json.Unmarshal(data, &sent)
			case answer.StatusCode != http.StatusServiceUnavailable:
				return "", fmt.Errorf("%s: %d %s", key, answer.StatusCode, data)
			default:
				err = fmt.Errorf("%s", data)
			}
		}
		if time.Now().After(deadline) {
			return "", fmt.Errorf("%s: no answer: %w", key, err)
		}
	}
}

// A door that is killed under load and started again loses no task that it has
// accepted, and clients that ask again with the same key make none twice.
func TestKilledDoorLosesNoTask(t *testing.T) {
	const clients = 8
	kills := sized(3, 6, 300)
	address := freeAddress(t)
	dir := diskDir(t)
	g := &besieged{storm: &storm{T: t, bin: program(t), dir: dir, home: filepath.Join(dir, "home")}, url: "http://" + address, acked: map[string]string{}}
	g.must("init")
	if err := os.WriteFile(filepath.Join(g.home, "mbox.toml"), fmt.Appendf(nil, "[serve]\naddress = %q\n", address), 0o600); err != nil {
		t.Fatal(err)
	}
	door := g.serve()
	var stop atomic.Bool
	var posting sync.WaitGroup
	for who := range clients {
		posting.Go(func() {
			client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for i := 0; !stop.Load(); i++ {
				key := fmt.Sprintf("client-%d-%d", who, i)
				id, err := g.post(client, key)
				if err != nil {
					t.Error(err)
					return
				}
				g.mu.Lock()
				g.acked[key] = id
				g.mu.Unlock()
			}
		})
	}
	random := rand.New(rand.NewPCG(42, 11))
	for range kills {
		time.Sleep(time.Duration(random.IntN(int(300 * time.Millisecond)))) // when the kill strikes
		_ = door.Process.Kill()
		_ = door.Wait()
		door = g.serve()
	}
	stop.Store(true)
	posting.Wait()
	_ = door.Process.Kill()
	_ = door.Wait()
	g.recount()
}

// recount compares the mailbox with what was acknowledged.
func (g *besieged) recount() {
	g.must("recover")
	g.must("verify")
	files, err := filepath.Glob(filepath.Join(g.home, "tasks", "pending", "*.json"))
	if err != nil {
		g.Fatal(err)
	}
	made := map[string]string{} // title, which is the key → id
	for _, file := range files {
		data, err := os.ReadFile(file)
		var task struct {
			ID   string
			Task struct{ Title string }
		}
		if err == nil {
			err = json.Unmarshal(data, &task)
		}
		if err != nil {
			g.Fatal(err)
		}
		if other := made[task.Task.Title]; other != "" {
			g.Errorf("%s is there twice: %s and %s", task.Task.Title, other, task.ID)
		}
		made[task.Task.Title] = task.ID
	}
	for key, id := range g.acked {
		if made[key] != id {
			g.Errorf("%s was accepted as %s, and the mailbox has %q", key, id, made[key])
		}
	}
	if len(made) != len(g.acked) || len(made) == 0 {
		g.Errorf("%d tasks, and %d were accepted", len(made), len(g.acked))
	}
	g.Logf("%d tasks", len(made))
}
