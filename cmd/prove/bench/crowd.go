package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox"
	"mbox/mailbox/durable"
)

// crowdDays is over how many days the tasks of a crowded mailbox were sent.
const crowdDays = 8

// crowded times each verb of daily use, as a command of its own, on a mailbox that
// has been at work for days and keeps -pending tasks.
func crowded(root string) error {
	if _, err := os.Stat(*binary); err != nil {
		return nil
	}
	home := filepath.Join(root, "crowded")
	if out, err := exec.Command(*binary, "--home", home, "init").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	begun := time.Now()
	first, err := live(home)
	if err != nil {
		return err
	}
	count, err := lying(home)
	if err != nil {
		return err
	}
	fmt.Printf("%d tasks of %d days: %s (put there in %.0f s without flushes)\n", *pending, crowdDays, count, time.Since(begun).Seconds())
	return daily(home, first)
}

// live lets a mailbox live through some days: of 100 tasks 65 are completed, 5 fail and
// 30 wait; those of the first day that have ended lie in the archive. It returns the id
// of one of these.
func live(home string) (first mailbox.ID, err error) {
	ctx := context.Background()
	var day atomic.Int64
	clock := func() time.Time {
		return time.Now().Add(-time.Duration(crowdDays-day.Load()) * 24 * time.Hour)
	}
	b, err := mailbox.Open(ctx, home, mailbox.Options{Sync: durable.None, Now: clock})
	if err != nil {
		return "", err
	}
	defer b.Close()
	for ; day.Load() < crowdDays; day.Add(1) {
		if first, err = liveADay(ctx, b, int(day.Load()), first); err != nil {
			return "", err
		}
		if day.Load() == 0 {
			if _, err := b.Archive(ctx, 0, "human"); err != nil {
				return "", err
			}
		}
	}
	return first, nil
}

func liveADay(ctx context.Context, b *mailbox.Box, day int, first mailbox.ID) (mailbox.ID, error) {
	n := *pending / crowdDays
	var wg sync.WaitGroup
	var next atomic.Int64
	var mu sync.Mutex
	var bad error
	for range 8 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				id, err := liveATask(ctx, b, int(i)+day*n)
				mu.Lock()
				bad = errors.Join(bad, err)
				if first == "" {
					first = id
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return first, bad
}

// liveATask sends a task and lets it become what falls to its number. It returns the id
// of one that has ended.
func liveATask(ctx context.Context, b *mailbox.Box, i int) (mailbox.ID, error) {
	t := request(i)
	t.Mbox.Labels = jsontext.Value(fmt.Sprintf(`{"team":"t%d","sprint":%d}`, i%7, i/1000))
	if i%100 < 30 {
		t.Assignment.TargetAgent = "tester"
	}
	_, err := b.Submit(ctx, t)
	if err != nil || i%100 < 30 {
		return "", err
	}
	c, err := b.Claim(ctx, mailbox.ClaimRequest{Agent: "coder", Process: true})
	for errors.Is(err, mailbox.ErrEmpty) { // another has it at hand, and puts its own in
		time.Sleep(200 * time.Microsecond)
		c, err = b.Claim(ctx, mailbox.ClaimRequest{Agent: "coder", Process: true})
	}
	if err != nil {
		return "", err
	}
	defer c.Close()
	if i%100 >= 95 {
		return c.ID(), c.Fail(ctx, mailbox.Failure{TaskError: mailbox.TaskError{Code: "failed", Message: "exit status 1"}, Final: true})
	}
	return c.ID(), c.Complete(ctx, mailbox.Result{Output: jsontext.Value(strconv.Quote("done: " + strings.Repeat("y", 300)))})
}

// lying counts the tasks of each folder.
func lying(home string) (string, error) {
	var counts []string
	for _, folder := range []string{"pending", "in-progress", "completed", "failed", "archive/*"} {
		files, err := filepath.Glob(filepath.Join(home, "tasks", folder, "*.json"))
		if err != nil {
			return "", err
		}
		counts = append(counts, fmt.Sprintf("%d %s", len(files), strings.TrimSuffix(folder, "/*")))
	}
	return strings.Join(counts, ", "), nil
}

// daily times the verbs, and says how many milliseconds are wanted.
func daily(home string, first mailbox.ID) error {
	var id, token string
	command := func(args ...string) (string, error) {
		c := exec.Command(*binary, append([]string{"--home", home}, args...)...)
		c.Env = append(os.Environ(), "MBOX_TOKEN="+token)
		out, err := c.Output()
		var exit *exec.ExitError
		if errors.As(err, &exit) && args[0] == "status" && exit.ExitCode() == 1 {
			err = nil // something needs a person
		}
		if err != nil {
			if exit != nil {
				out = exit.Stderr
			}
			return "", fmt.Errorf("mbox %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return string(out), nil
	}
	out, err := command("claim", "--agent", "tester")
	var held mailbox.Task
	if err := errors.Join(err, json.Unmarshal([]byte(out), &held)); err != nil {
		return err
	}
	id, token = string(held.ID), held.Mbox.Lease.Token
	waits, err := command("send", "--to", "tester", "hello")
	if err != nil {
		return err
	}
	waits = strings.TrimSpace(waits)
	for _, v := range []struct {
		wanted int
		args   []string
		rounds int
	}{
		{50, []string{"send", "--to", "tester", "hello"}, 20},
		{50, []string{"claim", "--agent", "tester"}, 20},
		{50, []string{"progress", id, "--message", "half way"}, 20},
		{50, []string{"show", string(first)}, 20},
		{50, []string{"why", string(first)}, 20},
		{50, []string{"show", waits}, 20},
		{50, []string{"why", waits}, 20},
		{50, []string{"edit", waits, "--title", "hello again"}, 1},
		{50, []string{"status"}, 20},
		{50, []string{"ls", "--limit", "100"}, 20},
		{50, []string{"ls", "--state", "completed", "--limit", "100"}, 20},
		{50, []string{"complete", id, "--output", "done"}, 1},
		{1000, []string{"search", "task 4711"}, 3},
	} {
		err := times(fmt.Sprintf("  mbox %s (p50 wanted: %d)", strings.Join(v.args, " "), v.wanted), v.rounds, func(int) error {
			_, err := command(v.args...)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
