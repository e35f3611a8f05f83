package clientlimit_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/seedtest"
)

// A comparison plays traffic to a counter, holds each decision beside what was granted in
// the trailing window, and has a log decide the same asks.
type comparison struct {
	t *testing.T

	now          int64
	counter, log *clientlimit.Service
	grants       []grantAt // of the counter, in the trailing window

	asks, granted   int
	units, logUnits quota.Units // granted by the counter, and by the log
	over            int         // grants above the limit, in the trailing window
	fitted          int         // denials of what would not have been above it
	worst, sum      quota.Units // the most in a trailing window, and the sum of those at each grant
}

type grantAt struct {
	ms    int64
	units quota.Units
}

// trailing returns what was granted in the window that ends with a time.
func (x *comparison) trailing(ms int64) (sum quota.Units) {
	for len(x.grants) > 0 && x.grants[0].ms <= ms-errorWindow.Milliseconds() {
		x.grants = x.grants[1:]
	}
	for _, g := range x.grants {
		sum += g.units
	}
	return sum
}

// limited returns clients who have the units of the comparison, by its clock.
func (x *comparison) limited(algorithm clientlimit.Algorithm) *clientlimit.Service {
	service := clientlimit.NewService(nil)
	limit := quota.Limit{Name: "default", Units: errorUnits, Window: quota.Sliding(errorWindow)}
	err := service.SetClients(clientlimit.NewMemory(func() time.Time { return time.UnixMilli(x.now) }), "a secret of the test",
		[]*clientlimit.Clients{{Name: "public", Algorithm: algorithm, Limits: []quota.Limit{limit}}})
	if err != nil {
		x.t.Fatal(err)
	}
	return service
}

func (x *comparison) acquire(service *clientlimit.Service, units quota.Units) quota.Decision {
	d, err := service.Acquire(x.t.Context(), "public", clientlimit.Request{Subject: "alice", Count: units})
	if err != nil {
		x.t.Fatal(err)
	}
	return d
}

func (x *comparison) ask(ms int64, units quota.Units) quota.Decision {
	const limit = errorUnits
	exact := x.trailing(ms) + units
	x.asks++
	x.now = ms
	if x.acquire(x.log, units).Granted() {
		x.logUnits += units
	}
	d := x.acquire(x.counter, units)
	switch {
	case !d.Granted() && exact <= limit:
		x.fitted++
	case d.Granted() && exact > limit:
		x.over++
	}
	if d.Granted() {
		x.grants = append(x.grants, grantAt{ms, units})
		x.granted++
		x.units += units
		x.sum += exact
		x.worst = max(x.worst, exact)
	}
	return d
}

const (
	errorUnits   = 60
	errorWindow  = time.Minute
	errorWindows = 100 // how long traffic is played
)

// What the proof of the counter's error bound says holds, and traffic is far from it.
func TestCounterError(t *testing.T) {
	window := errorWindow.Milliseconds()
	begin := int64(1_763_715_600_000) // a whole minute
	end := begin + errorWindows*window
	random := rand.New(rand.NewPCG(seedtest.Seed(t, 1), 0))
	// arrivals asks at random times, at a rate that is so many times the limit's.
	arrivals := func(rate float64, units func() quota.Units) func(*comparison) {
		return func(x *comparison) {
			for at := float64(begin); at < float64(end); {
				n := units()
				at += random.ExpFloat64() * float64(window) / errorUnits / rate * float64(n)
				x.ask(int64(at), n)
			}
		}
	}
	one := func() quota.Units { return 1 }
	for _, traffic := range []struct {
		name  string
		play  func(*comparison)
		worst quota.Units // that is reached at least
	}{
		{"random, 0.9 of the limit", arrivals(0.9, one), 0},
		{"random, 1.2 of the limit", arrivals(1.2, one), 0},
		{"random, 3 times the limit", arrivals(3, one), 0},
		{"random, 10 times the limit", arrivals(10, one), 0},
		{"random, calls of 1 to 10 units, 1.2 of the limit", arrivals(1.2, func() quota.Units { return 1 + quota.Units(random.IntN(10)) }), 0},
		{"as soon as it may", func(x *comparison) { eager(x, begin, end, 1) }, 0},
		{"bursts of up to the limit, at any time", func(x *comparison) {
			for at := begin; at < end; at += random.Int64N(2 * window) {
				for range random.IntN(errorUnits + 1) {
					x.ask(at, 1)
				}
			}
		}, 0},
		{"all at the end of a bucket, then along the line", func(x *comparison) {
			for at := begin; at < end; at += 3 * window {
				x.ask(at+window-1, errorUnits)
				eager(x, at+window, at+2*window-1, 1)
			}
		}, 2*errorUnits - 1},
	} {
		t.Run(traffic.name, func(t *testing.T) {
			x := &comparison{t: t}
			x.counter, x.log = x.limited(clientlimit.Counter), x.limited(clientlimit.Log)
			traffic.play(x)
			percent := func(n, of int) float64 { return 100 * float64(n) / float64(max(1, of)) }
			mean := percent(int(x.sum), x.granted*errorUnits)
			t.Logf("of %d asks %d are granted, %.1f %% of what the log grants; in a trailing window %.1f %% of the limit at most, %.1f %% in the mean; above it %.1f %% of the grants, %.1f %% of the denials would not have been",
				x.asks, x.granted, percent(int(x.units), int(x.logUnits)), percent(int(x.worst), errorUnits), mean, percent(x.over, x.granted), percent(x.fitted, x.asks-x.granted))
			if x.worst >= 2*errorUnits || x.worst < traffic.worst {
				t.Errorf("%d units in a trailing window of %d", x.worst, errorUnits)
			}
			if mean > 100 && traffic.worst == 0 {
				t.Errorf("%.1f %% of the limit in the mean", mean)
			}
		})
	}
}

// eager asks whenever it was told that there is room, and then there is.
func eager(x *comparison, from, until int64, units quota.Units) {
	waited := false
	for at := from; at < until; {
		d := x.ask(at, units)
		if waited && !d.Granted() {
			x.t.Fatalf("denied at the time to retry: %+v", d)
		}
		if waited = !d.Granted(); waited {
			at = d.RetryAt.UnixMilli()
		}
	}
}
