package jobs

import (
	"slices"
	"time"

	"quotad/quota"
)

const (
	mostForeseen = 300_000 // passes
	mostRuns     = 100     // that are told one by one
)

// A forecast is a plan in the making.
type forecast struct {
	plan    *Plan
	players []*player
	books   []*quota.Simulation
}

// newForecast returns a forecast of which nothing is played yet.
func newForecast(o Outset, until time.Time) *forecast {
	f := &forecast{books: o.Books, plan: &Plan{From: o.From, Until: until, Limits: []LimitPlan{}, Jobs: []JobPlan{}, Runs: []RunPlan{}}}
	list := make([]*Job, len(o.Jobs))
	for i, p := range o.Jobs {
		list[i] = p.Job
	}
	credentials := make([]*quota.Credential, len(o.Books))
	for i, book := range o.Books {
		credentials[i] = book.Credential
	}
	verdicts := Judge(list, credentials, o.From)
	for _, book := range o.Books {
		used := book.Used(o.From)
		for i, limit := range book.Credential.Limits {
			_, resets := limit.Window.Bounds(o.From)
			f.plan.Limits = append(f.plan.Limits, LimitPlan{
				Verdict: verdicts[len(f.plan.Limits)], Used: used[i], Peak: used[i],
				ResetsAt: resets.UTC(), Hours: hours(o.From, until),
			})
		}
	}
	for _, p := range o.Jobs {
		f.enter(p)
	}
	return f
}

// hours returns the hours from one instant until another, empty.
func hours(from, until time.Time) []HourPlan {
	list := []HourPlan{}
	for at := from.UTC().Truncate(time.Hour); at.Before(until); at = at.Add(time.Hour) {
		list = append(list, HourPlan{At: at, Jobs: map[string]quota.Units{}})
	}
	return list
}

// enter makes a job one of those that are played.
func (f *forecast) enter(at Prospect) {
	book, charges := f.price(at.Job)
	if len(charges) == 0 {
		f.plan.Unknown = append(f.plan.Unknown, at.Job.Name)
		return
	}
	j := JobPlan{
		Job: at.Job.Name, Credential: at.Job.Credential, Paused: at.Pause.active(f.plan.From), Spent: map[string]quota.Units{},
		MostRegions: f.mostRegions(at.Job.Name),
	}
	for _, region := range at.Job.Regions {
		j.Regions = append(j.Regions, RegionPlan{Region: region})
	}
	if at.course != nil {
		course := *at.course
		at.course = &course
	}
	p := &player{Prospect: at, book: book, charges: charges, told: -1, index: len(f.plan.Jobs)}
	p.await(f.plan.From)
	f.plan.Jobs = append(f.plan.Jobs, j)
	f.players = append(f.players, p)
}

// price returns the books that a job spends from, and what one pass of it costs.
func (f *forecast) price(job *Job) (*quota.Simulation, []quota.Charge) {
	i := slices.IndexFunc(f.books, func(b *quota.Simulation) bool { return b.Credential.Name == job.Credential })
	if i < 0 {
		return nil, nil
	}
	charges, err := f.books[i].Credential.Sum(job.Expects)
	if err != nil {
		return nil, nil // the gate would refuse it for ever, and the configuration says so
	}
	return f.books[i], charges
}

// mostRegions returns the least of a job's shares' own.
func (f *forecast) mostRegions(job string) int {
	least := -1
	for _, limit := range f.plan.Limits {
		for _, share := range limit.Shares {
			if share.Job == job && (least < 0 || share.MostRegions < least) {
				least = share.MostRegions
			}
		}
	}
	return max(0, least)
}

// play plays one pass after the other.
func (f *forecast) play() {
	for n := 0; ; n++ {
		p := f.first()
		if p == nil || !p.next.Before(f.plan.Until) {
			return
		}
		if n == mostForeseen {
			f.cut(p.next)
			return
		}
		f.pass(p)
	}
}

// first returns whose pass comes first; nil if none comes.
func (f *forecast) first() *player {
	var first *player
	for _, p := range f.players {
		if !p.next.IsZero() && (first == nil || p.next.Before(first.next)) {
			first = p
		}
	}
	return first
}

// cut ends the plan early.
func (f *forecast) cut(until time.Time) {
	f.plan.Cut, f.plan.Until = true, until
	for i := range f.plan.Limits {
		l := &f.plan.Limits[i]
		l.Hours = slices.DeleteFunc(l.Hours, func(h HourPlan) bool { return !h.At.Before(until) })
	}
}

// pass plays the next pass of a job: it is launched, or it stops its run.
func (f *forecast) pass(p *player) {
	if p.course == nil {
		p.begin()
		f.plan.Jobs[p.index].Runs++
		f.tell(p)
	}
	at, region := p.next, p.course.ring[p.course.begun]
	d := p.book.Spend(at, p.charges)
	f.note(p, at, d)
	if !d.Granted() {
		f.stop(p, at, d)
		return
	}
	f.plan.Passes++
	f.plan.Jobs[p.index].Passes++
	f.region(p, region).Passes++
	if run := f.told(p); run != nil {
		run.Served = append(run.Served, region)
	}
	p.launched(at)
}
