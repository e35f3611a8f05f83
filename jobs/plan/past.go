package plan

import (
	"context"
	"strings"
	"time"

	"quotad/quota"
)

// maxRead bounds the entries that are read of a log, the newest ones.
const maxRead = 100_000

// A past is what the log of a credential says of the time until now.
type past struct {
	credential *quota.Credential
	usage      quota.Usage
	frees      [][]float64          // what leaves a sliding window in each coming step, by limit
	day        map[string][]float64 // what calls cost, by caller and limit: in the last day,
	hour       map[string][]float64 // in the last hour,
	minute     map[string][]float64 // and in the last minute
	least      map[string][]float64 // the cheapest in the last hour; 0: there was none
}

// isOutside returns whether a caller is no job: a user or a remote caller.
func isOutside(by string) bool {
	return by == "" || strings.HasPrefix(by, "@") || strings.HasPrefix(by, quota.RemotePrefix)
}

// readPast reads the log of a credential. The error is the ledger's.
func readPast(ctx context.Context, service *quota.Service, c *quota.Credential) (*past, error) {
	usage, err := service.Usage(ctx, c.Name)
	if err != nil {
		return nil, err
	}
	p := &past{
		credential: c, usage: usage, frees: make([][]float64, len(usage.Limits)),
		day: map[string][]float64{}, hour: map[string][]float64{}, minute: map[string][]float64{}, least: map[string][]float64{},
	}
	since := usage.Now.Add(-day)
	for i, l := range usage.Limits {
		p.frees[i] = make([]float64, steps)
		if after, _ := l.Window.Bounds(usage.Now); after.Before(since) {
			since = after
		}
	}
	read, oldest, held := 0, usage.Now, make([]quota.Units, len(usage.Limits))
	err = service.Walk(ctx, c.Name, since, func(e quota.Entry) bool {
		if at := e.ID.Time(); !at.After(usage.Now) { // a later one is not in the usage
			p.add(&e, at, held)
			oldest = at
			read++
		}
		return read < maxRead
	})
	p.spread(held, oldest)
	return p, err
}

// add adds an entry, and what it holds.
func (p *past) add(e *quota.Entry, at time.Time, held []quota.Units) {
	age := p.usage.Now.Sub(at)
	for i, l := range p.usage.Limits {
		if after, _ := l.Window.Bounds(p.usage.Now); at.After(after) && !l.Window.Restarts() {
			units := e.UnitsIn(p.credential, i)
			held[i] += units
			if step := int((l.Window.Length - age) / step); step < steps {
				p.frees[i][step] += float64(units)
			}
		}
		cost := float64(e.CalledIn(p.credential, i))
		if cost == 0 || age >= day {
			continue
		}
		*p.at(p.day, e.By, i) += cost
		if age < time.Hour {
			*p.at(p.hour, e.By, i) += cost
			if least := p.at(p.least, e.By, i); *least == 0 || cost < *least {
				*least = cost
			}
		}
		if age < time.Minute {
			*p.at(p.minute, e.By, i) += cost
		}
	}
}

// at returns the figure of a caller and limit.
func (p *past) at(by map[string][]float64, caller string, limit int) *float64 {
	if by[caller] == nil {
		by[caller] = make([]float64, len(p.usage.Limits))
	}
	return &by[caller][limit]
}

// spread lets what was not read leave its window evenly, until the oldest entry does that was read.
func (p *past) spread(held []quota.Units, oldest time.Time) {
	for i, l := range p.usage.Limits {
		missing := float64(l.Used - held[i])
		if l.Window.Restarts() || missing <= 0 {
			continue
		}
		n := max(1, int((l.Window.Length-p.usage.Now.Sub(oldest))/step))
		for s := range min(n, steps) {
			p.frees[i][s] += missing / float64(n)
		}
	}
}

// sum adds up what callers spent of a limit.
func sum(by map[string][]float64, limit int, whose func(string) bool) (units float64) {
	for name, spent := range by {
		if whose(name) {
			units += spent[limit]
		}
	}
	return units
}

// lately returns what was spent in the last minute, nothing if callers did not spend a noticeable part of a limit in the
// last hour.
func (p *past) lately(limit int, whose func(string) bool) map[string][]float64 {
	if sum(p.hour, limit, whose) < noticeable*float64(p.usage.Limits[limit].Total()) {
		return nil
	}
	return p.minute
}

// greatest returns which caller spends most of a limit, and how much in an hour: as in the last one or, if that is
// more, as lately.
func (p *past) greatest(limit int, lately map[string][]float64, whose func(string) bool) (spender string, most float64) {
	for by, hour := range p.hour {
		rate := hour[limit]
		if minute := lately[by]; minute != nil {
			rate = max(rate, 60*minute[limit])
		}
		if whose(by) && (rate > most || rate == most && by < spender) {
			spender, most = by, rate
		}
	}
	return spender, most
}

// cheapest returns what the cheapest call of callers cost in the last hour; 0 if there was none.
func (p *past) cheapest(limit int, whose func(string) bool) (least float64) {
	for name, costs := range p.least {
		if cost := costs[limit]; cost > 0 && whose(name) && (least == 0 || cost < least) {
			least = cost
		}
	}
	return least
}
