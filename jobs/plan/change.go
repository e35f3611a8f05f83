package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"quotad/jobs"
	"quotad/quota"
)

// A Change is one change of the configuration that makes a schedule fit a limit.
type Change struct {
	Key       string      `json:"key"`                 // that changes: "regions", "expects", "every" or "reserve"
	Job       string      `json:"job,omitempty"`       // whose; empty of the limit's reserve
	Operation string      `json:"operation,omitempty"` // that a pass is to expect less of
	From      string      `json:"from"`                // as the file has it; of regions how many
	To        string      `json:"to"`
	GivesUp   quota.Units `json:"gives_up"` // in a window: what the schedule asks for less, or what is reserved less
}

// String returns the change in words: "95 regions of fetch instead of 100".
func (c Change) String() string {
	switch c.Key {
	case "regions":
		return fmt.Sprintf("%s of %s instead of %s", howMany(c.To, "region"), c.Job, c.From)
	case "expects":
		return fmt.Sprintf("%s %s for a pass of %s instead of %s", c.To, c.Operation, c.Job, c.From)
	case "every":
		return fmt.Sprintf("%s every %s instead of %s", c.Job, c.To, c.From)
	}
	return fmt.Sprintf("a reserve of %s instead of %s", c.To, c.From)
}

func howMany(n, noun string) string {
	if n == "1" {
		return n + " " + noun
	}
	return n + " " + noun + "s"
}

// changes returns the changes that are each enough, the one that gives up least first.
func (d *demand) changes(f *Fit) []Change {
	changes := []Change{}
	for i, l := range d.loads {
		if n := f.Shares[i].MostRegions; n > 0 {
			c := Change{Key: "regions", From: fmt.Sprint(len(l.job.Regions)), To: fmt.Sprint(n)}
			changes = append(changes, d.change(c, l, d.load(withRegions(l.job, n), *l)))
		}
		changes = append(changes, d.smallerExpects(l)...)
		changes = append(changes, d.longerPeriod(l)...)
	}
	if f.AtWorst <= f.Units { // then less reserve is enough
		to := f.Units - f.AtWorst
		changes = append(changes, Change{Key: "reserve", From: fmt.Sprint(f.Reserve), To: fmt.Sprint(to), GivesUp: f.Reserve - to})
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(a.GivesUp, b.GivesUp) })
	return changes
}

// change completes the change of a load into another.
func (d *demand) change(c Change, a, b *load) Change {
	c.Job, c.GivesUp = a.job.Name, d.less(a, b)
	return c
}

func (d *demand) smallerExpects(l *load) []Change {
	var changes []Change
	for _, operation := range slices.Sorted(maps.Keys(l.job.Expects)) {
		if d.credential.Operations[operation].In(d.limit, operation) == 0 {
			continue
		}
		count := l.job.Expects[operation]
		expecting := func(n int) *load { return d.load(withExpects(l.job, operation, n), *l) }
		if n := greatest(int(count), func(n int) bool { return d.admits(l, expecting(n)) }); n > 0 {
			c := Change{Key: "expects", Operation: operation, From: fmt.Sprint(count), To: fmt.Sprint(n)}
			changes = append(changes, d.change(c, l, expecting(n)))
		}
	}
	return changes
}

func withExpects(j *jobs.Job, operation string, count int) *jobs.Job {
	changed := *j
	changed.Expects = maps.Clone(j.Expects)
	changed.Expects[operation] = quota.Units(count)
	return &changed
}

// longerPeriod returns the shortest round period that is enough. A cron line has none.
func (d *demand) longerPeriod(l *load) []Change {
	every, ok := l.job.Schedule.(jobs.Every)
	if !ok {
		return nil
	}
	for _, period := range roundPeriods(every.Period()) {
		changed := *l.job
		changed.Schedule = every.WithPeriod(period)
		b := d.load(&changed, *l)
		b.slots = slotsOf(changed.Schedule, d.from, d.until, l.maxPasses)
		if d.admits(l, b) {
			return []Change{d.change(Change{Key: "every", From: quota.Brief(every.Period()), To: quota.Brief(period)}, l, b)}
		}
	}
	return nil
}

// roundPeriods returns the periods above one that divide a minute, an hour or a
// day, or are days, up to a week.
func roundPeriods(above time.Duration) []time.Duration {
	var list []time.Duration
	for n := time.Duration(1); n < 60; n++ {
		if time.Minute%(n*time.Second) == 0 {
			list = append(list, n*time.Second)
		}
	}
	for n := time.Duration(1); n < 24*60; n++ {
		if day%(n*time.Minute) == 0 {
			list = append(list, n*time.Minute)
		}
	}
	for n := time.Duration(1); n <= 7; n++ {
		list = append(list, n*day)
	}
	return slices.DeleteFunc(list, func(d time.Duration) bool { return d <= above })
}
