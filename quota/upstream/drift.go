package upstream

import (
	"context"
	"fmt"
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

// Units that we count more than the upstream does; less than zero: fewer.
func (d Drift) By() int64 {
	if !d.Theirs.Known {
		return 0
	}
	return int64(d.Ours.Units - d.Theirs.Units)
}

// How far our count may be from the upstream's before people are told, and how near it
// must be before they are told again.
const (
	farAbove  = 0.05
	nearBelow = 0.025
)

// recount is how long a count of ours that takes a look at the log is left alone.
const recount = 10 * time.Second

// Drifts returns what is known of a credential's limits, by their names.
func (o *Observer) Drifts(credential string) map[string]Drift {
	o.mu.Lock()
	defer o.mu.Unlock()
	drifts := make(map[string]Drift, len(o.drifts[credential]))
	for name, d := range o.drifts[credential] {
		drifts[name] = d
	}
	return drifts
}

// Grants returns how much the upstream is known to grant of a limit, and who says so: the
// upstream itself, or a preset where no more than that is configured.
func (o *Observer) Grants(credential string, limit quota.Limit) (units quota.Units, source string, known bool) {
	if d := o.drift(credential, limit.Name); d.Says.Known {
		return d.Says.Units, "it said at " + d.At.UTC().Format(time.RFC3339), true
	}
	of := o.profile(credential).Limits[limit.Name]
	if of.Units < limit.Units {
		return 0, "", false
	}
	return of.Units, of.Source + " says", true
}

// compare sets what the upstream says is left beside our own count.
func (s *subject) compare(ctx context.Context) error {
	for _, left := range s.out.Left {
		i := s.concerned(left)
		if i < 0 {
			continue
		}
		d, was, err := s.drift(ctx, i, left)
		if err != nil {
			return err
		}
		if d.Far != was.Far {
			s.out.Drifts = append(s.out.Drifts, d)
		}
	}
	return nil
}

// concerned returns the limit that something is said of. What has no name is said of the
// likeliest one that counts the operation.
func (s *subject) concerned(left Left) int {
	if left.Name != "" {
		return s.named([]string{left.Name})
	}
	return s.likeliest(func(quota.Limit) bool { return true })
}

// drift takes in what is said of limit i, and returns that and what was known before.
func (s *subject) drift(ctx context.Context, i int, left Left) (d, was Drift, err error) {
	limit := s.usage.Limits[i]
	was = s.observer.drift(s.credential.Name, limit.Name)
	d = Drift{
		Credential: s.credential.Name, Limit: limit.Name, At: s.usage.Now, Units: limit.Units,
		Says: left.Limit, Theirs: left.spent(limit.Units), Cause: was.Cause, Far: was.Far,
	}
	if d.Theirs.Known {
		if d.Ours, err = s.ours(ctx, limit, was); err != nil {
			return d, was, err
		}
	}
	if !d.Says.Known {
		d.Says = was.Says
	}
	if !d.Theirs.Known {
		d.Ours, d.Theirs = was.Ours, was.Theirs
	}
	d.judge(limit, s.profile.Limits[limit.Name])
	s.observer.keep(d)
	return d, was, nil
}

// spent returns what the upstream counts of a limit of so many units.
func (l Left) spent(units quota.Units) Amount {
	switch {
	case l.Used.Known:
		return l.Used
	case l.Remaining.Known && l.Limit.Known:
		return Known(max(0, l.Limit.Units-l.Remaining.Units))
	case l.Remaining.Known:
		return Known(max(0, units-l.Remaining.Units))
	}
	return Amount{}
}

// ours returns what we count since the upstream's window began. Where that is not the
// limit's own window, the log tells.
func (s *subject) ours(ctx context.Context, limit quota.LimitState, was Drift) (Amount, error) {
	resets := s.profile.Limits[limit.Name].Resets
	if !resets.IsCalendar() || resets == limit.Window {
		return Known(limit.Used), nil
	}
	if was.Ours.Known && s.usage.Now.Sub(was.At) < recount {
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

// judge says whether the drift is far, and why that probably is so.
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

func (o *Observer) drift(credential, limit string) Drift {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.drifts[credential][limit]
}

func (o *Observer) keep(d Drift) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.drifts[d.Credential] == nil {
		o.drifts[d.Credential] = make(map[string]Drift)
	}
	o.drifts[d.Credential][d.Limit] = d
}
