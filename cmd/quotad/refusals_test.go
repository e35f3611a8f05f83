package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"quotad/quota/api"
)

func TestRefusalsAreSampled(t *testing.T) {
	start := time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)
	r := &refusals{}
	hammer, other := kind{"fetch", "limit_exceeded"}, kind{"@1000", "forbidden"}
	for i, step := range []struct {
		who      kind
		after    time.Duration
		times    int
		logged   int
		unlogged int // told with the first one that is logged
	}{
		{hammer, 0, 1000, maxAlike, 0},
		{other, 0, 1, 1, 0},
		{hammer, alikeTime - 1, 1000, 0, 0},
		{hammer, alikeTime, 2, 2, 2*1000 - maxAlike},
		{hammer, 3 * alikeTime, 7, maxAlike, 0},
		{hammer, 9 * alikeTime, 1, 1, 2},
		{other, 9 * alikeTime, 1, 1, 0},
	} {
		logged, first := 0, -1
		for range step.times {
			if ok, unlogged := r.admit(step.who, start.Add(step.after)); ok {
				logged++
				if first < 0 {
					first = unlogged
				} else if unlogged != 0 {
					t.Errorf("step %d: %d are told of twice", i, unlogged)
				}
			}
		}
		if logged != step.logged || step.logged > 0 && first != step.unlogged {
			t.Errorf("step %d: %d logged and %d told of, want %d and %d", i, logged, first, step.logged, step.unlogged)
		}
	}
}

func TestKindsOfRefusalsAreBounded(t *testing.T) {
	r := &refusals{}
	for i := range 5 * maxKinds {
		r.admit(kind{by: strconv.Itoa(i)}, time.Unix(0, 0))
		if len(r.kinds) > maxKinds {
			t.Fatalf("%d kinds are remembered", len(r.kinds))
		}
	}
}

// What one caller is refused a hundred times takes no more than some lines, and
// what is forbidden has one of its own.
func TestRefusalsInTheLog(t *testing.T) {
	daemon, client := startWith(t, strings.Replace(onSystemd, "run_at_start = true", "", 1))
	for range 100 {
		if d, err := client.Acquire(t.Context(), api.AcquireRequest{Credential: "api", Operation: "list", Count: 101}); err != nil || d.Granted {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	stranger := &api.Client{Socket: client.Socket, Token: "nonsense"}
	var problem *api.Problem
	if err := stranger.Get(t.Context(), "/v1/status", nil); !errors.As(err, &problem) || problem.Status != http.StatusForbidden {
		t.Errorf("with a token that nobody has: %v", err)
	}
	me := fmt.Sprintf("by=@%d", os.Getuid())
	for range maxAlike {
		daemon.logs(t, "^acquire refused$", me, "reason=cost_exceeds_limit", "operation=list", "credential=api")
	}
	daemon.logs(t, "^request forbidden$", "level=warn", me, "route=GET /v1/status", "detail=the run token is unknown.*")
	if n := strings.Count(daemon.whole(), `"acquire refused"`); n != maxAlike {
		t.Errorf("%d lines tell of refused acquires, want %d", n, maxAlike)
	}
}
