package upstream

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"time"

	"quotad/quota"
)

// A Drift is how our count of a limit compares with what the upstream said last.
type Drift struct {
	Credential, Limit string
	At                time.Time   // when it said so
	Units             quota.Units // of the limit, as configured
	// Says is how large the upstream says that the limit is.
	Says Amount
	// Ours is what we count since the upstream's window began, Theirs what it counts.
	// Known only where it said so.
	Ours, Theirs Amount
	// Far is whether the two are more than 5 % of the limit apart, or its size differs.
	Far   bool
	Cause string // in words, of one that is Far, or that has an Until
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

// A drift begins where the counts are farAbove of the limit apart, and ends where they are
// within nearBelow, so that one near the bound is not reported again and again.
const (
	farAbove  = 0.05
	nearBelow = 0.025
	roomAbove = 0.01 // of a limit that the upstream calls exhausted: what is less may be calls under way
)

// recountAfter is how long a count of ours that needs the log is used again.
const recountAfter = 10 * time.Second

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
func (s *observation) compare(ctx context.Context) error {
	for _, left := range s.out.Left {
		i := s.named(left.Name)
		if left.Name == "" {
			i = s.likeliest(func(quota.Limit) bool { return true })
		}
		if i >= 0 {
			if err := s.compareLimit(ctx, s.usage.Limits[i], left, time.Time{}); err != nil {
				return err
			}
		}
	}
	if _, known := s.profile.Limits[s.out.Limit]; !known || !s.out.Changed || s.out.Class != Day || s.out.hourly {
		return nil
	}
	return s.compareLimit(ctx, s.usage.Limits[s.credential.Index(s.out.Limit)], Left{}, s.out.Closed.Until)
}

// compareLimit compares our count of a limit with what the upstream says, or with the whole of it
// if it is exhausted until a time and the answer has no number.
func (s *observation) compareLimit(ctx context.Context, limit quota.LimitState, left Left, until time.Time) error {
	was := s.observer.Drifts(s.credential.Name)[limit.Name]
	if was.Over(s.usage.Now) {
		was = Drift{Says: was.Says}
	}
	d, exhausted := was, !until.IsZero()
	d.Credential, d.Limit, d.At, d.Units, d.Until = s.credential.Name, limit.Name, s.usage.Now, limit.Units, until
	if left.Limit.Known {
		d.Says = left.Limit
	}
	if exhausted {
		if was.At.Equal(d.At) && was.Theirs.Known {
			return nil
		}
		left.Used = Known(cmp.Or(was.Says.Units, limit.Units))
	}
	if spent := left.spent(limit.Units); spent.Known {
		ours, err := s.ours(ctx, limit, was)
		if err != nil {
			return err
		}
		d.Ours, d.Theirs = ours, spent
	}
	if exhausted && float64(-d.By()) < roomAbove*float64(left.Used.Units) {
		return nil
	}
	d.judge(limit, s.profile.Limits[limit.Name])
	s.observer.setDrift(d)
	return nil
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

// ours returns what we count since the upstream's window began. It reads the log where that is
// not the limit's own window.
func (s *observation) ours(ctx context.Context, limit quota.LimitState, was Drift) (Amount, error) {
	resets := s.profile.Limits[limit.Name].Resets
	if !resets.IsCalendar() || resets == limit.Window {
		return Known(limit.Used), nil
	}
	if was.Ours.Known && s.usage.Now.Sub(was.At) < recountAfter {
		return was.Ours, nil
	}
	after, _ := resets.Bounds(s.usage.Now)
	i, sum := s.credential.Index(limit.Name), quota.Units(0)
	err := s.observer.service.Walk(ctx, s.credential.Name, after, func(e quota.Entry) bool {
		if e.ID.Time().After(after) {
			sum = min(quota.MaxUnits, sum+e.UnitsIn(s.credential, i))
		}
		return true
	})
	return Known(sum), err
}

// judge decides whether the drift is far, and names the probable cause.
func (d *Drift) judge(limit quota.LimitState, known Limit) {
	apart := math.Abs(float64(d.By())) / float64(d.Units)
	counts := apart > farAbove || d.Far && apart > nearBelow
	size := d.Says.Known && d.Says.Units != d.Units
	d.Far, d.Cause = counts || size, ""
	switch {
	case size:
		d.Cause = fmt.Sprintf("the upstream's limit is %s, not %s: set units to it", d.Says.Units.Text(), quota.Thousands(d.Units))
	case !d.Until.IsZero():
		d.Cause = fmt.Sprintf("exhausted at %s of our %s: another program has spent some %s",
			quota.Thousands(d.Ours.Units), quota.Thousands(d.Units), quota.Thousands(rounded(quota.Units(-d.By()))))
	case counts && d.By() < 0:
		d.Cause = fmt.Sprintf("the upstream counts %s more: a caller spends without asking, or an operation costs more than is configured", quota.Units(-d.By()).Text())
	case counts && known.Resets.IsCalendar() && !limit.Window.IsCalendar():
		d.Cause = fmt.Sprintf("we count %s more since the upstream's reset: calls that were granted and never made, or an operation costs less than is configured", quota.Units(d.By()).Text())
	case counts:
		d.Cause = fmt.Sprintf("we count %s more: calls that were granted and never made, an operation that costs less than is configured, or another window than the upstream's", quota.Units(d.By()).Text())
	}
}

// rounded returns units to two digits.
func rounded(units quota.Units) quota.Units {
	step := quota.Units(1)
	for units/step >= 100 {
		step *= 10
	}
	return (units + step/2) / step * step
}

func (o *Observer) setDrift(d Drift) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.drifts[d.Credential] == nil {
		o.drifts[d.Credential] = make(map[string]Drift)
	}
	o.drifts[d.Credential][d.Limit] = d
}
