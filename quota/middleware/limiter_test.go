package middleware

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"quotad/quota/api"
)

// Requests that come while the daemon is being asked share the next question, and each
// gets its own answer.
func TestRequestsShareQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Handler(hello, with(t, &scriptedDaemon{client: &api.Client{}})).(*handler)
		begun, hold := make(chan struct{}, 2), make(chan struct{})
		var sizes []int // of the questions
		h.limiter.batcher.Do = func(_ context.Context, batch []api.ClientRequest) ([]api.Decision, error) {
			sizes = append(sizes, len(batch))
			begun <- struct{}{}
			<-hold
			answers := make([]api.Decision, len(batch))
			for i, r := range batch {
				if answers[i] = grant(r); strings.HasSuffix(r.Subject, "7") {
					answers[i] = denial(r)
				}
			}
			return answers, nil
		}
		var serving sync.WaitGroup
		status := make([]int, 40)
		ask := func(i int) {
			serving.Go(func() { status[i] = serve(h, from(fmt.Sprintf("192.0.2.%d:1", i))).StatusCode })
		}
		ask(0)
		<-begun
		for i := 1; i < len(status); i++ {
			ask(i)
		}
		synctest.Wait()
		close(hold)
		serving.Wait()
		if !slices.Equal(sizes, []int{1, len(status) - 1}) {
			t.Errorf("the daemon was asked for %v at once", sizes)
		}
		for i, got := range status {
			want := http.StatusOK
			if i%10 == 7 {
				want = http.StatusTooManyRequests
			}
			if got != want {
				t.Errorf("client %d was answered %d, want %d", i, got, want)
			}
		}
	})
}

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
			o := with(t, d)
			o.FailClosed, o.Timeout, o.ErrorLog = row.closed, 20*time.Millisecond, log.New(&logged, "", 0)
			h := Handler(hello, o)
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
	o := Options{Clients: "public", Client: &api.Client{Socket: t.TempDir() + "/none"}, ErrorLog: log.New(t.Output(), "", 0)}
	if got := serve(Handler(hello, o)); got.StatusCode != http.StatusOK {
		t.Errorf("answered %s", got.Status)
	}
	o.FailClosed = true
	if got := serve(Handler(hello, o)); got.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("closed: answered %s", got.Status)
	}
}

// While the daemon is away, one request at a time asks it.
func TestOneAsksADaemonThatIsAway(t *testing.T) {
	a := newLimiter(Options{Clients: "public", Timeout: 100 * time.Millisecond}, log.New(t.Output(), "", 0))
	now := time.Now()
	may := func(want bool, why string) {
		t.Helper()
		if got := a.mayAsk(now); got != want {
			t.Errorf("%s: mayAsk is %v", why, got)
		}
	}
	may(true, "at first")
	may(true, "always")
	a.record(api.ErrUnreachable, now)
	may(false, "just after a failure")
	now = now.Add(retryAfter - 1)
	may(false, "a tick too early")
	now = now.Add(1)
	may(true, "in time")
	may(false, "while another asks")
	now = now.Add(a.wait)
	a.record(api.ErrUnreachable, now)
	may(false, "just after another failure")
	now = now.Add(retryAfter)
	may(true, "in time again")
	a.record(nil, now)
	may(true, "as it answers")
	may(true, "as it answers, for all")
}

// Until then the others are dealt with at once.
func TestNobodyAsksADaemonThatIsAway(t *testing.T) {
	d := startScripted(t, denial)
	h := Handler(hello, with(t, d)).(*handler)
	h.limiter.record(api.ErrUnreachable, time.Now().Add(time.Hour))
	if got := serve(h); got.StatusCode != http.StatusOK || len(d.asked()) != 0 {
		t.Errorf("answered %s, and the daemon was asked for %v", got.Status, d.asked())
	}
}

// A request whose client has gone is not handled, whatever is done without an answer.
func TestAClientThatHasGone(t *testing.T) {
	d := startScripted(t, grant)
	handled := false
	h := Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled = true }), with(t, d))
	if got := serve(h, gone); got.StatusCode != http.StatusServiceUnavailable || handled {
		t.Errorf("answered %s; handled: %v", got.Status, handled)
	}
}

func gone(r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	cancel()
	*r = *r.WithContext(ctx)
}
