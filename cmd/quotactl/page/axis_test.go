package page

import (
	"strings"
	"testing"
	"time"

	"quotad/quota/api"
)

// The hours below an axis are those of the clock: where it is set forward one is missing,
// where it is set back none comes twice.
func TestTicks(t *testing.T) {
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name        string
		from, until time.Time
		zone        *time.Location
		want        string // major ones, and in brackets the others
	}{
		{"a day", noon.Add(-24 * time.Hour), noon, time.UTC, "12:00 (16:00) 18:00 (20:00) (22:00) Sat 14 (02:00) (04:00) 06:00 (08:00) (10:00)"},
		{"two days", noon.Add(-24 * time.Hour), noon.Add(24 * time.Hour), time.UTC,
			"12:00 (18:00) Sat 14 (06:00) 12:00 (18:00) Sun 15 (06:00)"},
		{"two hours and a half", noon.Add(-150 * time.Minute), noon, time.UTC, "09:30 10:00 (10:15) 10:30 (10:45) 11:00 (11:15) 11:30 (11:45)"},
		{"a month", noon, noon.Add(31 * 24 * time.Hour), time.UTC, "Sat 21 Sat 28 Sat 4 Sat 11"},
		{"set forward", time.Date(2026, 3, 8, 5, 0, 0, 0, time.UTC), time.Date(2026, 3, 8, 11, 0, 0, 0, time.UTC), newYork,
			"Sun 8 (01:00) (01:30) (03:00) (03:30) 04:00 (04:30) (05:00) (05:30) 06:00 (06:30)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := axis{row.from, row.until, row.zone}
			var got []string
			last := -1.0
			for _, tick := range a.Ticks() {
				name := tick.Text
				if tick.Minor {
					name = "(" + name + ")"
				}
				if tick.part <= last || tick.part < 0 || tick.part >= 1 {
					t.Errorf("%s lies at %v, behind %v", name, tick.part, last)
				}
				last = tick.part
				got = append(got, name)
			}
			if text := strings.Join(got, " "); text != row.want {
				t.Errorf("got  %s\nwant %s", text, row.want)
			}
		})
	}
}

// Whatever the span, there is room for its ticks, and it has some.
func TestTicksHaveRoom(t *testing.T) {
	for span := time.Hour; span <= 62*24*time.Hour; span += 37 * time.Minute {
		a := axis{noon, noon.Add(span), time.UTC}
		all := a.Ticks()
		major := 0
		for _, tick := range all {
			if !tick.Minor {
				major++
			}
		}
		if len(all) > manyTicks+1 || len(all) == 0 || major > fewTicks+1 {
			t.Fatalf("%v has %d ticks, %d of them major", span, len(all), major)
		}
	}
}

func TestPositions(t *testing.T) {
	a := axis{noon, noon.Add(10 * time.Hour), time.UTC}
	for _, row := range []struct{ name, got, want string }{
		{"the beginning", a.Percent(noon), "0.00%"},
		{"the middle", a.Percent(noon.Add(5 * time.Hour)), "50.00%"},
		{"before it", a.Percent(noon.Add(-time.Hour)), "0.00%"},
		{"behind it", a.Percent(noon.Add(11 * time.Hour)), "100.00%"},
		{"a long bar", a.width(noon.Add(-time.Hour), noon.Add(time.Hour)), "10.00%"},
		{"a short bar", a.width(noon, noon.Add(time.Second)), "0.40%"},
		{"no time at all", axis{noon, noon, time.UTC}.Percent(noon), "0.00%"},
		{"nothing", Curve{max: 100}.Y(0), "170.0"},
		{"all", Curve{max: 100}.Y(100), "0.0"},
		{"more than all", Curve{max: 100}.Y(150), "0.0"},
		{"of a limit without units", Curve{}.Y(1), "170.0"},
	} {
		if row.got != row.want {
			t.Errorf("%s lies at %s, want %s", row.name, row.got, row.want)
		}
	}
}

// The curve of a limit of 1,000 units that a day's window filled evenly, with a reserve of
// 200: in the box it goes from the left corner to the middle, at half of its height.
func TestCurve(t *testing.T) {
	c := Curve{
		axis: axis{noon.Add(-24 * time.Hour), noon.Add(24 * time.Hour), time.UTC}, Now: noon, full: noon, dryAt: noon.Add(12 * time.Hour),
		Limit: api.Limit{Name: "daily", Units: 1_000, Reserve: 200, Used: 500}, max: 1_000,
		Held:  []Point{{noon.Add(-24 * time.Hour), 0}, {noon, 500}},
		Ahead: []Point{{noon, 500}, {noon.Add(24 * time.Hour), 0}},
	}
	for _, row := range []struct{ name, got, want string }{
		{"held", c.Path(c.Held), "M0.0 170.0L500.0 85.0"},
		{"ahead", c.Path(c.Ahead), "M500.0 85.0L1000.0 170.0"},
		{"the pace", c.Pace(), "M0.0 170.0L500.0 34.0"},
		{"the area", c.Area(c.Held), "M0.0 170.0L500.0 85.0L500.0 170L0.0 170Z"},
		{"units", c.Y(c.Limit.Units), "0.0"},
		{"budget", c.Y(c.Budget()), "34.0"},
		{"reserve", c.Tall(c.Limit.Reserve), "34.0"},
		{"now", c.Percent(c.Now), "50.00%"},
	} {
		if row.got != row.want {
			t.Errorf("%s: %s, want %s", row.name, row.got, row.want)
		}
	}
	if got, want := c.Events(), (event{"75.00%", "used up 00:00", "end", "dry", 12}); len(got) != 1 || got[0] != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if c.Top() != 18 || c.Total() != 208 {
		t.Errorf("it is %d high, %d of it above", c.Total(), c.Top())
	}
}
