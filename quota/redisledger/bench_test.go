package redisledger

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
	"quotad/quota/redisledger/redistest"
)

// What is measured here is measured next to its floors, in turns, so that a
// machine that grows slower does so for all. Each line gives a rival's median and
// its ratio to the first one's: what a script costs that does nothing.
//
//	go test -run - -bench . -benchtime 1x ./quota/redisledger

// A rival is something that is measured.
type rival struct {
	name string
	ask  func() error
}

// BenchmarkOneClient compares decisions, asked for one after the other.
func BenchmarkOneClient(b *testing.B) {
	rivals := newRivals(b)
	took := make([][]float64, len(rivals))
	for range 40 {
		for i, r := range rivals {
			for range 100 {
				begun := time.Now()
				if err := r.ask(); err != nil {
					b.Fatalf("%s: %v", r.name, err)
				}
				took[i] = append(took[i], micros(time.Since(begun)))
			}
		}
	}
	reportTimes(b, rivals, took)
}

// BenchmarkManyClients compares how many are decided in a second.
func BenchmarkManyClients(b *testing.B) {
	rivals := newRivals(b)
	rates := make([][]float64, len(rivals))
	for range 5 {
		for i, r := range rivals {
			rates[i] = append(rates[i], hammer(b, r, 64, 300*time.Millisecond))
		}
	}
	for i, r := range rivals {
		b.Run(r.name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(rates[i]), "per-s")
			b.ReportMetric(median(rates[i])/median(rates[0]), "x-empty-script")
		})
	}
}

// newRivals returns the floors, the common recipe and what we do instead, on one
// Redis.
func newRivals(b *testing.B) []rival {
	config := Config{Addrs: []string{redistest.Start(b).Addr}, Daemon: "bench"}
	client, ctx := connect(b, config), context.Background()
	empty := redis.NewScript("return 1")
	c := youtube()
	c.Limits[0].Units = quota.MaxUnits
	little := youtube()
	little.Name, little.Limits[0].Units, little.Limits[0].Reserve = "little", 100, 0
	ledger := openAt(b, config)
	service, err := quota.NewService(ledger, []*quota.Credential{c, little}, time.Minute)
	if err != nil {
		b.Fatal(err)
	}
	acquire := func(credential, operation string) func() error {
		return func() error {
			_, err := service.Acquire(ctx, quota.Request{Credential: credential, Operation: operation, Count: 1, Caller: fetch("", 1, "").Caller})
			return err
		}
	}
	if err := acquire("little", "search.list")(); err != nil { // now it is spent
		b.Fatal(err)
	}
	return []rival{
		{"empty script", func() error { return empty.Run(ctx, client, []string{"key"}).Err() }},
		{"INCRBY", func() error { return client.IncrBy(ctx, "counter", 1).Err() }},
		{"a member per unit, cost 1", perUnit(client, "units-1", 1)},
		{"a member per unit, cost 100", perUnit(client, "units-100", 100)},
		{"acquire, cost 1", acquire("youtube", "videos.list")},
		{"acquire, cost 100", acquire("youtube", "search.list")},
		{"denied by the ledger", func() error {
			_, err := ledger.Acquire(ctx, little, []quota.Ask{fetch("videos.list", 1, "")})
			return err
		}},
		{"denied by the service", acquire("little", "videos.list")},
	}
}

// perUnit is the common recipe: a sorted set with a member per unit, those that
// have left the window removed at every call.
func perUnit(client redis.UniversalClient, key string, cost int) func() error {
	script := redis.NewScript(`
		local time = redis.call('TIME')
		local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
		local cost, limit, window_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
		redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_ms - window_ms)
		if redis.call('ZCARD', KEYS[1]) + cost > limit then return 0 end
		for unit = 1, cost do redis.call('ZADD', KEYS[1], now_ms, ARGV[4] .. ':' .. unit) end
		redis.call('PEXPIRE', KEYS[1], window_ms)
		return 1`)
	var calls atomic.Int64
	return func() error {
		id := strconv.FormatInt(calls.Add(1), 10)
		return script.Run(context.Background(), client, []string{key}, cost, int64(quota.MaxUnits), 86_400_000, id).Err()
	}
}

// hammer has clients ask for some time and returns how many answers they got in a
// second.
func hammer(b *testing.B, r rival, clients int, span time.Duration) float64 {
	ctx, cancel := context.WithTimeout(context.Background(), span)
	defer cancel()
	var total atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := r.ask(); err != nil {
					b.Errorf("%s: %v", r.name, err)
					return
				}
				total.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(total.Load()) / span.Seconds()
}

// BenchmarkLogSize compares acquires from short and long logs. In each, with
// every grant the oldest one leaves.
func BenchmarkLogSize(b *testing.B) {
	sizes := []int{1000, 1_000_000}
	if testing.Short() {
		sizes[1] = 10_000
	}
	server := redistest.Start(b)
	client := connect(b, Config{Addrs: []string{server.Addr}})
	empty := redis.NewScript("return 1")
	rivals := []rival{{"empty script", func() error { return empty.Run(context.Background(), client, []string{"key"}).Err() }}}
	var logs []*longLog
	for _, size := range sizes {
		l := newLongLog(b, server, size, 1)
		logs = append(logs, l)
		rivals = append(rivals, rival{strconv.Itoa(size) + " entries", l.acquire})
	}
	took := make([][]float64, len(rivals))
	for range 40 {
		for i, r := range rivals {
			for range 100 {
				begun := time.Now()
				if err := r.ask(); err != nil {
					b.Fatal(err)
				}
				took[i] = append(took[i], micros(time.Since(begun)))
			}
		}
	}
	reportTimes(b, rivals, took)
	for i, l := range logs {
		b.Run("all "+rivals[i+1].name+" leave at once", l.leaveAtOnce)
	}
}

// A longLog is a log with an entry in every millisecond of its window, on a clock
// that goes on with every call.
type longLog struct {
	size   int
	ledger *Ledger
	client redis.UniversalClient
	clock  string
	c      *quota.Credential
}

func newLongLog(b testing.TB, server *redistest.Server, size, tickMs int) *longLog {
	b.Helper()
	config := Config{Addrs: []string{server.Addr}, Daemon: "bench", KeyPrefix: strconv.Itoa(size) + ":"}
	l := &longLog{size: size, client: connect(b, config), clock: config.KeyPrefix + "clock", c: youtube()}
	ticking := rewritten(onClock(b, "'"+l.clock+"'"), func(script string) string {
		return strings.Replace(script, "'GET', '"+l.clock+"'", fmt.Sprintf("'INCRBY', '%s', %d", l.clock, tickMs), 1)
	})
	var err error
	if l.ledger, err = open(config, Local{}, ticking); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.ledger.Close() })
	l.c.Limits[0].Window, l.c.Limits[0].Units = quota.Sliding(time.Duration(size)*time.Millisecond), quota.MaxUnits
	begin := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC).UnixMilli()
	records := make([]quota.Entry, size)
	for i := range records {
		records[i] = quota.NewEntry(fetch("videos.list", 1, ""), quota.ID{Ms: begin + int64(i)})
	}
	l.client.Set(b.Context(), l.clock, begin, 0)
	if err := putBack(b.Context(), l.ledger, l.c, 0, time.UnixMilli(begin), records...); err != nil {
		b.Fatal(err)
	}
	l.client.Set(b.Context(), l.clock, begin+int64(size), 0)
	if err := l.acquire(); err != nil { // counts them all
		b.Fatal(err)
	}
	return l
}

func (l *longLog) acquire() error {
	_, err := l.ledger.Acquire(context.Background(), l.c, []quota.Ask{fetch("videos.list", 1, "")})
	return err
}

// leaveAtOnce reports how long it takes to count what is left when a whole window
// has passed since the last call, and how long one call of that keeps Redis busy.
func (l *longLog) leaveAtOnce(b *testing.B) {
	watch := &stopwatch{}
	l.ledger.client.AddHook(watch)
	l.client.IncrBy(b.Context(), l.clock, 2*int64(l.size))
	begun := time.Now()
	if _, err := l.ledger.Usage(b.Context(), l.c); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(micros(time.Since(begun)), "µs")
	slices.Sort(watch.took)
	b.ReportMetric(watch.took[len(watch.took)*99/100], "p99-call-µs")
	b.ReportMetric(float64(len(watch.took)), "calls")
}

// A stopwatch takes the time of calls that are made one after the other.
type stopwatch struct{ took []float64 }

func (w *stopwatch) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *stopwatch) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (w *stopwatch) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		begun := time.Now()
		err := next(ctx, command)
		w.took = append(w.took, micros(time.Since(begun)))
		return err
	}
}

func reportTimes(b *testing.B, rivals []rival, took [][]float64) {
	for i, r := range rivals {
		b.Run(r.name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(took[i]), "p50-µs")
			b.ReportMetric(median(took[i])/median(took[0]), "x-empty-script")
			slices.Sort(took[i])
			b.ReportMetric(took[i][len(took[i])*99/100], "p99-µs")
		})
	}
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func median(values []float64) float64 {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}
