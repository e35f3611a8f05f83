package upstream

import (
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
	Cause string // in words, of one that is Far
}

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
// about the likeliest limit that counts the operation.
func (s *observation) compare(ctx context.Context) error {
	for _, left := range s.out.Left {
		i := s.named(left.Name)
		if left.Name == "" {
			i = s.likeliest(func(quota.Limit) bool { return true })
		}
		if i < 0 {
			continue
		}
		was := s.observer.Drifts(s.credential.Name)[s.usage.Limits[i].Name]
		d, err := s.drift(ctx, s.usage.Limits[i], left, was)
		if err != nil {
			return err
		}
		s.observer.setDrift(d)
		if d.Far != was.Far {
			s.out.Drifts = append(s.out.Drifts, d)
		}
	}
	return nil
}

// drift returns the drift of a limit by what is said now, and by what was known before.
func (s *observation) drift(ctx context.Context, limit quota.LimitState, left Left, was Drift) (Drift, error) {
	d := was
	d.Credential, d.Limit, d.At, d.Units = s.credential.Name, limit.Name, s.usage.Now, limit.Units
	if left.Limit.Known {
		d.Says = left.Limit
	}
	if spent := left.spent(limit.Units); spent.Known {
		ours, err := s.ours(ctx, limit, was)
		if err != nil {
			return d, err
		}
		d.Ours, d.Theirs = ours, spent
	}
	d.judge(limit, s.profile.Limits[limit.Name])
	return d, nil
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
	case counts && d.By() < 0:
		d.Cause = fmt.Sprintf("the upstream counts %s more: a caller spends without asking, or an operation costs more than is configured", quota.Units(-d.By()).Text())
	case counts && known.Resets.IsCalendar() && !limit.Window.IsCalendar():
		d.Cause = fmt.Sprintf("we count %s more since the upstream's reset: calls that were granted and never made, or an operation costs less than is configured", quota.Units(d.By()).Text())
	case counts:
		d.Cause = fmt.Sprintf("we count %s more: calls that were granted and never made, an operation that costs less than is configured, or another window than the upstream's", quota.Units(d.By()).Text())
	}
}

func (o *Observer) setDrift(d Drift) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.drifts[d.Credential] == nil {
		o.drifts[d.Credential] = make(map[string]Drift)
	}
	o.drifts[d.Credential][d.Limit] = d
}
