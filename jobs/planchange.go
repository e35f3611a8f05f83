package jobs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

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

// changes returns the changes that would each do, the one that gives up least first.
func (d *demand) changes(v *Verdict) []Change {
	changes := []Change{}
	for i, a := range d.askers {
		changes = append(changes, d.fewerRegions(a, v.Shares[i].MostRegions)...)
		changes = append(changes, d.smallerExpects(a)...)
		changes = append(changes, d.longerPeriod(a)...)
	}
	if v.AtWorst <= v.Units { // then it is the reserve that is in the way
		to := v.Units - v.AtWorst
		changes = append(changes, Change{Key: "reserve", From: decimal(v.Reserve), To: decimal(to), GivesUp: v.Reserve - to})
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(a.GivesUp, b.GivesUp) })
	return changes
}

// change completes the change of an asker into another.
func (d *demand) change(c Change, a, b *asker) Change {
	c.Job = a.job.Name
	c.GivesUp = d.peak(false, nil, nil) - d.peak(false, a, b)
	return c
}

func (d *demand) fewerRegions(a *asker, n int) []Change {
	if n == 0 {
		return nil
	}
	c := Change{Key: "regions", From: strconv.Itoa(len(a.job.Regions)), To: strconv.Itoa(n)}
	return []Change{d.change(c, a, d.instead(a, withRegions(a.job, n)))}
}

func (d *demand) smallerExpects(a *asker) []Change {
	var changes []Change
	for _, operation := range slices.Sorted(maps.Keys(a.job.Expects)) {
		if d.credential.Operations[operation].In(d.limit, operation) == 0 {
			continue
		}
		count := a.job.Expects[operation]
		expecting := func(n int) *asker { return d.instead(a, withExpects(a.job, operation, n)) }
		if n := most(int(count), func(n int) bool { return d.admits(a, expecting(n)) }); n > 0 {
			c := Change{Key: "expects", Operation: operation, From: decimal(count), To: strconv.Itoa(n)}
			changes = append(changes, d.change(c, a, expecting(n)))
		}
	}
	return changes
}

func withExpects(j *Job, operation string, count int) *Job {
	changed := *j
	changed.Expects = maps.Clone(j.Expects)
	changed.Expects[operation] = quota.Units(count)
	return &changed
}

// longerPeriod returns the shortest round period at which a job would do. A cron
// line has none.
func (d *demand) longerPeriod(a *asker) []Change {
	every, ok := a.job.Schedule.(Every)
	if !ok {
		return nil
	}
	for _, period := range roundPeriods(every.period) {
		changed := *a.job
		changed.Schedule = Every{period: period, phase: every.phase % period}
		b := d.instead(a, &changed)
		b.period, b.ticks = period, ticksOf(changed.Schedule, d.from, d.until, mostClaims)
		if d.admits(a, b) {
			return []Change{d.change(Change{Key: "every", From: Brief(every.period.String()), To: Brief(period.String())}, a, b)}
		}
	}
	return nil
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

// Brief takes the zeros off the end of a duration, or of what ends with one:
// "24h", "every 1h30m".
func Brief(text string) string {
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func decimal(units quota.Units) string { return strconv.FormatInt(int64(units), 10) }
