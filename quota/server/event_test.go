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
		event server.Decided
		want  string
	}{
		{"granted", server.Decided{}, "granted"},
		{"replayed", server.Decided{Decision: quota.Decision{Replayed: true}}, "replayed"},
		{"denied", server.Decided{Decision: quota.Decision{Reason: quota.LimitExceeded}}, "limit_exceeded"},
		{"unreachable", server.Decided{Err: fmt.Errorf("redis: %w", quota.ErrUnavailable)}, "ledger_unavailable"},
		{"unknown outcome", server.Decided{Err: quota.ErrOutcomeUnknown}, "ledger_unavailable"},
		{"lost", server.Decided{Err: quota.ErrLost}, "recovering"},
		{"quiet after a loss", server.Decided{Err: quota.ErrRecovering}, "recovering"},
		{"given up", server.Decided{Err: context.Canceled}, "cancelled"},
		{"given up on a call of a shared ledger", server.Decided{Err: fmt.Errorf("redis: %w: %w", quota.ErrUnavailable, context.Canceled)}, "cancelled"},
		{"given up, and perhaps done", server.Decided{Err: fmt.Errorf("redis: %w: %w", quota.ErrOutcomeUnknown, context.Canceled)}, "cancelled"},
		{"too slow", server.Decided{Err: fmt.Errorf("redis: %w: %w", quota.ErrUnavailable, context.DeadlineExceeded)}, "ledger_unavailable"},
		{"a problem", server.Decided{Err: api.NewProblem(quota.Forbidden, "no")}, "forbidden"},
		{"a fault", server.Decided{Err: errors.New("a fault")}, "internal_error"},
	} {
		if got := row.event.Result(); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}
