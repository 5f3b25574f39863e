package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"mbox/mailbox/durable"
)

// door compares mbox serve with a bare handler: both answer when what was sent is on
// the disk. What serve has accepted must all be there.
func door(root string) error {
	if _, err := os.Stat(*binary); err != nil {
		return nil
	}
	const clients = 16
	bare, err := posts(bareDoor(root), clients)
	if err != nil {
		return err
	}
	home := filepath.Join(root, "door")
	url, stop, err := serve(home)
	if err != nil {
		return err
	}
	mbox, err := posts(url+"/task", clients)
	if err = firstOf(err, stop()); err != nil {
		return err
	}
	there, err := filepath.Glob(filepath.Join(home, "tasks", "pending", "*.json"))
	if err != nil || int64(len(there)) < mbox {
		return fmt.Errorf("%d tasks were accepted, %d are there: %w", mbox, len(there), err)
	}
	fmt.Printf("POST /task, %d clients: %.0f a second, a bare handler that writes and flushes a file %.0f: %.2f\n\n",
		clients, float64(mbox)/(*seconds), float64(bare)/(*seconds), float64(mbox)/float64(bare))
	return nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// bareDoor is the URL of the bare handler.
func bareDoor(root string) string {
	var n atomic.Int64
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Create(filepath.Join(root, fmt.Sprintf("bare-%d", n.Add(1))))
		if err == nil {
			_, err = io.Copy(f, r.Body)
			err = firstOf(err, durable.Flush(f), f.Close())
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})).URL
}

// serve runs mbox serve on a port that is free.
func serve(home string) (url string, stop func() error, err error) {
	if out, err := exec.Command(*binary, "--home", home, "init").CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("%w: %s", err, out)
	}
	free := httptest.NewUnstartedServer(nil).Listener
	address := free.Addr().String()
	free.Close()
	config := fmt.Sprintf("[serve]\naddress = %q\n", address)
	if err := os.WriteFile(filepath.Join(home, "mbox.toml"), []byte(config), 0o600); err != nil {
		return "", nil, err
	}
	cmd := exec.Command(*binary, "--home", home, "serve")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() error { return firstOf(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()) }
	line := make([]byte, 256)
	if n, err := stderr.Read(line); err != nil || !strings.Contains(string(line[:n]), "serving") {
		return "", nil, fmt.Errorf("mbox serve does not serve (%w): %s", firstOf(err, stop()), line[:n])
	}
	return "http://" + address, stop, nil
}

// posts counts what so many clients send that is accepted.
func posts(url string, clients int) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(*seconds*float64(time.Second)))
	defer cancel()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	body := fmt.Sprintf(`{"task":{"title":"x","description":%q}}`, strings.Repeat("x", 900))
	var done atomic.Int64
	var group sync.WaitGroup
	errs := make(chan error, clients)
	for range clients {
		group.Go(func() {
			for ctx.Err() == nil {
				answer, err := client.Post(url, "application/json", strings.NewReader(body))
				if err == nil {
					_, _ = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
				}
				if err != nil || answer.StatusCode != http.StatusAccepted {
					errs <- fmt.Errorf("%s: %v, %w", url, answer, err)
					return
				}
				done.Add(1)
			}
		})
	}
	group.Wait()
	close(errs)
	return done.Load(), <-errs
}
