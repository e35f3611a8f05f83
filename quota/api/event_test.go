package api_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"quotad/quota"
	"quotad/quota/api"
)

// What is counted and logged of a request is what its caller was answered.
func TestResultOfAnEvent(t *testing.T) {
	for _, row := range []struct {
		name  string
		event api.Event
		want  string
	}{
		{"granted", api.Event{}, "granted"},
		{"replayed", api.Event{Decision: quota.Decision{Replayed: true}}, "replayed"},
		{"denied", api.Event{Decision: quota.Decision{Reason: quota.LimitExceeded}}, "limit_exceeded"},
		{"unreachable", api.Event{Err: fmt.Errorf("redis: %w", quota.ErrUnavailable)}, "ledger_unavailable"},
		{"unknown outcome", api.Event{Err: quota.ErrOutcomeUnknown}, "ledger_unavailable"},
		{"lost", api.Event{Err: quota.ErrLost}, "ledger_unavailable"},
		{"quiet after a loss", api.Event{Err: quota.ErrRecovering}, "ledger_unavailable"},
		{"given up", api.Event{Err: context.Canceled}, "ledger_unavailable"},
		{"a problem", api.Event{Err: api.NewProblem(quota.Forbidden, "no")}, "forbidden"},
		{"a fault", api.Event{Err: errors.New("a fault")}, "internal_error"},
	} {
		if got := row.event.Result(); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}
