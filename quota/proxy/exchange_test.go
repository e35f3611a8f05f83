package proxy

import (
	"context"
	"net/http/httptrace"
	"testing"
	"time"

	"quotad/quota"
)

// What is given back at the end, by how far the transport came: it may still write to a
// connection that it has got, and what it tries again after it wrote nothing costs nothing.
func TestFinish(t *testing.T) {
	got := func(x *exchange) { x.gotConn(httptrace.GotConnInfo{}) }
	for _, c := range []struct {
		name  string
		steps []func(*exchange)
		want  quota.Units
	}{
		{"no connection", nil, 0},
		{"a connection", []func(*exchange){got}, 1},
		{"tried again after nothing was written", []func(*exchange){got, got}, 1},
		{"written", []func(*exchange){got, (*exchange).wrote}, 1},
		{"written again", []func(*exchange){got, (*exchange).wrote, got, (*exchange).wrote}, 2},
		{"perhaps written again", []func(*exchange){got, (*exchange).wrote, got}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, ok, nil)
			bearer, _ := s.tokens.Bearer(runToken)
			x := &exchange{call: &call{proxy: s.proxy, target: s.proxy.Target("youtube"), token: runToken, bearer: bearer}, operation: "videos.list"}
			x.ctx, x.cancel = context.WithCancelCause(t.Context())
			if refused := x.acquire(x.ctx); refused != nil {
				t.Fatal(refused.problem)
			}
			for _, step := range c.steps {
				step(x)
			}
			x.cancel(context.Canceled)
			x.finish(time.Now())
			if s.used() != c.want {
				t.Errorf("%d units are debited, want %d", s.used(), c.want)
			}
		})
	}
}
