package upstream

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"quotad/quota"
)

// limit returns the limit that is meant: the one that the upstream names, or that has the size it names; else the
// likeliest, which for a day's is one of an hour or more, and for a minute's a shorter one if there is any; nil if
// there is none. One that is closed already is meant all the same: a call that counts against it now was sent before
// it was closed, and says nothing of a wider one. For a remote caller with shares it is the narrowest of them.
func (s *observing) limit(by quota.Caller) *quota.LimitState {
	l := s.named(s.out.Names...)
	for _, left := range slices.Backward(s.out.Left) { // of a list of numbers the longest limit stands last
		if left.Remaining == Known(0) {
			l = cmp.Or(l, s.named(left.Name), s.sized(left))
		}
	}
	isLong := func(limit quota.Limit) bool { return limit.Window.Span() >= time.Hour }
	if s.out.Class != Day && s.out.Class != Billing {
		l = cmp.Or(l, s.likeliest(func(limit quota.Limit) bool {
			// A rate without a time is one of a minute at least, which a limit of a second is too short for.
			return !isLong(limit) && (!s.out.Reset.IsZero() || limit.Window.Span() >= shortClosing)
		}))
	}
	l = cmp.Or(l, s.likeliest(isLong))
	if l == nil || by.Remote == "" {
		return l
	}
	return cmp.Or(s.narrowest(func(limit quota.Limit) bool { return slices.Contains(limit.Jobs, by.By()) }), l)
}

// named returns the limit that the upstream calls by one of the names; nil if there is none.
func (s *observing) named(names ...string) *quota.LimitState {
	for _, name := range names {
		isName := func(own string) bool { return strings.EqualFold(own, name) }
		for i, limit := range s.usage.Limits {
			if slices.ContainsFunc(s.profile.Limits[limit.Name].Names, isName) {
				return &s.usage.Limits[i]
			}
		}
	}
	return nil
}

// sized returns the limit that has the size which the upstream says; nil if there is none.
func (s *observing) sized(left Left) *quota.LimitState {
	return s.likeliest(func(limit quota.Limit) bool { return Known(limit.Units) == left.Limit })
}

// likeliest returns which of the limits that may be meant an answer without a name is about; nil if there is none. It
// is no share: the upstream knows nothing of one.
func (s *observing) likeliest(may func(quota.Limit) bool) *quota.LimitState {
	return s.narrowest(func(limit quota.Limit) bool { return !limit.IsShare() && may(limit) })
}

// narrowest returns which of the limits that may be meant, and count the operation, comes first: one that the profile
// knows before a cap of ours, then the one that counts fewer operations, then the one that has room for fewer calls.
func (s *observing) narrowest(may func(quota.Limit) bool) (first *quota.LimitState) {
	rank := func(limit quota.Limit) []int {
		counted, ofUpstream := 0, 1
		for operation, cost := range s.credential.Operations {
			if cost.In(limit, operation) > 0 {
				counted++
			}
		}
		if _, known := s.profile.Limits[limit.Name]; known {
			ofUpstream = 0
		}
		return []int{ofUpstream, counted, int(limit.Units / s.cost(limit))}
	}
	for i := range s.usage.Limits {
		if l := &s.usage.Limits[i]; s.cost(l.Limit) > 0 && may(l.Limit) &&
			(first == nil || slices.Compare(rank(l.Limit), rank(first.Limit)) < 0) {
			first = l
		}
	}
	return first
}

// cost is what the operation costs in a limit.
func (s *observing) cost(limit quota.Limit) quota.Units {
	return s.credential.Operations[s.out.Operation].In(limit, s.out.Operation)
}

// count compares what the upstream says is left with our own count. What has no name is about the limit of its size, or
// else about the likeliest that counts the operation.
func (s *observing) count(ctx context.Context) (err error) {
	for _, left := range s.out.Left {
		limit := s.named(left.Name)
		if left.Name == "" {
			if limit = s.sized(left); limit == nil && len(s.out.Left) == 1 {
				limit = s.likeliest(func(quota.Limit) bool { return true })
			}
		}
		if limit == nil {
			continue
		}
		c := Count{Ours: limit.Used, Theirs: left.Used, Size: left.Limit}
		if left.Remaining.Known && !left.Used.Known {
			c.Theirs = Known(max(0, cmp.Or(left.Limit.Units, limit.Units)-left.Remaining.Units))
		}
		of := ofLimit{s.credential.Name, limit.Name}
		s.observer.mu.Lock()
		s.observer.counts[of] = c
		begins := s.out.Class == OK && !s.observer.begun[of] // else it is closed
		s.observer.begun[of] = s.observer.begun[of] || begins
		s.observer.mu.Unlock()
		if begins {
			err = cmp.Or(s.begin(ctx, of, c.Theirs.Units-c.Ours), err)
		}
	}
	return err
}

const (
	firstDay   = 24 * time.Hour // of a log: what the upstream counts more then was spent before
	beforeNote = "before quotad"
)

// begin books what the upstream counts more than we do, once, on the first day of a log.
func (s *observing) begin(ctx context.Context, of ofLimit, more quota.Units) error {
	service := s.observer.service
	first, err := service.Log(ctx, of.credential, quota.LogQuery{Max: 1})
	isNew := more > 0 && (len(first.Entries) == 0 || s.usage.Now.Sub(first.Entries[0].At) < firstDay)
	if err == nil && isNew {
		err = service.Walk(ctx, of.credential, time.Time{}, func(e quota.Entry) bool {
			_, counted := quota.ChargeIn(e.Charges, of.limit)
			isNew = !counted || e.Note != beforeNote
			return isNew
		})
	}
	if err == nil && isNew {
		_, err = service.Book(ctx, of.credential, quota.Booking{Limit: of.limit, Units: more, Note: beforeNote})
		s.out.Before = more.Text() + " of " + of.limit
	}
	if err != nil {
		s.observer.mu.Lock()
		delete(s.observer.begun, of)
		s.observer.mu.Unlock()
	}
	return err
}
