package upstream_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quotad/cmd/ytfetch/upstream"
)

// answer is what a client sees of a page or of an error.
type answer struct {
	Status        int `json:"-"`
	Kind          string
	NextPageToken string
	PageInfo      struct{ TotalResults, ResultsPerPage int }
	Items         []struct {
		ID         string
		Snippet    *struct{ Title, ChannelTitle, CategoryID string }
		Statistics *struct{ ViewCount string }
	}
	Error struct {
		Code    int
		Message string
		Errors  []struct{ Domain, Reason, Message string }
	}
}

func (a answer) reason() string {
	if len(a.Error.Errors) == 0 {
		return ""
	}
	return a.Error.Errors[0].Reason
}

// list asks for a chart; args are parameters to set, "" leaves one out.
func list(t *testing.T, u *upstream.Upstream, args ...string) (a answer) {
	t.Helper()
	a.Status = get(t, u, "/videos", url.Values{
		"part": {"snippet,statistics"}, "chart": {"mostPopular"}, "regionCode": {"DE"}, "maxResults": {"50"}, "key": {"k"},
	}, &a, args...)
	return a
}

// get asks an upstream of the same process, and returns the status of its answer.
func get(t *testing.T, u *upstream.Upstream, path string, query url.Values, into any, args ...string) int {
	t.Helper()
	for i := 0; i < len(args); i += 2 {
		query.Set(args[i], args[i+1])
		if args[i+1] == "" {
			query.Del(args[i])
		}
	}
	client := http.Client{Transport: u}
	resp, err := client.Get("http://sample" + upstream.Path + path + "?" + query.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

func TestKeyIsRequired(t *testing.T) {
	u := upstream.New(upstream.Config{Key: "right"})
	for _, key := range []string{"", "wrong"} {
		got := list(t, u, "key", key)
		if got.Status != 403 || got.reason() != "dailyLimitExceededUnreg" {
			t.Errorf("key %q: got %d %q, want 403 dailyLimitExceededUnreg", key, got.Status, got.reason())
		}
	}
	if got := list(t, u, "key", "right"); got.Status != 200 {
		t.Errorf("got %d with the right key, want 200", got.Status)
	}
	if got := u.Counts(); got.Units != 1 || got.Requests != 3 {
		t.Errorf("got %+v, want 3 requests of which 1 is charged", got)
	}
}

func TestQuotaIsTrueAndTurnsAtEight(t *testing.T) {
	now := time.Date(2026, 12, 1, 7, 59, 59, 0, time.UTC) // before midnight in California in winter
	u := upstream.New(upstream.Config{Quota: 3, Now: func() time.Time { return now }})
	for call := 1; call <= 5; call++ {
		got := list(t, u)
		if want := call <= 3; (got.Status == 200) != want {
			t.Fatalf("call %d: got %d %q, want served: %v", call, got.Status, got.reason(), want)
		}
	}
	got := list(t, u).Error
	if got.Code != 403 || got.Errors[0].Domain != "youtube.quota" || got.Errors[0].Reason != "quotaExceeded" || !strings.Contains(got.Message, `<a href=`) {
		t.Errorf("got %+v, want the documented quotaExceeded", got)
	}
	if got := u.Counts(); got != (upstream.Counts{Requests: 6, Units: 3, Refused: 3}) {
		t.Errorf("got %+v, want 6 requests, 3 units, 3 refused", got)
	}
	now = now.Add(time.Second)
	if got := list(t, u); got.Status != 200 || u.Counts().Units != 1 {
		t.Errorf("got %d and %d units in the new day, want 200 and 1", got.Status, u.Counts().Units)
	}
}

func TestQuotaHoldsAgainstManyClients(t *testing.T) {
	u := upstream.New(upstream.Config{Quota: 20})
	server := httptest.NewServer(u)
	defer server.Close()
	var clients sync.WaitGroup
	var served atomic.Int64
	for range 8 {
		clients.Go(func() {
			for range 4 {
				resp, err := server.Client().Get(server.URL + upstream.Path + "/videos?part=id&chart=mostPopular&key=k")
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					served.Add(1)
				}
			}
		})
	}
	clients.Wait()
	if got := u.Counts(); served.Load() != 20 || got.Units != 20 || got.Refused != 12 {
		t.Errorf("got %d served and %+v, want 20 served, 20 units, 12 refused", served.Load(), got)
	}
}

func TestInjectedFaultsComeInOrderAndAreCharged(t *testing.T) {
	u := upstream.New(upstream.Config{})
	fault := func(status int, reason string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"error":{"errors":[{"reason":%q}]}}`, reason)
		}
	}
	u.Inject(fault(429, "rateLimitExceeded"), nil, fault(500, "backendError"), fault(418, "teapot"))
	for call, want := range []struct {
		status int
		reason string
	}{{429, "rateLimitExceeded"}, {200, ""}, {500, "backendError"}, {418, "teapot"}, {200, ""}} {
		got := list(t, u)
		if got.Status != want.status || got.reason() != want.reason {
			t.Errorf("call %d: got %d %q, want %d %q", call+1, got.Status, got.reason(), want.status, want.reason)
		}
	}
	if got := u.Counts().Units; got != 5 {
		t.Errorf("got %d units, want 5", got)
	}
}
