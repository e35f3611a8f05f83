package quota

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A Period is the stretch of local time that a calendar window covers.
type Period string

// The periods of a calendar window.
const (
	Hour  Period = "hour"
	Day   Period = "day"
	Month Period = "month"
)

// A Window says which debits a limit counts: those of the trailing Length (a sliding window), those
// since the current Period of Zone began (a calendar window), or those since the last whole number
// of times Every after From (an anchored window). Exactly one of Length, Period and Every is set.
type Window struct {
	Length time.Duration // sliding: at least a millisecond, whole milliseconds
	Period Period        // calendar
	Zone   *time.Location
	Every  time.Duration // anchored: at least leastEvery, whole milliseconds
	From   time.Time     // UTC, whole milliseconds
}

// Sliding returns the window of the trailing length.
func Sliding(length time.Duration) Window { return Window{Length: length} }

// Calendar returns the window that restarts with each period in zone.
func Calendar(period Period, zone *time.Location) Window { return Window{Period: period, Zone: zone} }

// Anchored returns the window that restarts with each period, of which one begins at from: there is
// no first one and no last one.
func Anchored(every time.Duration, from time.Time) Window {
	return Window{Every: every, From: from.Round(0).UTC()}
}

// Restarts reports whether every debit stops counting at once when a period ends, rather than each at
// a time of its own as in a sliding window.
func (w Window) Restarts() bool { return w.Period != "" || w.Every > 0 }

// Bounds returns the time that w counts at now: debits later than after count. For a window that
// restarts, end is the first instant of the next period, when every debit stops counting at once;
// for a sliding window it is the zero time, because each debit leaves at a time of its own.
func (w Window) Bounds(now time.Time) (after, end time.Time) {
	if !w.Restarts() {
		return now.Add(-w.Length), time.Time{}
	}
	start, end := w.period(now)
	// Debits are stamped in whole microseconds: later than the last one before the period is the same as within it.
	return start.Add(-time.Microsecond), end
}

// periods are how long each is: in words, and at most, daylight saving included.
var periods = map[Period]struct{ nominal, max time.Duration }{
	Hour:  {time.Hour, 2 * time.Hour},
	Day:   {24 * time.Hour, 26 * time.Hour},
	Month: {30 * 24 * time.Hour, 32 * 24 * time.Hour},
}

// Span is the longest time for which a debit counts: the length of a sliding
// window, or an upper bound for the longest period (daylight saving included).
func (w Window) Span() time.Duration { return cmp.Or(periods[w.Period].max, w.Length, w.Every) }

// Nominal is how long the window is said to be: a day has 24 hours, a month 30 days.
func (w Window) Nominal() time.Duration { return cmp.Or(periods[w.Period].nominal, w.Length, w.Every) }

// String returns "24h" or "7d" for a sliding window, "day America/Los_Angeles" for a calendar one, and
// "24h from 2026-01-01T11:30:15Z" for an anchored one.
func (w Window) String() string {
	switch {
	case w.Period != "":
		return string(w.Period) + " " + w.Zone.String()
	case w.Every > 0:
		return Brief(w.Every) + " from " + w.From.Format(time.RFC3339Nano)
	}
	return Brief(w.Length)
}

// terms is a text of what the window counts.
func (w Window) terms() string {
	zone := ""
	if w.Zone != nil {
		zone = w.Zone.String()
	}
	return fmt.Sprintf("%d %s %s %d %d", w.Length.Microseconds(), w.Period, zone, w.Every.Microseconds(), w.From.UnixMicro())
}

func (w Window) validate() error {
	switch {
	case w.Period == "" && w.Every != 0:
		if w.Every < leastEvery || w.Every > LongestWindow || w.Every%time.Millisecond != 0 || w.From.Nanosecond()%1e6 != 0 {
			return fmt.Errorf("a period from an instant has whole milliseconds, from %s to %s: %s", Brief(leastEvery), Brief(LongestWindow), w)
		}
		if year := w.From.Year(); year < 1970 || year > 2199 { // within 292 years of any now
			return fmt.Errorf("a period begins in the years 1970 to 2199: %s", w)
		}
	case w.Period == "":
		if w.Length < time.Millisecond || w.Length%time.Millisecond != 0 {
			return fmt.Errorf("a sliding window needs a length of whole milliseconds, at least one: %v", w.Length)
		}
		if w.Length > LongestWindow {
			return fmt.Errorf("a sliding window is at most %v long: %s", Brief(LongestWindow), Brief(w.Length))
		}
	case w.Period == Hour, w.Period == Day, w.Period == Month:
		if w.Zone == nil {
			return fmt.Errorf("a calendar window needs a time zone")
		}
	default:
		return fmt.Errorf("unknown period %q: use hour, day or month", w.Period)
	}
	return nil
}

// LongestWindow is the longest that a window can be. It keeps now-length and debit+length far from the ends
// of an int64.
const LongestWindow = 366 * 24 * time.Hour

// leastEvery is the shortest period of an anchored window: a plan looks at each.
const leastEvery = time.Minute

// period returns the period that contains now. In a zone it follows the zone's own rules: a day may
// have 23 or 25 hours and need not begin at midnight.
func (w Window) period(now time.Time) (start, end time.Time) {
	if w.Every > 0 {
		into := now.Sub(w.From) % w.Every
		if into < 0 {
			into += w.Every
		}
		start = now.Add(-into)
		return start, start.Add(w.Every)
	}
	local := now.In(w.Zone)
	y, m, d := local.Date()
	begins := func(n int) time.Time { return dayStart(y, m, d+n, w.Zone) } // n periods from this one
	switch w.Period {
	case Hour:
		return hourBounds(now, w.Zone)
	case Month:
		begins = func(n int) time.Time { return dayStart(y, m+time.Month(n), 1, w.Zone) }
	}
	start, end = begins(0), begins(1)
	if now.Before(start) { // its first date begins twice, or late, and now is before that
		start, end = begins(-1), start
	}
	return start, end
}

// hourBounds counts hours of local time: in zones that are not whole hours from UTC they begin at half past or a
// quarter. Across a shift of the zone the hour is cut at the shift, so that every instant lies in exactly one hour.
func hourBounds(now time.Time, zone *time.Location) (start, end time.Time) {
	local := now.In(zone)
	_, offset := local.Zone()
	shift := time.Duration(offset) * time.Second
	start = now.Add(shift).UTC().Truncate(time.Hour).Add(-shift).In(zone)
	end = start.Add(time.Hour)
	from, until := local.ZoneBounds()
	if !from.IsZero() && start.Before(from) {
		start = from
	}
	if !until.IsZero() && end.After(until) {
		end = until
	}
	return start, end
}

// dayStart returns the first instant of a date in zone. Where daylight saving skips
// midnight, time.Date returns the evening before.
func dayStart(y int, m time.Month, d int, zone *time.Location) time.Time {
	start := time.Date(y, m, d, 0, 0, 0, 0, zone)
	noon := time.Date(y, m, d, 12, 0, 0, 0, zone)
	if start.Day() != noon.Day() {
		_, start = start.ZoneBounds()
	}
	return start
}

// Earlier returns the earlier of two times.
func Earlier(a, b time.Time) time.Time {
	return slices.MinFunc([]time.Time{a, b}, time.Time.Compare)
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare)
}
