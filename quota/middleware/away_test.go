package middleware

import (
	"context"
	"log"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"quotad/quota/api"
)

// eventually waits until something is so.
func eventually(t *testing.T, so func() bool) {
	t.Helper()
	tick, deadline := time.NewTicker(time.Millisecond), time.After(patience)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it does not come to pass")
		}
	}
}

// A daemon that does not answer is one line in the log when it stops, and one when it goes on.
func TestADaemonThatDoesNotAnswer(t *testing.T) {
	for _, row := range []struct {
		closed bool
		status int
		logged string
	}{{false, http.StatusOK, "passed on"}, {true, http.StatusServiceUnavailable, "refused"}} {
		t.Run(row.logged, func(t *testing.T) {
			d := startScripted(t, denial)
			var logged lines
			o := options(t)
			o.FailClosed, o.Timeout, o.ErrorLog = row.closed, 20*time.Millisecond, log.New(&logged, "", 0)
			h := Handler(d.client, hello, o)
			thaw := d.freeze(t)
			var serving sync.WaitGroup
			for range 20 {
				serving.Go(func() {
					for range 5 {
						if got := serve(h); got.StatusCode != row.status || got.Header.Get("RateLimit") != "" {
							t.Errorf("without an answer of the daemon's: %s, %v", got.Status, got.Header)
						}
					}
				})
			}
			serving.Wait()
			if got := logged.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, row.logged) {
				t.Errorf("logged %q", got)
			}
			thaw()
			eventually(t, func() bool { return serve(h).StatusCode == http.StatusTooManyRequests })
			if got := logged.String(); strings.Count(got, "answers again") != 1 {
				t.Errorf("logged %q", got)
			}
		})
	}
}

// A daemon that is not there is as one that does not answer.
func TestNoDaemon(t *testing.T) {
	o, none := Options{Clients: "public", ErrorLog: log.New(t.Output(), "", 0)}, &api.Client{Socket: t.TempDir() + "/none"}
	if got := serve(Handler(none, hello, o)); got.StatusCode != http.StatusOK {
		t.Errorf("answered %s", got.Status)
	}
	o.FailClosed = true
	if got := serve(Handler(none, hello, o)); got.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("closed: answered %s", got.Status)
	}
}

// While the daemon is away, one request at a time asks it.
func TestOneAsksADaemonThatIsAway(t *testing.T) {
	h := Handler(nil, hello, options(t)).(*handler)
	now := time.Now()
	may := func(want bool, why string) {
		t.Helper()
		if got := h.mayAsk(now); got != want {
			t.Errorf("%s: mayAsk is %v", why, got)
		}
	}
	may(true, "at first")
	may(true, "always")
	h.record(api.Decision{Granted: true}, api.ErrUnreachable, now)
	may(false, "just after a failure")
	now = now.Add(retryAfter - 1)
	may(false, "a tick too early")
	now = now.Add(1)
	may(true, "in time")
	may(false, "while another asks")
	now = now.Add(h.Timeout)
	h.record(api.Decision{Granted: true}, api.ErrUnreachable, now)
	may(false, "just after another failure")
	now = now.Add(retryAfter)
	may(true, "in time again")
	h.record(api.Decision{Granted: true}, nil, now)
	may(true, "as it answers")
	may(true, "as it answers, for all")
}

// Until then the others are dealt with at once.
func TestNobodyAsksADaemonThatIsAway(t *testing.T) {
	d := startScripted(t, denial)
	h := Handler(d.client, hello, options(t)).(*handler)
	h.record(api.Decision{}, api.ErrUnreachable, time.Now().Add(time.Hour))
	if got := serve(h); got.StatusCode != http.StatusOK || len(d.asked()) != 0 {
		t.Errorf("answered %s, and the daemon was asked for %v", got.Status, d.asked())
	}
}

// A request whose client has gone is not handled, whatever is done without an answer.
func TestAClientThatHasGone(t *testing.T) {
	d := startScripted(t, grant)
	handled := false
	h := Handler(d.client, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled = true }), options(t))
	if got := serve(h, gone); got.StatusCode != http.StatusServiceUnavailable || handled {
		t.Errorf("answered %s; handled: %v", got.Status, handled)
	}
}

func gone(r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	cancel()
	*r = *r.WithContext(ctx)
}

// What was granted without the ledger says so, and not what is left; so does the log, once a minute.
func TestAGrantWithoutTheLedger(t *testing.T) {
	d := startScripted(t, func(api.ClientRequest) api.Decision {
		return api.Decision{Granted: true, Units: 1, Mode: "outage"}
	})
	var logged lines
	o := options(t)
	o.ErrorLog = log.New(&logged, "", 0)
	h := Handler(d.client, hello, o)
	for range 3 {
		got := serve(h)
		if got.StatusCode != http.StatusOK || got.Header.Get("RateLimit") != "" || got.Header.Get("Quotad-Mode") != "outage" {
			t.Errorf("answered %s, %v", got.Status, got.Header)
		}
	}
	if got := logged.String(); got != "clients public: calls are granted without the ledger\n" {
		t.Errorf("logged %q", got)
	}
}
