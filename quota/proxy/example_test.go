package proxy_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/proxy"
	"quotad/quota/server/servertest"
	"quotad/quota/upstream"
)

// A program that knows nothing of quotas calls the YouTube Data API by another base address. It may spend 250
// units a day. The third search is not sent, and is answered in YouTube's format, so clients stop. The program has
// no key: the proxy sends it.
func Example() {
	youtube := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "results of", r.URL.Query().Get("q"), "for a key:", r.Header.Get("X-Goog-Api-Key") != "")
	}))
	defer youtube.Close()
	address, err := url.Parse(youtube.URL)
	if err != nil {
		log.Fatal(err)
	}

	credential := &quota.Credential{
		Name:       "youtube",
		Limits:     []quota.Limit{{Name: "daily", Units: 250, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{"search.list": {Every: 100}},
	}
	service, err := quota.NewService(ledgertest.NewModel(time.Now), []*quota.Credential{credential}, time.Second)
	if err != nil {
		log.Fatal(err)
	}

	tokens := new(servertest.Tokens) // the daemon's jobs.Tokens knows those of all passes under way
	tokens.Issue(runToken, "trending", "US", "youtube")
	web := httptest.NewUnstartedServer(nil)
	meter := proxy.New(proxy.Config{
		Address:  web.Listener.Addr().String(),
		Service:  service,
		Observer: upstream.NewObserver(service, nil, func(upstream.Outcome) {}),
		Tokens:   tokens,
		Emit:     func(any) {},
	})
	routes, wrong := proxy.NewRoutes(map[string]string{"GET /youtube/v3/search": "search.list"})
	if len(wrong) > 0 {
		log.Fatal(wrong[0])
	}
	meter.SetTargets([]*proxy.Target{{
		Credential: "youtube",
		Upstream:   address,
		Key:        proxy.FixedKey("the-real-key"),
		KeyHeader:  "X-Goog-Api-Key",
		Refusals:   proxy.Google,
		Routes:     routes,
	}})
	web.Config.Handler = meter
	web.Start()
	defer meter.Shutdown(context.Background())

	base := meter.AddressFor("youtube", runToken) // what a job finds in $QUOTAD_PROXY
	for _, q := range []string{"cats", "dogs", "birds"} {
		answer, err := http.Get(base + "youtube/v3/search?q=" + q)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(answer.Status, ": ")
		io.Copy(os.Stdout, io.LimitReader(answer.Body, 40))
		answer.Body.Close()
	}
	// Output:
	// 200 OK: results of cats for a key: true
	// 200 OK: results of dogs for a key: true
	// 429 Too Many Requests: {"error":{"code":429,"message":"quotad:
}

const runToken = "0123456789abcdef0123456789abcdef"
