package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/server/servertest"
	"quotad/quota/slidinglog"
	"quotad/quota/upstream"
)

// BenchmarkCost sets a call through the proxy beside one through httputil.ReverseProxy alone
// and one acquire, which is what metering cannot do without. The ledger is embedded, and
// does not wait for the disk.
func BenchmarkCost(b *testing.B) {
	credential := servertest.YouTube()
	credential.Limits[0].Units = quota.MaxUnits
	b.Setenv("TMPDIR", "/dev/shm")
	ledger := slidinglog.Open(slidinglog.Config{Engine: slidinglog.NewMemory(time.Now), Dir: b.TempDir()})
	defer ledger.Close()
	servertest.Must(b, ledger.SetCredentials([]*quota.Credential{credential}, nil))
	service := servertest.NewService(b, ledger, credential)
	s := newScene(b, ok, func(c *Config, _ *Target) {
		c.Service, c.Observer = service, upstream.NewObserver(service, nil, func(upstream.Outcome) {})
		c.Emit = func(any) {}
	})
	bare := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(s.proxy.Target("youtube").Upstream) },
		Transport: newTransport(), FlushInterval: -1,
	})
	defer bare.Close()

	b.Run("reverse proxy", func(b *testing.B) { callOnce(b, bare.URL+"/youtube/v3/videos?part=id") })
	b.Run("acquire", func(b *testing.B) {
		for b.Loop() {
			d, err := service.Acquire(b.Context(), quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1})
			if err != nil || !d.Granted() {
				b.Fatal(d, err)
			}
		}
	})
	b.Run("proxy", func(b *testing.B) { callOnce(b, s.base+"youtube/v3/videos?part=id") })
}

func callOnce(b *testing.B, address string) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for b.Loop() {
		res, err := client.Get(address)
		servertest.Must(b, err)
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if res.StatusCode != 200 {
			b.Fatal(res.Status)
		}
	}
}
