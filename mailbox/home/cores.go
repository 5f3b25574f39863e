package home

import (
	"context"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// OnAllCores calls do with each number below n, on as many goroutines as there are
// cores: one for each call would spend more on its stack than on a small file. After an
// error, or when the context is over, nothing more is begun; it returns the first one.
func OnAllCores(ctx context.Context, n int, do func(i int) error) error {
	var taken atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range min(n, runtime.GOMAXPROCS(0)) {
		group.Go(func() error {
			for i := int(taken.Add(1)) - 1; i < n; i = int(taken.Add(1)) - 1 {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := do(i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
