package middleware_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/clientlimit"
	"quotad/quota/middleware"
	"quotad/quota/redisledger"
	"quotad/quota/redisledger/redistest"
)

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello\n") })

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
