package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
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

// changes returns the changes of one job that would each do.
func (e *exchange) changes(f *Fit, most int) []Change {
	return slices.Concat(e.fewerRegions(f, most), e.smallerExpects(f), e.longerPeriod(f))
}

// change completes the change of the job into another load.
func (e *exchange) change(f *Fit, c Change, l *load) []Change {
	c.Job, c.GivesUp = e.load.job.Name, f.Demand-e.total(l)
	return []Change{c}
}

func (e *exchange) fewerRegions(f *Fit, most int) []Change {
	if most == 0 {
		return nil
	}
	c := Change{Key: "regions", From: strconv.Itoa(len(e.load.job.Regions)), To: strconv.Itoa(most)}
	return e.change(f, c, e.job(withRegions(e.load.job, most)))
}

func (e *exchange) smallerExpects(f *Fit) []Change {
	var changes []Change
	job := e.load.job
	for _, operation := range slices.Sorted(maps.Keys(job.Expects)) {
		if e.credential.Operations[operation].In(e.limit, operation) == 0 {
			continue
		}
		count := job.Expects[operation]
		expecting := func(n int) *load { return e.job(withExpects(job, operation, n)) }
		if n := most(int(count), func(n int) bool { return e.admits(expecting(n)) }); n > 0 {
			c := Change{Key: "expects", Operation: operation, From: decimal(count), To: strconv.Itoa(n)}
			changes = append(changes, e.change(f, c, expecting(n))...)
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

// longerPeriod returns the shortest round period at which the job would do. A cron
// line has none.
func (e *exchange) longerPeriod(f *Fit) []Change {
	every, ok := e.load.job.Schedule.(jobs.Every)
	if !ok {
		return nil
	}
	for _, period := range roundPeriods(every.Period()) {
		changed := *e.load.job
		changed.Schedule = every.WithPeriod(period)
		l := e.job(&changed)
		l.ticks = ticksOf(changed.Schedule, e.from, e.until, l.most)
		if e.admits(l) {
			return e.change(f, Change{Key: "every", From: jobs.Brief(every.Period().String()), To: jobs.Brief(period.String())}, l)
		}
	}
	return nil
}

// smallerReserve returns the reserve that leaves the jobs what they ask for.
func smallerReserve(f *Fit) Change {
	to := f.Units - f.AtWorst
	return Change{Key: "reserve", From: decimal(f.Reserve), To: decimal(to), GivesUp: f.Reserve - to}
}

// roundPeriods returns the periods above one that divide a minute, an hour or a
// day, or are days, up to a week.
func roundPeriods(above time.Duration) []time.Duration {
	const day = 24 * time.Hour
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

func decimal(units quota.Units) string { return strconv.FormatInt(int64(units), 10) }
