package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/benchmark"
	"quotad/quota/clientlimit"
	"quotad/quota/middleware"
	"quotad/quota/redisledger"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
)

// Redis is frozen and goes on. What is open lets requests through meanwhile, what is
// closed refuses them with 503, and both enforce the limit before and afterwards.
func TestRedisFreezes(t *testing.T) {
	for _, row := range []struct {
		name   string
		closed bool
		status int // while Redis is frozen
	}{{"open", false, http.StatusOK}, {"closed", true, http.StatusServiceUnavailable}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t)
			ledger, err := redisledger.OpenStore(redisledger.Config{Addrs: []string{redis.Addr}, Deadline: 100 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { ledger.Close() })
			clients := clientlimit.NewService(nil)
			if err := clients.SetClients(ledger, "", []*clientlimit.Clients{{
				Name: "public", Algorithm: clientlimit.Counter, OpenOnOutage: !row.closed,
				Limits: []quota.Limit{{Name: "day", Units: 2, Window: quota.Sliding(24 * time.Hour)}},
			}}); err != nil {
				t.Fatal(err)
			}
			socket, stop, err := serveClients(clients)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
			h := middleware.Handler(&api.Client{Socket: socket}, hello, middleware.Options{Clients: "public",
				FailClosed: row.closed, Timeout: hangTimeout, ErrorLog: log.New(t.Output(), "", 0)})
			awaitAnswer(t, h, http.StatusTooManyRequests, true)
			if err := redis.Freeze(); err != nil {
				t.Fatal(err)
			}
			awaitAnswer(t, h, row.status, false)
			if err := redis.Thaw(); err != nil {
				t.Fatal(err)
			}
			awaitAnswer(t, h, http.StatusTooManyRequests, true)
		})
	}
}

// hangTimeout ends a test that hangs.
const hangTimeout = 3 * time.Minute

// awaitAnswer asks until it is answered with a status, decided or not.
func awaitAnswer(t *testing.T, h http.Handler, status int, decided bool) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < hangTimeout; {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code == status && (w.Header().Get("RateLimit") != "") == decided {
			return
		}
		if !slices.Contains([]int{http.StatusOK, http.StatusTooManyRequests, http.StatusServiceUnavailable}, w.Code) {
			t.Fatalf("answered %d", w.Code)
		}
	}
	t.Fatalf("nothing is answered with %d", status)
}

// A real server, under load by clients of which each makes more calls than it may, asks a
// real daemon on a real Redis. One of these is frozen for a while. What the clients saw is
// logged: answers by their status, and how long they waited.
func TestLoadWhileFrozen(t *testing.T) {
	freeze := time.Duration(seedtest.OnlyLong(t, "seconds something is frozen")) * time.Second
	path := benchmark.BuildQuotad(t)
	for _, row := range []struct {
		frozen, onOutage string
		closed           bool
	}{{"redis", "open", false}, {"redis", "closed", true}, {"quotad", "open", false}, {"quotad", "closed", true}} {
		t.Run(row.frozen+", "+row.onOutage, func(t *testing.T) {
			redis := redistest.Start(t)
			daemon := benchmark.Quotad(t, path, fmt.Sprintf(`
[ledger]
backend = "redis"
redis.addrs = [%q]
[clients.public]
units = %d
window = "1s"
algorithm = "counter"
on_outage = %q
`, redis.Addr, unitsASecond, row.onOutage))
			web := httptest.NewServer(middleware.Handler(&api.Client{Socket: daemon.Socket}, hello, middleware.Options{
				Clients: "public", FailClosed: row.closed,
				Identify: []middleware.Identify{middleware.ByHeader("X-API-Key")}, ErrorLog: log.New(t.Output(), "", 0),
			}))
			defer web.Close()
			pid := daemon.PID
			if row.frozen == "redis" {
				pid = redis.Process.Pid
			}
			l := startLoad(web.URL)
			for _, phase := range []struct {
				name   string
				lasts  time.Duration
				signal syscall.Signal
			}{{"before", 3 * time.Second, syscall.SIGSTOP}, {"frozen", freeze, syscall.SIGCONT}, {"after", 5 * time.Second, 0}} {
				time.Sleep(phase.lasts)
				if err := syscall.Kill(pid, phase.signal); err != nil {
					t.Fatal(err)
				}
				l.phase.Add(1)
			}
			if err := l.end(); err != nil {
				t.Error(err)
			}
			for i, name := range []string{"before", "frozen", "after"} {
				t.Logf("%-7s %v", name, l.seen[i])
			}
			checkSeen(t, l, row.closed)
		})
	}
}

// checkSeen holds that limits were enforced before and after, and that between clients
// were let through, or refused with 503.
func checkSeen(t *testing.T, l *load, closed bool) {
	for _, i := range []int{0, 2} {
		if l.seen[i].status[http.StatusOK] == 0 || l.seen[i].status[http.StatusTooManyRequests] == 0 {
			t.Error("no limit was enforced before or after")
		}
	}
	if refused := l.seen[1].status[http.StatusServiceUnavailable]; closed != (refused > 0) {
		t.Errorf("%d requests were answered with 503", refused)
	}
}

// The load: each client makes a call every 10 ms, of which the limit lets every fourth through.
const (
	loadClients  = 16
	callEvery    = 10 * time.Millisecond
	unitsASecond = 25
)

// A load is what clients see of a server while its phases pass.
type load struct {
	phase   atomic.Int32
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex // guards what follows
	seen [4]seen    // by phase; the last is that of the end
	err  error
}

// Seen is what clients saw in one phase.
type seen struct {
	status map[int]int
	took   []time.Duration
}

func startLoad(url string) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{cancel: cancel}
	for i := range l.seen {
		l.seen[i].status = make(map[int]int)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: loadClients}}
	for i := range loadClients {
		l.running.Go(func() {
			tick := time.NewTicker(callEvery)
			defer tick.Stop()
			for ctx.Err() == nil {
				l.call(client, url, "key"+strconv.Itoa(i))
				<-tick.C
			}
		})
	}
	return l
}

// call makes one call, which counts in the phase in which it begins.
func (l *load) call(client *http.Client, url, key string) {
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		panic(err)
	}
	r.Header.Set("X-API-Key", key)
	phase, begun := l.phase.Load(), time.Now()
	answer, err := client.Do(r)
	if err == nil {
		_, err = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
	took := time.Since(begun)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.err = errors.Join(l.err, err)
		return
	}
	if refused := answer.StatusCode != http.StatusOK; refused != (answer.Header.Get("Retry-After") != "") {
		l.err = fmt.Errorf("answered %s with Retry-After %q", answer.Status, answer.Header.Get("Retry-After"))
	}
	l.seen[phase].status[answer.StatusCode]++
	l.seen[phase].took = append(l.seen[phase].took, took)
}

// end ends the load and returns what was no answer.
func (l *load) end() error {
	l.cancel()
	l.running.Wait()
	return l.err
}

func (s seen) String() string {
	slices.Sort(s.took)
	var parts []string
	for _, status := range []int{http.StatusOK, http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		parts = append(parts, fmt.Sprintf("%d: %5d", status, s.status[status]))
	}
	for _, percent := range []int{50, 99, 100} {
		at := max(0, min(len(s.took)*percent/100, len(s.took)-1))
		parts = append(parts, fmt.Sprintf("p%d %6.1f ms", percent, float64(s.took[at].Microseconds())/1000))
	}
	return strings.Join(parts, "  ")
}
