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
	frees      [][]float64        // what leaves a sliding window in each coming step, by limit
	by         map[string][]spent // each caller, by limit
}

// A spent is what calls cost in the last day.
type spent struct {
	day, hour, minute float64 // in all, in the last hour, and in the last minute
	least             float64 // the cheapest in the last hour; 0: there was none
}

func (s *spent) add(more spent) {
	s.day, s.hour, s.minute = s.day+more.day, s.hour+more.hour, s.minute+more.minute
	if s.least == 0 || more.least > 0 && more.least < s.least {
		s.least = more.least
	}
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
	p := &past{credential: c, usage: usage, frees: make([][]float64, len(usage.Limits)), by: map[string][]spent{}}
	since := usage.Now.Add(-day)
	for i, l := range usage.Limits {
		p.frees[i] = make([]float64, steps)
		if after, _ := l.Window.Bounds(usage.Now); after.Before(since) {
			since = after
		}
	}
	read, oldest, held := 0, usage.Now, make([]quota.Units, len(usage.Limits))
	err = service.Walk(ctx, c.Name, since, func(e quota.Entry) bool {
		if at := e.At; !at.After(usage.Now) { // a later one is not in the usage
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
			units, _ := quota.ChargeIn(e.Charges, l.Name)
			held[i] += units
			if step := int((l.Window.Length - age) / step); step < steps {
				p.frees[i][step] += float64(units)
			}
		}
		called, _ := quota.ChargeIn(e.Charges, l.Name)
		cost := float64(called)
		if _, isGrant := e.Grant(); !isGrant || cost == 0 || age >= day {
			continue
		}
		one := spent{day: cost}
		if age < time.Hour {
			one.hour, one.least = cost, cost
		}
		if age < time.Minute {
			one.minute = cost
		}
		if p.by[e.By] == nil {
			p.by[e.By] = make([]spent, len(p.usage.Limits))
		}
		p.by[e.By][i].add(one)
	}
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
func (p *past) sum(limit int, whose func(string) bool) (all spent) {
	for name, each := range p.by {
		if whose(name) {
			all.add(each[limit])
		}
	}
	return all
}

// lately returns what was spent in the last minute, and whether that counts: only if a noticeable part of a limit was
// spent in the last hour. Else it is 0.
func (p *past) lately(limit int, s spent) (units float64, counts bool) {
	if s.hour < noticeable*float64(p.usage.Limits[limit].Units) {
		return 0, false
	}
	return s.minute, true
}

// greatest returns which caller spends most of a limit, and how much in an hour: as in the last one or, if that is
// more and that counts, as in the last minute.
func (p *past) greatest(limit int, minuteCounts bool, whose func(string) bool) (spender string, most float64) {
	for by, each := range p.by {
		rate := each[limit].hour
		if minuteCounts {
			rate = max(rate, 60*each[limit].minute)
		}
		if whose(by) && (rate > most || rate == most && by < spender) {
			spender, most = by, rate
		}
	}
	return spender, most
}
