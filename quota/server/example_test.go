package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"quotad/quota"
	"quotad/quota/server"
	"quotad/quota/slidinglog"
)

// A program of one's own serves the API, as the daemon does, and any HTTP client asks it. This one asks as
// curl --unix-socket does.
func Example() {
	dir, err := os.MkdirTemp("", "q")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	youtube := &quota.Credential{
		Name:       "youtube",
		Limits:     []quota.Limit{{Name: "daily", Units: 10_000, Reserve: 500, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{"search.list": {Every: 100}, "videos.list": {Every: 1}},
	}
	ledger := slidinglog.Open(slidinglog.Config{Engine: slidinglog.NewMemory(func() time.Time { return now }), Dir: dir})
	defer ledger.Close()
	if err := ledger.SetCredentials([]*quota.Credential{youtube}, nil); err != nil {
		log.Fatal(err)
	}
	service, err := quota.NewService(ledger, []*quota.Credential{youtube}, time.Second)
	if err != nil {
		log.Fatal(err)
	}

	socket := filepath.Join(dir, "quotad.sock")
	listener, err := server.Listen(socket)
	if err != nil {
		log.Fatal(err)
	}
	frontend := server.NewFrontend(server.FrontendConfig{Handler: server.New(server.Config{Service: service})})
	go frontend.Serve(listener)
	defer frontend.Shutdown(context.Background())

	curl := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", socket)
	}}}
	for range 2 {
		answer, err := curl.PostForm("http://quotad/v1/acquire", url.Values{"operation": {"search.list"}, "count": {"60"}})
		if err != nil {
			log.Fatal(err)
		}
		var body struct {
			Remaining      int64
			Reason, Detail string
			RetryAt        time.Time `json:"retry_at"`
		}
		if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
			log.Fatal(err)
		}
		answer.Body.Close()
		fmt.Println(answer.Status+":", body.Remaining, "units left")
		if answer.StatusCode == http.StatusTooManyRequests {
			fmt.Printf("%s, %s: %s\n", body.Reason, body.RetryAt.Format(time.DateTime), body.Detail)
		}
	}
	// Output:
	// 200 OK: 3500 units left
	// 429 Too Many Requests: 3500 units left
	// limit_exceeded, 2026-11-24 09:00:00: no room for 6,000 units in limit daily, which has 3,500 left
}
