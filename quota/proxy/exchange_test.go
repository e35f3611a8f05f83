package proxy

import (
	"context"
	"net/http"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/server/servertest"
	"quotad/quota/upstream"
)

// exchange returns a call that is not sent, and has its client leave.
func (s *scene) exchange() (x *exchange, leave context.CancelFunc) {
	bearer, _ := s.tokens.Bearer(runToken)
	c := &call{proxy: s.proxy, target: s.proxy.Target("youtube"), token: runToken, bearer: bearer, operation: "videos.list"}
	x = &exchange{call: c}
	x.ctx, leave = context.WithCancel(s.Context())
	return x, leave
}

// What is given back at the end, by how far the transport came: it may still write to a
// connection that it has got, and what it tries again after it wrote nothing costs nothing.
func TestFinish(t *testing.T) {
	got, free := (*exchange).gotConn, func(x *exchange) { x.free = true }
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
		{"written again, and free", []func(*exchange){got, (*exchange).wrote, got, (*exchange).wrote, free}, 1},
		{"perhaps written again", []func(*exchange){got, (*exchange).wrote, got}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, ok, nil)
			x, cancel := s.exchange()
			if refused := x.acquire(); refused != nil {
				t.Fatal(refused.problem)
			}
			for _, step := range c.steps {
				step(x)
			}
			cancel()
			x.finish(time.Now())
			if s.used() != c.want {
				t.Errorf("%d units are debited, want %d", s.used(), c.want)
			}
		})
	}
}

// What the upstream says of its quota counts, though the client has left before it said so.
func TestAWordOutlastsItsClient(t *testing.T) {
	s := newScene(t, ok, nil)
	x, cancel := s.exchange()
	cancel()
	x.observe(upstream.Answer{Status: http.StatusTooManyRequests})
	usage, err := s.service.Usage(t.Context(), "youtube")
	if err != nil || usage.Limits[0].Closed.By != "trending" || x.event.ObserveErr != nil {
		t.Errorf("got %+v, %v, told of %v, want that the limit is closed", usage, err, x.event.ObserveErr)
	}
}

// A call that costs nothing is sent while its limit is exhausted, and one of a job that may use the reserve from there.
func TestAFreeCall(t *testing.T) {
	s := newScene(t, ok, nil)
	c := servertest.YouTube()
	c.Operations["videos.list"] = quota.Cost{}
	servertest.Must(t, s.service.SetCredentials([]*quota.Credential{c}))
	if d, err := s.service.Book(t.Context(), "youtube", quota.Booking{Limit: "daily", Units: 9_500}); err != nil || !d.Granted() {
		t.Fatal(d, err)
	}
	if got := s.get("youtube/v3/search"); got.status != http.StatusForbidden {
		t.Errorf("a call that costs units: %+v, want it denied", got)
	}
	if got := s.get("youtube/v3/videos"); got.status != http.StatusOK {
		t.Errorf("a free call: %+v, want it sent", got)
	}
	s.tokens.May(runToken, true)
	if got := s.get("youtube/v3/search"); got.status != http.StatusOK {
		t.Errorf("a call from the reserve: %+v, want it sent", got)
	}
}
