package benchmark

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/slidinglog"
)

// A crowd is four hosts that acquire from one credential at the same time.
type crowd struct {
	away    time.Duration // round trip of the last host to Redis; 0: as it is
	callers int           // of each host, who ask again once they are answered
	settles bool          // each call is followed by its settlement
}

const ms = time.Millisecond

var crowds = []crowd{
	{callers: 1}, {callers: 8}, {callers: 32}, {callers: 16, settles: true},
	{away: 2 * ms, callers: 1}, {away: 2 * ms, callers: 32}, {away: 10 * ms, callers: 1}, {away: 10 * ms, callers: 8},
	{away: 10 * ms, callers: 8, settles: true}, {away: 50 * ms, callers: 1},
}

// BenchmarkHosts measures acquires of four hosts from one credential, beside those of the first of them alone. All are
// goroutines of one process. The worst host's times count, and of-alone is what the last one gets beside what it gets
// alone. One iteration is the median of three rounds:
//
//	go test -run - -bench Hosts -benchtime 1x
func BenchmarkHosts(b *testing.B) {
	for _, c := range crowds {
		b.Run(fmt.Sprintf("4x%d,one-%v-away,settles=%v", c.callers, c.away, c.settles), func(b *testing.B) {
			server := redistest.Start(b)
			var hosts []*host
			for i := range 4 {
				away := time.Duration(0)
				if i == 3 {
					away = c.away
				}
				hosts = append(hosts, startHost(b, redistest.FarAway(b, server, away), fmt.Sprint("host ", i), 1))
			}
			figures := map[string][]float64{}
			for b.Loop() {
				for range 3 {
					last, all := c.ask(hosts[3:], time.Second)[0], c.ask(hosts, 3*time.Second)
					round := map[string]float64{"of-alone": all[3].rate() / last.rate()}
					for _, a := range all {
						round["grants/s"] += a.rate()
						round["refused"] += float64(len(a.took) - a.granted)
						round["p50-ms"], round["p99-ms"] = max(round["p50-ms"], a.at(0.5)), max(round["p99-ms"], a.at(0.99))
					}
					for unit, figure := range round {
						figures[unit] = append(figures[unit], figure)
					}
				}
			}
			for unit, values := range figures {
				slices.Sort(values)
				b.ReportMetric(values[len(values)/2], unit)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// A host is a daemon as far as ledgers go.
type host struct {
	service    *quota.Service
	credential string
}

// startHost starts a host with a credential that has so many limits.
func startHost(b *testing.B, addr, name string, limits int) *host {
	b.Helper()
	store, err := redisledger.OpenStore(redisledger.Config{Addrs: []string{addr}, Deadline: 250 * ms})
	if err != nil {
		b.Fatal(err)
	}
	c := &quota.Credential{Name: fmt.Sprint("youtube", limits), Operations: map[string]quota.Cost{"videos.list": {Every: 1}}}
	for n := range limits {
		window := quota.Sliding(24 * time.Hour / time.Duration(1+n))
		c.Limits = append(c.Limits, quota.Limit{Name: fmt.Sprint("limit", n), Units: 1_000_000_000, Window: window})
	}
	ledger := slidinglog.Open(slidinglog.Config{Engine: store, Dir: b.TempDir(), Name: name, Deadline: 250 * ms})
	b.Cleanup(func() { ledger.Close() })
	service, err := quota.NewService(ledger, []*quota.Credential{c}, 250*ms)
	if err == nil {
		err = ledger.SetCredentials(service.Credentials(), nil)
	}
	if err != nil {
		b.Fatal(err)
	}
	ledger.Await(b.Context())
	return &host{service, c.Name}
}

// acquire makes a call, and perhaps gives back its unit.
func (h *host) acquire(settles bool) (granted bool) {
	d, err := h.service.Acquire(context.Background(), quota.Request{Credential: h.credential, Operation: "videos.list", Count: 1})
	if granted = err == nil && d.Granted(); granted && settles {
		d, err = h.service.Settle(context.Background(), d.GrantID, quota.Settlement{})
		granted = err == nil && d.Granted()
	}
	return granted
}

// answers are those of a host's calls.
type answers struct {
	granted int
	took    []time.Duration
	during  time.Duration
}

func (a answers) rate() float64 { return float64(a.granted) / a.during.Seconds() }

// at returns the time, in ms, within which a part of the calls was answered.
func (a answers) at(part float64) float64 {
	return a.took[int(part*float64(len(a.took)-1))].Seconds() * 1e3
}

// ask has all hosts ask for some time, and returns each one's answers.
func (c crowd) ask(hosts []*host, during time.Duration) []answers {
	list := make([]answers, len(hosts))
	var mu sync.Mutex // guards list
	var asking sync.WaitGroup
	end := time.Now().Add(during)
	for i, h := range hosts {
		list[i].during = during
		for range c.callers {
			asking.Go(func() {
				for time.Now().Before(end) {
					begun := time.Now()
					granted := h.acquire(c.settles)
					took := time.Since(begun)
					mu.Lock()
					if list[i].took = append(list[i].took, took); granted {
						list[i].granted++
					}
					mu.Unlock()
				}
			})
		}
	}
	asking.Wait()
	for i := range list {
		slices.Sort(list[i].took)
	}
	return list
}
