package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/verify"
)

// pickup is the time from a Submit that was acknowledged to the claim that is
// held, by an idle worker with a mailbox of its own that waits.
func pickup(root string) error {
	b, err := newHome(root, "pickup", durable.Standard)
	if err != nil {
		return err
	}
	defer b.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	held := make(chan time.Time)
	go idler(ctx, b.Home(), held)
	<-held // it is ready
	var all []time.Duration
	for i := range 300 {
		time.Sleep(10 * time.Millisecond) // the worker is idle again
		if _, err := b.Submit(ctx, request(i)); err != nil {
			return err
		}
		acknowledged := time.Now()
		at, ok := <-held
		if !ok {
			return fmt.Errorf("the worker has failed")
		}
		// The line is flushed before Submit has returned, so a claim may be first.
		all = append(all, max(0, at.Sub(acknowledged)))
		<-held
	}
	fmt.Printf("%-58s %s\n\n", "from submit acknowledged to the claim held:", spread(all))
	return nil
}

// idler waits, claims and completes; it tells when it is ready, when it holds a
// claim, and when it has completed it.
func idler(ctx context.Context, home string, held chan<- time.Time) {
	defer close(held)
	b, err := mailbox.Open(ctx, home, mailbox.Options{})
	if err != nil {
		return
	}
	defer b.Close()
	held <- time.Now()
	for {
		c, err := b.Wait(ctx, mailbox.ClaimRequest{Agent: "coder", Process: true})
		if err != nil {
			return
		}
		held <- time.Now()
		err = c.Complete(ctx, mailbox.Result{Output: jsontext.Value(`"done"`)})
		c.Close()
		if err != nil {
			return
		}
		held <- time.Now()
	}
}

// large recovers and verifies a home with many tasks, whose files are in the page
// cache.
func large(home string) error {
	ctx := context.Background()
	// Another boot id is what Open sees after a restart.
	if err := durable.Replace(filepath.Join(home, ".mbox", "boot"), []byte("another boot\n"), durable.None); err != nil {
		return err
	}
	begun := time.Now()
	b, err := mailbox.Open(ctx, home, mailbox.Options{})
	if err != nil {
		return err
	}
	b.Close()
	fmt.Printf("  %-56s %7.2f s\n", "opened after a restart, everything recovered:", time.Since(begun).Seconds())
	for _, o := range []struct {
		what       string
		ledgerOnly bool
	}{{"verify --ledger-only", true}, {"verify", false}} {
		if err := verified(home, "mbox "+o.what+" on one core:", verify.Options{LedgerOnly: o.ledgerOnly}); err != nil {
			return err
		}
	}
	return nil
}

func verified(home, what string, o verify.Options) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	begun, used := time.Now(), cpuTime(os.Getpid())
	r, err := verify.Home(context.Background(), home, o)
	if err == nil && len(r.Findings) > 0 {
		err = fmt.Errorf("verify: %v", r.Findings[0])
	}
	if err != nil {
		return err
	}
	took, worked := time.Since(begun).Seconds(), (cpuTime(os.Getpid()) - used).Seconds()
	fmt.Printf("  %-56s %7.2f s, %.0f lines a second (%.0f a second of CPU time)\n", what, took, float64(r.Lines)/took, float64(r.Lines)/worked)
	return nil
}
