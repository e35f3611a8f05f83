package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/server"
)

// What is counted and logged of a request is what its caller was answered.
func TestResultOfAnEvent(t *testing.T) {
	for _, row := range []struct {
		name  string
		event server.Event
		want  string
	}{
		{"granted", server.Event{}, "granted"},
		{"replayed", server.Event{Decision: quota.Decision{Replayed: true}}, "replayed"},
		{"denied", server.Event{Decision: quota.Decision{Reason: quota.LimitExceeded}}, "limit_exceeded"},
		{"unreachable", server.Event{Err: fmt.Errorf("redis: %w", quota.ErrUnavailable)}, "ledger_unavailable"},
		{"unknown outcome", server.Event{Err: quota.ErrOutcomeUnknown}, "ledger_unavailable"},
		{"lost", server.Event{Err: quota.ErrLost}, "recovering"},
		{"quiet after a loss", server.Event{Err: quota.ErrRecovering}, "recovering"},
		{"every race lost", server.Event{Err: quota.ErrContended}, "contended"},
		{"given up", server.Event{Err: context.Canceled}, "cancelled"},
		{"given up on a call of a shared ledger", server.Event{Err: fmt.Errorf("redis: %w: %w", quota.ErrUnavailable, context.Canceled)}, "cancelled"},
		{"given up, and perhaps done", server.Event{Err: fmt.Errorf("redis: %w: %w", quota.ErrOutcomeUnknown, context.Canceled)}, "cancelled"},
		{"too slow", server.Event{Err: fmt.Errorf("redis: %w: %w", quota.ErrUnavailable, context.DeadlineExceeded)}, "ledger_unavailable"},
		{"a problem", server.Event{Err: api.NewProblem(quota.Forbidden, "no")}, "forbidden"},
		{"a fault", server.Event{Err: errors.New("a fault")}, "internal_error"},
	} {
		if got := row.event.Result(); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}
