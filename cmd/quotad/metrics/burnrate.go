package metrics

import (
	"math"
	"time"

	"quotad/quota"
)

// rateSpan is how far back the use of a limit is looked at, and rateStep how far
// apart what was seen of it lies: cron jobs spend in bursts.
const (
	rateSpan = time.Hour
	rateStep = time.Minute
)

// A burnRate is what was seen of a limit's use, oldest first.
type burnRate struct {
	seen []sample
	last quota.Units // that were used at the last look
}

type sample struct {
	at   time.Time
	used quota.Units
}

// exhaustion takes in the state of a limit at now, and returns in how many
// seconds nothing remains of it; false until it was seen for some time.
func (p *burnRate) exhaustion(limit quota.LimitState, now time.Time) (seconds float64, known bool) {
	begin, end := limit.Window.Bounds(now)
	if limit.Used < p.last/2 { // a reset, or a burst has left the window: what was before says nothing of the rise
		p.seen = nil
	}
	p.last = limit.Used
	for len(p.seen) > 0 && (now.Sub(p.seen[0].at) > rateSpan || !p.seen[0].at.After(begin)) {
		p.seen = p.seen[1:]
	}
	first := sample{now, limit.Used}
	if len(p.seen) > 0 {
		first = p.seen[0]
	}
	if len(p.seen) == 0 || now.Sub(p.seen[len(p.seen)-1].at) >= rateStep {
		p.seen = append(p.seen, sample{now, limit.Used})
	}
	elapsed := now.Sub(first.at)
	switch rise := limit.Used - first.used; {
	case !limit.Refuses():
		return math.Inf(1), true
	case limit.Remaining() == 0:
		return 0, true
	case elapsed < rateStep:
		return 0, false
	case rise <= 0:
		return math.Inf(1), true
	default:
		seconds = float64(limit.Remaining()) / (float64(rise) / elapsed.Seconds())
	}
	if !end.IsZero() && seconds > end.Sub(now).Seconds() {
		return math.Inf(1), true
	}
	return seconds, true
}
