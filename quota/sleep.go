package quota

import (
	"context"
	"time"
)

// Sleep waits for a time, or until ctx ends. It reports whether ctx has not.
func Sleep(ctx context.Context, d time.Duration) bool { return Await(ctx, d, nil) }

// Await waits for a signal, for most at the longest, or until ctx ends. It reports whether ctx has not.
func Await(ctx context.Context, most time.Duration, signal <-chan struct{}) bool {
	if most > 0 {
		select {
		case <-time.After(most):
		case <-signal:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}
