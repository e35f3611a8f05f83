package redisledger_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger/redistest"
)

// A crowd is some hosts that acquire from one credential at the same time.
type crowd struct {
	away     []time.Duration // of each host: the round trip to Redis; 0: as it is
	callers  int             // of each host, who ask again once they are answered
	rate     float64         // instead: calls per second of each host, whether or not the ones before are answered
	together bool            // the calls of that rate begin at the same instants on all hosts
	settles  bool            // each call is followed by its settlement
}

func (c crowd) String() string {
	text := fmt.Sprintf("%dx%d", len(c.away), c.callers)
	if c.rate > 0 {
		text = fmt.Sprintf("%dx%.0f-a-second", len(c.away), c.rate)
	}
	if c.together {
		text += "-together"
	}
	if c.settles {
		text += "-settled"
	}
	last := c.away[len(c.away)-1]
	switch {
	case last == 0:
		return text
	case c.away[0] == 0:
		return text + ",one-" + last.String() + "-away"
	}
	return text + ",all-" + last.String() + "-away"
}

// sameAway and oneAway return how far away n hosts are.
func sameAway(n int, roundTrip time.Duration) []time.Duration {
	return slices.Repeat([]time.Duration{roundTrip}, n)
}

func oneAway(n int, roundTrip time.Duration) []time.Duration {
	return append(make([]time.Duration, n-1), roundTrip)
}

const ms = time.Millisecond

// crowds are those of BenchmarkHosts. Above 32 callers a host's batches are full.
var crowds = []crowd{
	{away: sameAway(2, 0), callers: 1},
	{away: sameAway(4, 0), callers: 1},
	{away: sameAway(4, 0), callers: 8},
	{away: sameAway(2, 0), callers: 32},
	{away: sameAway(4, 0), callers: 32},
	{away: sameAway(8, 0), callers: 8},
	{away: sameAway(4, 10*ms), callers: 1},
	{away: sameAway(4, 10*ms), callers: 8},
	{away: oneAway(4, 2*ms), callers: 1},
	{away: oneAway(4, 2*ms), callers: 32},
	{away: oneAway(4, 10*ms), callers: 1},
	{away: oneAway(4, 10*ms), callers: 8},
	{away: oneAway(4, 25*ms), callers: 1},
	{away: oneAway(4, 50*ms), callers: 1},
	{away: sameAway(1, 0), callers: 16, settles: true},
	{away: sameAway(4, 0), callers: 16, settles: true},
	{away: oneAway(4, 10*ms), callers: 8, settles: true},
	{away: sameAway(4, 10*ms), rate: 20},
	{away: oneAway(4, 10*ms), rate: 20},
	{away: sameAway(4, 10*ms), rate: 20, together: true},
	{away: sameAway(4, 10*ms), rate: 80},
}

// BenchmarkHosts measures acquires of several hosts from one credential, beside those of the first of them alone,
// and of the last. All are goroutines of one process, whose scheduler lets a distant one wait for the near ones that
// have more to do: hosts of their own processes get more of it. The worst host's times count. One iteration is the median of three rounds:
//
//	go test -run - -bench Hosts -benchtime 1x ./quota/redisledger
func BenchmarkHosts(b *testing.B) {
	for _, c := range crowds {
		b.Run(c.String(), func(b *testing.B) {
			server := redistest.Start(b)
			var hosts []*farHost
			for i, away := range c.away {
				hosts = append(hosts, startFarHost(b, farAway(b, server, away), fmt.Sprint("host ", i), 250*ms, 1_000_000_000))
			}
			for b.Loop() {
				var rounds []round
				for range 3 {
					alone, last := c.ask(hosts[:1], time.Second), c.ask(hosts[len(hosts)-1:], time.Second)
					rounds = append(rounds, newRound(alone[0], last[0], c.ask(hosts, 3*time.Second)))
				}
				report(b, rounds)
			}
		})
	}
}

// BenchmarkHostsAtTheWall measures hosts that share a limit of 1,000 units, from an empty log until all are denied: when
// its last unit is granted, the p99 of the calls, and those that are neither granted nor denied:
//
//	go test -run - -bench HostsAtTheWall -benchtime 1x ./quota/redisledger
func BenchmarkHostsAtTheWall(b *testing.B) {
	const units = 1000
	for _, n := range []int{1, 2, 4, 8} {
		for _, callers := range []int{1, 8, 32} {
			b.Run(fmt.Sprintf("%dx%d", n, callers), func(b *testing.B) {
				server := redistest.Start(b)
				var hosts []*farHost
				for i := range n {
					hosts = append(hosts, startFarHost(b, farAway(b, server, 0), fmt.Sprint("host ", i), 250*ms, units))
				}
				all := answers{by: make(map[string]int)}
				var wall time.Duration
				for b.Loop() {
					if d, err := hosts[0].service.Reset(context.Background(), "youtube", quota.Caller{}, ""); err != nil || d.Denied() {
						b.Fatalf("reset: %+v, %v", d, err)
					}
					begun := time.Now()
					var mu sync.Mutex // guards all and wall
					var asking sync.WaitGroup
					for i := range n * callers {
						asking.Go(func() {
							for how := ""; how != "denied"; {
								asked := time.Now()
								how = hosts[i%n].acquire()
								mu.Lock()
								if all.add(how, time.Since(asked)); how == "granted" {
									wall = max(wall, time.Since(begun))
								}
								mu.Unlock()
							}
						})
					}
					asking.Wait()
				}
				if got := all.by["granted"]; got != units*b.N {
					b.Errorf("%d units are granted, %d times, of %d", got, b.N, units)
				}
				slices.Sort(all.times)
				b.ReportMetric(wall.Seconds()*1e3, "wall-ms")
				b.ReportMetric(all.at(0.99), "p99-ms")
				b.ReportMetric(float64(len(all.times)-all.by["granted"]-all.by["denied"]), "refused")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// ask has all hosts ask for some time, and returns each one's answers.
func (c crowd) ask(hosts []*farHost, during time.Duration) []answers {
	for _, h := range hosts { // to read what one has granted alone is no part of this
		for h.acquire() != "granted" {
		}
	}
	list := make([]answers, len(hosts))
	var asking sync.WaitGroup
	for i, h := range hosts {
		call := h.acquire
		if c.settles {
			call = h.acquireAndSettle
		}
		asking.Go(func() {
			if c.rate == 0 {
				list[i] = ask(during, slices.Repeat([]func() string{call}, c.callers))
				return
			}
			seed := uint64(i)
			if c.together {
				seed = 0
			}
			list[i] = askAtRate(during, c.rate, seed, call)
		})
	}
	asking.Wait()
	for i := range list {
		list[i].during = during
	}
	return list
}

// askAtRate makes calls at random times, as many callers of their own do.
func askAtRate(during time.Duration, rate float64, seed uint64, call func() string) answers {
	a := answers{by: make(map[string]int)}
	var mu sync.Mutex // guards a
	var asking sync.WaitGroup
	random := rand.New(rand.NewPCG(seed, 1))
	begun := time.Now()
	for at := time.Duration(0); ; {
		if at += time.Duration(random.ExpFloat64() / rate * float64(time.Second)); at > during {
			break
		}
		time.Sleep(time.Until(begun.Add(at)))
		asking.Go(func() {
			begun := time.Now()
			how := call()
			mu.Lock()
			defer mu.Unlock()
			a.add(how, time.Since(begun))
		})
	}
	asking.Wait()
	slices.Sort(a.times)
	return a
}

// A round is what hosts were answered.
type round struct {
	rate, aloneRate  float64 // grants a second
	p50, p99, lone99 float64 // the worst host's, and those of the first one alone, in ms
	least            float64 // what a host got of an equal share, or of what its callers get of it alone: the last one's are far away
	refused          float64 // calls that were not granted
}

func newRound(alone, last answers, all []answers) (r round) {
	r.aloneRate, r.lone99 = alone.rate(), alone.at(0.99)
	for _, a := range all {
		r.rate += a.rate()
		r.refused += float64(len(a.times) - a.by["granted"])
		r.p50, r.p99 = max(r.p50, a.at(0.5)), max(r.p99, a.at(0.99))
	}
	r.least = 1
	for i, a := range all {
		share := r.rate / float64(len(all))
		if i == len(all)-1 {
			share = min(share, last.rate())
		}
		r.least = min(r.least, a.rate()/share)
	}
	return r
}

// rate returns the grants a second.
func (a answers) rate() float64 { return float64(a.by["granted"]) / a.during.Seconds() }

// report reports the median of each figure.
func report(b *testing.B, rounds []round) {
	for unit, of := range map[string]func(round) float64{
		"grants/s":   func(r round) float64 { return r.rate },
		"alone/s":    func(r round) float64 { return r.aloneRate },
		"of-alone":   func(r round) float64 { return r.rate / r.aloneRate },
		"p50-ms":     func(r round) float64 { return r.p50 },
		"p99-ms":     func(r round) float64 { return r.p99 },
		"alone99-ms": func(r round) float64 { return r.lone99 },
		"least":      func(r round) float64 { return r.least },
		"refused":    func(r round) float64 { return r.refused },
	} {
		var values []float64
		for _, r := range rounds {
			values = append(values, of(r))
		}
		slices.Sort(values)
		b.ReportMetric(values[len(values)/2], unit)
	}
	b.ReportMetric(0, "ns/op")
}

// acquire makes a call, and says how it was answered.
func (h *farHost) acquire() string {
	d, err := h.service.Acquire(context.Background(), quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1})
	return answer(d, err)
}

// acquireAndSettle makes a call, and gives back its unit.
func (h *farHost) acquireAndSettle() string {
	d, err := h.service.Acquire(context.Background(), quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1})
	if err == nil && d.Granted() {
		d, err = h.service.Settle(context.Background(), d.GrantID, quota.Settlement{})
	}
	return answer(d, err)
}
