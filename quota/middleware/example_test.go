package middleware_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/clientlimit"
	"quotad/quota/ledgertest"
	"quotad/quota/middleware"
	"quotad/quota/server"
)

// Each client of a video server has 10 units a minute, and the daemon counts them. A search costs 5. The health check is
// not limited, as it does not go through the handler. A client with an API key has a budget for that key. Others have one
// for their address, which the proxy in front of the server passes on.
func Example() {
	socket, stop := exampleDaemon()
	defer stop()

	videos := http.NewServeMux()
	videos.HandleFunc("GET /videos", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "videos") })
	videos.HandleFunc("GET /search", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "results") })

	daemon := &api.Client{Socket: socket} // found by itself where quotad is installed
	limited := middleware.Handler(daemon, videos, middleware.Options{
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

// exampleDaemon serves limits as a daemon does that has these lines in its config.toml:
//
//	[clients.public]
//	units = 10
//	window = "1m"
//	operations.search = 5
func exampleDaemon() (socket string, stop func()) {
	clock := ledgertest.NewClock(time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC))
	clients := clientlimit.NewService(nil)
	check(clients.SetClients(ledgertest.NewClientStore(clock.Now), "", []*clientlimit.Clients{{
		Name:       "public",
		Algorithm:  clientlimit.Log,
		Limits:     []quota.Limit{{Name: "default", Units: 10, Window: quota.Sliding(time.Minute)}},
		Operations: map[string]quota.Units{"search": 5},
	}}))
	none, err := quota.NewService(ledgertest.NewModel(time.Now), nil, time.Minute)
	check(err)
	s, err := server.New(server.Config{Service: none, Clients: clients})
	check(err)
	dir, err := os.MkdirTemp("", "q")
	check(err)
	socket = filepath.Join(dir, "quotad.sock")
	listener, err := server.Listen(socket)
	check(err)
	frontend, served := server.NewFrontend(server.FrontendConfig{Handler: s}), make(chan error, 1)
	go func() { served <- frontend.Serve(listener) }()
	return socket, func() { check(errors.Join(frontend.Shutdown(context.Background()), <-served, os.RemoveAll(dir))) }
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
