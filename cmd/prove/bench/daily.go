package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox"
	"mbox/mailbox/durable"
)

// daily times what people and agents say every day, each as one command, on a mailbox
// with many tasks: of twenty six are pending, one has failed, and the others are completed.
func daily(root string) error {
	if _, err := os.Stat(*binary); err != nil {
		fmt.Printf("(no binary at %s: build it with make build for the figures of whole commands)\n\n", *binary)
		return nil
	}
	b, err := newHome(root, "daily", durable.None)
	if err != nil {
		return err
	}
	oldest, err := furnish(b, *pending)
	home := b.Home()
	if err = errors.Join(err, b.Close()); err != nil {
		return err
	}
	// One who works with them has sent a task of his own, and has another one in hand.
	took := map[string][]time.Duration{}
	for i := range 25 {
		if err := lapOf(home, oldest, i, took); err != nil {
			return err
		}
	}
	for _, what := range everyday {
		fmt.Printf("  %-56s %s\n", "mbox "+what+":", spread(took[what]))
	}
	err = times("  mbox search, one text of one task", 3, func(int) error {
		_, err := said(home, "", "search", "needle")
		return err
	})
	fmt.Println()
	return err
}

// everyday are the commands that daily times.
var everyday = []string{"send", "edit", "claim", "progress", "complete", "show", "why", "status", "ls --limit 100"}

// lapOf says each of them once.
func lapOf(home string, oldest mailbox.ID, i int, took map[string][]time.Duration) error {
	own := fmt.Sprintf("own-%d", i)
	token := ""
	for _, what := range everyday {
		args := map[string][]string{
			"send":     {"send", "One more", "--to", "ada", "--id", own},
			"edit":     {"edit", own, "--title", "Once more"},
			"claim":    {"claim", "--agent", "ada"},
			"progress": {"progress", own, "--percent", "50"},
			"complete": {"complete", own, "--output", "done"},
			"show":     {"show", string(oldest)},
			"why":      {"why", string(oldest)},
		}[what]
		if args == nil {
			args = strings.Fields(what)
		}
		begun := time.Now()
		out, err := said(home, token, args...)
		if what == "status" && len(out) > 0 {
			err = nil // which says by its exit code that tasks have failed
		}
		if err != nil {
			return err
		}
		took[what] = append(took[what], time.Since(begun))
		if what == "claim" {
			if token, err = tokenOf(out); err != nil {
				return err
			}
		}
	}
	return nil
}

func said(home, token string, args ...string) ([]byte, error) {
	c := exec.Command(*binary, append([]string{"--home", home}, args...)...)
	c.Env = append(os.Environ(), "MBOX_TOKEN="+token)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		err = fmt.Errorf("mbox %s: %w: %s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, err
}

func tokenOf(claimed []byte) (string, error) {
	var t struct {
		Mbox struct {
			Lease struct {
				Token string `json:"token"`
			} `json:"lease"`
		} `json:"mbox"`
	}
	err := json.Unmarshal(claimed, &t)
	return t.Mbox.Lease.Token, err
}

// furnish fills a mailbox with tasks in all states, and tells which one is the oldest that
// has ended.
func furnish(b *mailbox.Box, n int) (oldest mailbox.ID, err error) {
	var all sync.WaitGroup
	errs := make(chan error, 8)
	begun := time.Now()
	each := n / cap(errs)
	for worker := range cap(errs) {
		all.Go(func() {
			for i := range each {
				if err := settle(b, worker*each+i, fmt.Sprintf("worker-%d", worker)); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	fmt.Printf("%d tasks in all states (put there in %.1f s without flushes):\n", n, time.Since(begun).Seconds())
	select {
	case err := <-errs:
		return "", err
	default:
		return "old-6", nil // the first that did not stay pending
	}
}

// settle puts one task where it belongs.
func settle(b *mailbox.Box, i int, agent string) error {
	ctx := context.Background()
	t := request(i)
	t.ID, t.Assignment.TargetAgent = mailbox.ID(fmt.Sprintf("old-%d", i)), agent
	if i == 7 {
		t.Task.Description = "the needle"
	}
	pending := i%20 < 6
	if pending {
		t.Assignment.TargetAgent = "somebody"
	}
	if _, err := b.Submit(ctx, t); err != nil || pending {
		return err
	}
	c, err := b.Claim(ctx, mailbox.ClaimRequest{Agent: agent})
	for errors.Is(err, mailbox.ErrEmpty) {
		time.Sleep(200 * time.Microsecond) // another hand looks at it
		c, err = b.Claim(ctx, mailbox.ClaimRequest{Agent: agent})
	}
	if err != nil {
		return err
	}
	defer c.Close()
	if i%20 == 19 {
		return c.Fail(ctx, mailbox.Failure{TaskError: mailbox.TaskError{Code: "bench", Message: "it has to fail"}, Final: true})
	}
	return c.Complete(ctx, mailbox.Result{Output: jsontext.Value(`"done"`)})
}
