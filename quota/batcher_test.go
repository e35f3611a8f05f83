package quota_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"quotad/quota"
)

// However a batch ends, the batcher leads the next one.
func TestBatcherOutlivesItsAnswerer(t *testing.T) {
	b := &quota.Batcher[string, int]{Deadline: time.Minute, Do: func(_ context.Context, asks []string) ([]int, error) {
		switch asks[0] {
		case "none":
			return nil, nil
		case "error":
			return nil, quota.ErrUnavailable
		}
		return []int{len(asks[0])}, nil
	}}
	for _, row := range []struct {
		ask  string
		want error
	}{{"none", quota.ErrOutcomeUnknown}, {"error", quota.ErrUnavailable}} {
		if _, err := b.Ask(t.Context(), row.ask); !errors.Is(err, row.want) {
			t.Errorf("%s: got %v, want %v", row.ask, err, row.want)
		}
		if n, err := b.Ask(t.Context(), "four"); n != 4 || err != nil {
			t.Errorf("after %s: got %d, %v", row.ask, n, err)
		}
	}
}

// Asks that wait are answered in batches of at most Most, each by its own answer; the
// caller that leads a batch may give up without harm to the others.
func TestBatcherBoundsABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int // written by one call at a time
		entered, hold := make(chan struct{}), make(chan struct{})
		b := &quota.Batcher[int, int]{Deadline: time.Minute, Max: 8, Do: func(ctx context.Context, asks []int) ([]int, error) {
			sizes = append(sizes, len(asks))
			if len(sizes) == 1 {
				close(entered)
				<-hold
			}
			answers := make([]int, len(asks))
			for i, ask := range asks {
				answers[i] = -ask
			}
			return answers, ctx.Err()
		}}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		ask := func(ctx context.Context, n int) {
			wg.Go(func() {
				if got, err := b.Ask(ctx, n); got != -n || err != nil {
					t.Errorf("%d: got %d, %v", n, got, err)
				}
			})
		}
		ask(ctx, 1)
		<-entered
		cancel() // too late: the batch has begun
		for n := range 20 {
			ask(t.Context(), n+2)
		}
		synctest.Wait()
		close(hold)
		wg.Wait()
		if len(sizes) != 4 || sizes[1] != 8 || sizes[2] != 8 || sizes[3] != 4 {
			t.Errorf("batches of %v, want 1, 8, 8 and 4", sizes)
		}
	})
}

// However long an ask waits for the batch before its own, it is answered by its own deadline.
func TestBatcherBoundsAnAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const deadline = time.Second
		b := &quota.Batcher[int, int]{Deadline: deadline, Do: func(ctx context.Context, _ []int) ([]int, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		var asking sync.WaitGroup
		for n := range 5 {
			asking.Go(func() {
				begun := time.Now()
				if _, err := b.Ask(t.Context(), n); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%d: %v", n, err)
				}
				if took := time.Since(begun); took > deadline {
					t.Errorf("%d waited for %v", n, took)
				}
			})
			time.Sleep(deadline / 4)
		}
		asking.Wait()
	})
}

// A panic is that of the call that leads the batch. The others get an error: the outcome is unknown. The next batch
// is led.
func TestBatcherOutlivesAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		b := &quota.Batcher[string, int]{Deadline: time.Minute, Do: func(_ context.Context, asks []string) ([]int, error) {
			if asks[0] == "first" {
				<-hold
			}
			if asks[0] == "panic" {
				panic("no")
			}
			return make([]int, len(asks)), nil
		}}
		var asking sync.WaitGroup
		var answers [3]any
		for i, ask := range []string{"first", "panic", "beside"} {
			asking.Go(func() {
				defer func() {
					if what := recover(); what != nil {
						answers[i] = what
					}
				}()
				_, err := b.Ask(t.Context(), ask)
				answers[i] = err
			})
			synctest.Wait()
		}
		close(hold)
		asking.Wait()
		if want := [...]any{nil, "no", quota.ErrOutcomeUnknown}; answers != want {
			t.Errorf("answers %v, want %v", answers, want)
		}
		if _, err := b.Ask(t.Context(), "next"); err != nil {
			t.Error(err)
		}
	})
}
