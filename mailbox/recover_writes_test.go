package mailbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
)

// TestRecoverAtEveryWrite is the crash test with full recovery in place of the
// settling that opening does: a restart of the machine, or mbox recover.
func TestRecoverAtEveryWrite(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: takes some seconds")
	}
	ctx, long := context.Background(), amount(0, 0, 1) == 1
	for _, sc := range scenes {
		t.Run(sc.name, func(t *testing.T) {
			all := map[string]string{}
			for _, applied := range []bool{false, true} {
				for k := 1; !applied || long; k++ {
					o := Options{RetryBase: time.Nanosecond}
					dir := filepath.Join(t.TempDir(), "home")
					must(t, Create(dir, Options{Sync: durable.None}))
					b, err := Open(ctx, dir, o)
					must(t, err)
					prior := sc.before(t, b)
					n, hit := 0, ""
					remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
						switch n++; {
						case n < k:
							return true, nil
						case n > k:
							return false, errInjected
						}
						hit = fmt.Sprintf("death at write %d (%s %s), applied %v", k, op, filepath.Base(path), applied)
						return applied, errInjected
					})
					said := sc.verb(ctx, b, prior)
					remove()
					b.Close()
					if hit == "" {
						break
					}
					_, err = Recover(ctx, dir, o, RecoverOptions{AfterIOError: audit.CheckWritable(dir) != nil})
					if err != nil {
						t.Fatalf("%s: recover: %v", hit, err)
					}
					if b, err = Open(ctx, dir, o); err != nil {
						t.Fatalf("%s: opening: %v", hit, err)
					}
					if err := scanNow(b); err != nil {
						t.Errorf("%s: scan: %v", hit, err)
					}
					if (said == nil || errors.Is(said, ErrCommitted)) && !sc.holds(t, b, prior) {
						t.Errorf("%s: the verb said %v, and its effect is not there", hit, said)
					}
					b.Close()
					whole(t, dir)
					all[dir] = fmt.Sprintf("%s; verb said: %v", hit, said)
				}
			}
			lintAll(t, all)
		})
	}
}

// TestLeaseOfAFailedClaim: the lease file of a claim that came to nothing does
// not outlive the next claim.
func TestLeaseOfAFailedClaim(t *testing.T) {
	all := homes{}
	for k := 1; k < 12; k++ {
		b := all.open(t, Options{})
		all[b.Home()] = fmt.Sprint("write ", k)
		submitted(t, b)
		n := 0
		remove := durable.SetFault(func(durable.Op, string) (bool, error) {
			if n++; n == k {
				return false, errInjected
			}
			return true, nil
		})
		c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder", Process: true})
		remove()
		if err == nil {
			c.Close()
		}
		if _, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"}); err != nil && !errors.Is(err, ErrEmpty) {
			t.Errorf("after a fault at write %d: %v", k, err)
		}
		mustScan(t, b)
	}
	lintAll(t, all)
}
