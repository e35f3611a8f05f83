package redisledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
)

// repeat repeats a call, which may be carried out twice, until it is answered, refused or out of time.
func repeat(ctx context.Context, call func() error) error {
	sent := false
	for pause := time.Millisecond; ; pause *= 2 {
		err := call()
		if err == nil {
			return nil
		}
		sent = sent || mayHaveRun(err)
		if !repeatable(err) || !wait(ctx, pause) {
			return failure(sent, err)
		}
	}
}

// wait waits, and reports whether there is time left.
func wait(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// mayHaveRun reports whether a script may have been carried out although its call
// failed: not when no connection was made, nor when Redis answered with an error.
func mayHaveRun(err error) bool {
	var answered redis.Error
	var dial dialError
	return !errors.As(err, &answered) && !errors.As(err, &dial) && !errors.Is(err, redis.ErrPoolTimeout)
}

// repeatable reports whether the same call may succeed a moment later: when the
// connection broke, and when a Redis is taking over or not up yet.
func repeatable(err error) bool {
	var answered redis.Error
	if errors.As(err, &answered) {
		kind, _, _ := strings.Cut(answered.Error(), " ")
		return slices.Contains([]string{"LOADING", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN", "READONLY"}, kind)
	}
	return mayHaveRun(err)
}

func failure(sent bool, err error) error {
	if sent {
		return fmt.Errorf("cannot reach redis: %w: %w", quota.ErrOutcomeUnknown, err)
	}
	return unreachable{err}
}

// unreachable is a quota.ErrUnavailable. Its text does not repeat that: the cause says so.
type unreachable struct{ cause error }

func (e unreachable) Error() string   { return "cannot reach redis: " + e.cause.Error() }
func (e unreachable) Unwrap() []error { return []error{quota.ErrUnavailable, e.cause} }

var errReply = errors.New("cannot understand redis: a script answered in an unknown form")

// unavailable returns the error of a failed call that debits nothing.
func unavailable(err error) error {
	if errors.Is(err, quota.ErrUnavailable) && !errors.Is(err, quota.ErrOutcomeUnknown) {
		return err
	}
	return fmt.Errorf("%w: %v", quota.ErrUnavailable, err)
}
