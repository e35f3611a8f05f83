package upstream

import (
	"cmp"
	"fmt"
	"maps"
	"time"

	"quotad/quota"
)

// A Drift is how our count of a limit compares with the upstream's, as the upstream said last. Each
// counts in its own window.
type Drift struct {
	At           time.Time
	Says         Amount // how large the upstream says that the limit is
	Ours, Theirs Amount // known only where it said how much is left or spent
	// Cause says in words that the upstream counts more by 5 % of the limit, calls it exhausted before
	// our count does, or gives it another size; empty: none of these.
	Cause string
	// Until is when a limit resets that the upstream called exhausted while our count had room: what
	// it counts is known until then. Zero: it said a number.
	Until time.Time
}

// Over reports whether what was said does not hold any more.
func (d Drift) Over(now time.Time) bool { return !d.Until.IsZero() && !now.Before(d.Until) }

// By returns how many units we count more than the upstream does; below zero: fewer.
func (d Drift) By() int64 {
	if !d.Theirs.Known {
		return 0
	}
	return int64(d.Ours.Units - d.Theirs.Units)
}

// A part of a limit by which the upstream must count more than we do to be reported.
const (
	farAbove  = 0.05
	roomAbove = 0.01 // of a limit that the upstream calls exhausted: what is less may be calls under way
)

// Drifts returns what is known of a credential's limits, by their names.
func (o *Observer) Drifts(credential string) map[string]Drift {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.drifts[credential])
}

// Grants returns how much the upstream is known to grant of a limit, and the source: the
// upstream itself, or a preset where no more than that is configured.
func (o *Observer) Grants(credential string, limit quota.Limit) (units quota.Units, source string, known bool) {
	if d := o.Drifts(credential)[limit.Name]; d.Says.Known {
		return d.Says.Units, "it said at " + d.At.UTC().Format(time.RFC3339), true
	}
	preset := o.profile(credential).Limits[limit.Name]
	if preset.Units < limit.Units {
		return 0, "", false
	}
	return preset.Units, preset.Source + " says", true
}

// compare compares what the upstream says is left with our own count. What has no name is
// about the likeliest limit that counts the operation. A limit that the upstream has, and just
// called exhausted for the day, is spent; a cap of ours is not what is exhausted.
func (s *observing) compare() {
	for _, left := range s.out.Left {
		i := s.named(left.Name)
		if left.Name == "" {
			i = s.likeliest(func(quota.Limit) bool { return true })
		}
		if i >= 0 {
			s.compareLimit(s.usage.Limits[i], left, time.Time{})
		}
	}
	if _, known := s.profile.Limits[s.out.Limit]; known && s.out.Changed && s.out.Class == Day && !s.out.hourly {
		s.compareLimit(s.usage.Limits[s.credential.Index(s.out.Limit)], Left{}, s.out.Closed.Until)
	}
}

// compareLimit compares our count of a limit with what the upstream says, or with the whole of it
// if it is exhausted until a time and the answer has no number.
func (s *observing) compareLimit(limit quota.LimitState, left Left, until time.Time) {
	d := s.observer.Drifts(s.credential.Name)[limit.Name]
	isNumbered := d.At.Equal(s.usage.Now) && d.Theirs.Known
	if d.Over(s.usage.Now) {
		d = Drift{Says: d.Says}
	}
	d.At, d.Until, d.Cause = s.usage.Now, until, ""
	if left.Limit.Known {
		d.Says = left.Limit
	}
	if !until.IsZero() {
		left.Used = Known(cmp.Or(d.Says.Units, limit.Units))
		if isNumbered || float64(left.Used.Units-limit.Used) < roomAbove*float64(left.Used.Units) {
			return
		}
	}
	if spent := left.spent(limit.Units); spent.Known {
		d.Ours, d.Theirs = Known(limit.Used), spent
	}
	more := quota.Units(-d.By())
	switch {
	case d.Says.Known && d.Says.Units != limit.Units:
		d.Cause = fmt.Sprintf("the upstream's limit is %s, not %s: set units to it", d.Says.Units.Text(), quota.Thousands(limit.Units))
	case !until.IsZero():
		d.Cause = fmt.Sprintf("exhausted at %s of our %s: another program has spent some %s",
			quota.Thousands(limit.Used), quota.Thousands(limit.Units), quota.Thousands(rounded(more)))
	case float64(more) > farAbove*float64(limit.Units):
		d.Cause = fmt.Sprintf("the upstream counts %s more: a caller spends without asking, or an operation costs more than is configured", more.Text())
	}
	s.observer.setDrift(s.credential.Name, limit.Name, d)
}

// spent returns what the upstream counts of a limit that has units by our configuration.
func (l Left) spent(units quota.Units) Amount {
	switch {
	case l.Used.Known:
		return l.Used
	case l.Remaining.Known && l.Limit.Known:
		units = l.Limit.Units
	case !l.Remaining.Known:
		return Amount{}
	}
	return Known(max(0, units-l.Remaining.Units))
}

// rounded returns units to two digits.
func rounded(units quota.Units) quota.Units {
	step := quota.Units(1)
	for units/step >= 100 {
		step *= 10
	}
	return (units + step/2) / step * step
}

func (o *Observer) setDrift(credential, limit string, d Drift) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.drifts[credential] == nil {
		o.drifts[credential] = make(map[string]Drift)
	}
	o.drifts[credential][limit] = d
}
