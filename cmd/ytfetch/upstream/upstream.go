package upstream

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"time"
	_ "time/tzdata" // the quota's day is Pacific, also where no zone files are installed
)

// Path is the path below which the API lives: a base URL ends in it.
const Path = "/youtube/v3"

// A Config says what the upstream has and allows. The zero value is usable.
type Config struct {
	Quota          int              // units a day, at least 1; 0: 10,000
	PagesPerRegion int              // length of a region's chart in pages of 50, at least 1; 0: 4
	Key            string           // the one key it knows; empty: any key will do
	Now            func() time.Time // its clock; nil: time.Now
}

// An Upstream is an http.Handler, and an http.RoundTripper for clients in the
// same process. Any number of goroutines may use it at the same time.
type Upstream struct {
	config  Config
	pacific *time.Location
	mux     *http.ServeMux

	mu     sync.Mutex // guards what follows
	counts Counts
	day    string // the Pacific date that counts.Units belongs to
	faults []http.HandlerFunc
}

var (
	_ http.Handler      = (*Upstream)(nil)
	_ http.RoundTripper = (*Upstream)(nil)
)

// Counts are the upstream's own books.
type Counts struct {
	Requests int // that arrived, whatever became of them
	Units    int // charged since the last midnight Pacific, never more than the quota
	Refused  int // requests answered quotaExceeded
}

// New returns an upstream with its whole quota.
func New(config Config) *Upstream {
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		panic(err) // time/tzdata has it
	}
	config.Quota, config.PagesPerRegion = cmp.Or(config.Quota, 10_000), cmp.Or(config.PagesPerRegion, 4)
	if config.Now == nil {
		config.Now = time.Now
	}
	u := &Upstream{config: config, pacific: pacific, mux: http.NewServeMux()}
	u.mux.HandleFunc("GET "+Path+"/videos", u.metered(1, u.listVideos))
	u.mux.HandleFunc("GET "+Path+"/search", u.metered(100, u.search))
	return u
}

// Counts returns a copy of the books.
func (u *Upstream) Counts() Counts {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.turnDay()
	return u.counts
}

// Inject makes the next requests that are within the quota meet these answers,
// in this order, instead of a page; nil lets one request pass. They are charged
// like any other.
func (u *Upstream) Inject(faults ...http.HandlerFunc) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.faults = append(u.faults, faults...)
}

func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) { u.mux.ServeHTTP(w, r) }

// metered serves an operation that costs a number of units. It charges first and reads the
// parameters afterwards: an invalid request costs as much as a valid one. Only a request
// without a known key belongs to no project and costs nothing.
func (u *Upstream) metered(units int, answer func(url.Values) (*list, *refusal)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key := cmp.Or(r.URL.Query().Get("key"), r.Header.Get("X-Goog-Api-Key"))
		fault, refused := u.charge(units, key != "" && (u.config.Key == "" || key == u.config.Key))
		if refused != nil {
			refused.write(w)
			return
		}
		if fault != nil {
			fault(w, r)
			return
		}
		body, refused := answer(r.URL.Query())
		if refused != nil {
			refused.write(w)
			return
		}
		writeJSON(w, http.StatusOK, body)
	}
}

// charge books a request of that many units, if its key is known, and returns the fault that
// the request is to meet.
func (u *Upstream) charge(units int, known bool) (fault http.HandlerFunc, refused *refusal) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.counts.Requests++
	if !known {
		return nil, unregistered
	}
	u.turnDay()
	if u.counts.Units+units > u.config.Quota {
		u.counts.Refused++
		return nil, quotaExceeded
	}
	u.counts.Units += units
	if len(u.faults) > 0 {
		fault, u.faults = u.faults[0], u.faults[1:]
	}
	return fault, nil
}

// turnDay resets the quota at midnight Pacific. The caller holds mu.
func (u *Upstream) turnDay() {
	if today := u.config.Now().In(u.pacific).Format(time.DateOnly); today != u.day {
		u.day, u.counts.Units = today, 0
	}
}

// RoundTrip answers a request without a network, for an http.Client with an upstream as its
// transport. It fails only if the request's context has ended, and then charges nothing.
func (u *Upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	answer := httptest.NewRecorder()
	u.ServeHTTP(answer, r)
	response := answer.Result()
	response.Request = r
	return response, nil
}
