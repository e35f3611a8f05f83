package middleware_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/clientlimit"
	"quotad/quota/middleware"
)

// Each client of a video server has 10 units a minute, and the daemon counts them. A search costs 5. The health check is
// not limited, as it does not go through the handler. A client with an API key has a budget for that key. Others have one
// for their address, which the proxy in front of the server passes on.
func Example() {
	videos := http.NewServeMux()
	videos.HandleFunc("GET /videos", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "videos") })
	videos.HandleFunc("GET /search", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "results") })

	limited := middleware.Handler(exampleDaemon(), videos, middleware.Options{
		Clients:        "public", // [clients.public] in the daemon's config.toml
		Identify:       []middleware.Identify{middleware.ByHeader("X-API-Key")},
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Cost: func(r *http.Request) (string, int64) {
			if r.URL.Path == "/search" {
				return "search", 1
			}
			return "", 1
		},
	})
	all := http.NewServeMux()
	all.Handle("/", limited)
	all.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	web := httptest.NewServer(all)
	defer web.Close()

	get(web.URL+"/videos", "X-API-Key", "k1")
	get(web.URL+"/search", "X-API-Key", "k1")
	get(web.URL+"/search", "X-API-Key", "k1")
	get(web.URL+"/search", "X-Forwarded-For", "203.0.113.7")
	get(web.URL+"/healthz", "X-API-Key", "k1")
	// Output:
	// /videos 200 OK
	//   RateLimit: "default";r=9;t=60
	// /search 200 OK
	//   RateLimit: "default";r=4;t=60
	// /search 429 Too Many Requests
	//   limit "default" has no room for this request now
	// /search 200 OK
	//   RateLimit: "default";r=5;t=60
	// /healthz 200 OK
}

// get prints how a request with one header field is answered.
func get(url, field, value string) {
	r, err := http.NewRequest(http.MethodGet, url, nil)
	check(err)
	r.Header.Set(field, value)
	answer, err := http.DefaultClient.Do(r)
	check(err)
	defer answer.Body.Close()
	fmt.Println(r.URL.Path, answer.Status)
	if limit := answer.Header.Get("RateLimit"); limit != "" && answer.StatusCode == http.StatusOK {
		fmt.Println("  RateLimit:", limit)
	}
	if answer.StatusCode != http.StatusOK { // with Retry-After, of 60 to 66 s
		var problem struct{ Detail string }
		json.NewDecoder(answer.Body).Decode(&problem)
		fmt.Println("  " + problem.Detail)
	}
}

// A daemon stands for &api.Client{}: it decides as one that has these lines in its config.toml:
//
//	[clients.public]
//	units = 10
//	window = "1m"
//	operations.search = 5
type daemon struct{ *clientlimit.Service }

var _ middleware.Limiter = (*api.Client)(nil)

func exampleDaemon() daemon {
	clients := clientlimit.NewService(nil)
	counts := clientlimit.NewMemory(func() time.Time { return time.UnixMilli(1) })
	check(clients.SetClients(counts, "a secret of the example", []*clientlimit.Clients{{
		Name: "public", Algorithm: clientlimit.Log, Operations: map[string]quota.Units{"search": 5},
		Limits: []quota.Limit{{Name: "default", Units: 10, Window: quota.Sliding(time.Minute)}},
	}}))
	return daemon{clients}
}

func (d daemon) AcquireClient(ctx context.Context, clients string, r api.ClientRequest) (api.Decision, error) {
	request := clientlimit.Request{Subject: r.Subject, Operation: r.Operation, Count: quota.Units(r.Count)}
	decision, err := d.Acquire(ctx, clients, request)
	return api.DecisionOf(decision, false), err
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
