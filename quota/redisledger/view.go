package redisledger

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"quotad/quota"
)

// A view is what decides how the log of a credential is counted: its limits' names and
// windows, what operations cost in them, and the jobs that they count. Hosts that agree on it share what they count.
type view struct {
	credential *quota.Credential
	limits     []quota.Limit // as they were
	digest     string        // 8 characters
	prices     []any         // per limit, ",videos.list=1,search.list=100", and the jobs: ";+,backfill," or ";-,trending,"
	keys       []string      // with which the scripts are called
}

func newView(c *quota.Credential) *view {
	v := &view{credential: c, limits: slices.Clone(c.Limits)}
	hash := sha256.New()
	for _, limit := range c.Limits {
		var list strings.Builder
		for _, operation := range slices.Sorted(maps.Keys(c.Operations)) {
			if units := c.Operations[operation].In(limit, operation); units > 0 {
				fmt.Fprintf(&list, ",%s=%d", word(operation), units)
			}
		}
		list.WriteString(jobsText(limit))
		v.prices = append(v.prices, list.String())
		fmt.Fprintf(hash, "%s %s %s\n", limit.Name, limit.Window, list.String())
	}
	v.digest = base64.RawURLEncoding.EncodeToString(hash.Sum(nil))[:8]
	return v
}

// jobsText says whose calls a limit counts: those of jobs, or of all but some; nothing
// where it counts everybody's.
func jobsText(limit quota.Limit) string {
	sign, names := ";+,", limit.Jobs
	switch {
	case !limit.IsShare():
		return ""
	case len(names) == 0:
		sign, names = ";-,", limit.ExceptJobs
	}
	return sign + strings.Join(slices.Sorted(slices.Values(names)), ",") + ","
}

// viewOf returns the view of a credential, whose costs do not change while it is in use.
func (l *Ledger) viewOf(c *quota.Credential) *view {
	if found, ok := l.views.Load(c.Name); ok && found.(*view).is(c) {
		return found.(*view)
	}
	v := newView(c)
	v.keys = l.keys(c.Name, v.digest)
	l.views.Store(c.Name, v)
	return v
}

// always is later than any ms of a clock.
const always = float64(quota.MaxUnits)

// packed returns for each limit the length of a sliding window in ms, or 0, start and end
// of the calendar period, the ms from which on it refuses nothing (0 of one that only
// observes), and its name.
func (v *view) packed(c *quota.Credential, now time.Time) []byte {
	var b []byte
	for _, limit := range c.Limits {
		var length, starts, ends int64
		refuses := always
		switch lifts := limit.LiftsAt(now); {
		case limit.Observe:
			refuses = 0
		case !lifts.IsZero():
			refuses = float64(lifts.UnixMilli())
		}
		if limit.Window.IsCalendar() {
			after, end := limit.Window.Bounds(now)
			starts, ends = after.UnixMilli()+1, end.UnixMilli()
		} else {
			length = limit.Window.Length.Milliseconds()
		}
		b = append(b, packed([]float64{float64(length), float64(starts), float64(ends), refuses})...)
		b = append(append(b, byte(len(limit.Name))), limit.Name...)
	}
	return b
}

func (v *view) is(c *quota.Credential) bool {
	return v.credential == c && slices.EqualFunc(v.limits, c.Limits, func(a, b quota.Limit) bool {
		return a.Name == b.Name && a.Window == b.Window && slices.Equal(a.Only, b.Only) &&
			slices.Equal(a.Jobs, b.Jobs) && slices.Equal(a.ExceptJobs, b.ExceptJobs)
	})
}
