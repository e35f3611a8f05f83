package slidinglog

import (
	"context"
	"testing"
	"time"

	"quotad/quota"
)

// A countingEngine counts what it is asked.
type countingEngine struct {
	Engine
	runs map[Script]int
}

func (e *countingEngine) Run(ctx context.Context, name string, s Script, args []any) ([]any, error) {
	e.runs[s]++
	return e.Engine.Run(ctx, name, s, args)
}

// Ten thousand entries: the wait of each denial is exact, however long the walk, and a window that ends, moves or is
// lengthened over all of them is worked off in pages.
func TestTenThousandEntries(t *testing.T) {
	t.Parallel()
	const n = 10_000
	c := func(window quota.Window) *quota.Credential {
		c := credential(n, window)
		c.Keep = 31 * 24 * time.Hour
		return c
	}
	day := quota.Sliding(24 * time.Hour)
	b := newBed(t, c(day))
	engine := &countingEngine{NewMemory(b.clock.Now), map[Script]int{}}
	b.l = open(t, Config{Engine: engine, Dir: t.TempDir()})
	b.reload(c(day))
	for range n {
		b.granted("op", 1)
		b.clock.Add(3 * time.Second)
	}
	for _, missing := range []quota.Units{1, 10, 11, 100, 101, 500, 501, n / 2, n - 1, n} {
		clear(engine.runs)
		b.denied("op", missing, noon.Add(24*time.Hour+3*time.Second*time.Duration(missing-1)))
		if got, most := engine.runs[Walk], int(missing)/100+1; got > most {
			t.Errorf("%d units missing: %d calls walk, want %d at most", missing, got, most)
		}
	}
	clear(engine.runs)
	d := b.ask(quota.Request{Operation: "op", Count: n + 1})
	if d.Reason != quota.CostExceedsLimit || engine.runs[Walk] > 0 {
		t.Errorf("more than the limit has: got %+v after %d walks, want none", d, engine.runs[Walk])
	}
	until := noon.Add(24*time.Hour + 3*time.Second*(n/2-1))
	b.clock.Set(until.Add(-time.Millisecond))
	b.denied("op", n/2, until)
	b.clock.Set(until)
	b.granted("op", n/2) // half of them leave at once
	b.used(n)
	for _, row := range []struct {
		window quota.Window
		used   quota.Units
	}{
		{quota.Sliding(time.Minute), n / 2}, {quota.Sliding(30 * 24 * time.Hour), n + n/2}, {day, n},
		{quota.Calendar(quota.Day, time.UTC), n / 2}, {quota.Calendar(quota.Month, time.UTC), n + n/2},
		{quota.Sliding(time.Hour), n / 2},
	} {
		clear(engine.runs)
		b.reload(c(row.window))
		b.used(row.used)
		if got := engine.runs[Acquire]; got > 2*n/500+5 {
			t.Errorf("%s: %d calls move the sum", row.window, got)
		}
	}
}

// Up to 2^53-1 all is exact, and nothing is counted beyond.
func TestTheGreatestNumber(t *testing.T) {
	t.Parallel()
	b := newBed(t, credential(quota.MaxUnits, quota.Sliding(time.Hour)))
	most := b.granted("op", quota.MaxUnits-2)
	b.granted("op", 1)
	b.denied("op", 2, noon.Add(time.Hour))
	one := b.granted("op", 1)
	b.used(quota.MaxUnits)
	d, err := b.Settle(t.Context(), one.GrantID, quota.Settlement{Units: 2})
	if err != nil || d.Reason != quota.BadRequest {
		t.Errorf("one unit more than can be counted: got %+v, %v", d, err)
	}
	b.used(quota.MaxUnits)
	b.killed().used(quota.MaxUnits)
	if d, err := b.Settle(t.Context(), most.GrantID, quota.Settlement{Units: 5}); err != nil || d.Reason != "" {
		t.Errorf("got %+v, %v, want it settled", d, err)
	}
	b.used(7)
	b.killed().used(7)
	b.clock.Add(time.Hour + time.Millisecond)
	b.used(0)
}
