package plan

import (
	"fmt"
	"sort"
	"time"

	"quotad/jobs"
	"quotad/quota"
)

// A Change is another interval of one job, with which the schedule fits.
type Change struct {
	Job     string      `json:"job"`
	From    string      `json:"from"` // as the file has it: "15m"
	To      string      `json:"to"`
	GivesUp quota.Units `json:"gives_up"` // what is asked for less in the worst window
}

// String returns the change in words: "trending every 1h12m instead of 1h".
func (c Change) String() string {
	return fmt.Sprintf("%s every %s instead of %s", c.Job, c.To, c.From)
}

// change returns the shortest round interval that is enough, of the job that asks for the most if
// that has one, else of the next. A cron line has no interval.
func (d *demand) change(f *Fit) *Change {
	for _, share := range f.Shares {
		l := d.load(share.Job)
		every, ok := l.job.Schedule.(jobs.Every)
		if !ok {
			continue
		}
		periods := roundPeriods(every.Period)
		less, n := d.less(l, every, periods), len(periods)-1
		if n < 0 {
			continue
		}
		if _, enough := less(n); !enough {
			continue
		}
		n = sort.Search(n, func(i int) bool { _, enough := less(i); return enough })
		givesUp, _ := less(n)
		return &Change{Job: l.job.Name, From: quota.Brief(every.Period), To: quota.Brief(periods[n]), GivesUp: givesUp}
	}
	return nil
}

// less returns a function that says how much less is asked for if a job has one of the periods, and
// whether that is enough.
func (d *demand) less(l *load, every jobs.Every, periods []time.Duration) func(int) (quota.Units, bool) {
	return func(i int) (quota.Units, bool) {
		job := *l.job
		job.Schedule = jobs.Every{Period: periods[i], Phase: every.Phase % periods[i]}
		changed := &load{timeline: newTimeline(&job, d.from), units: l.units, passes: l.passes}
		var onTime, late quota.Units
		for _, g := range d.grids {
			g.add(l, -1)
			g.add(changed, 1)
			p := g.peaks()
			onTime, late = max(onTime, p.onTime), max(late, p.late)
			g.add(changed, -1)
			g.add(l, 1)
		}
		return d.onTime - onTime, d.others+late <= d.budget()
	}
}

// roundPeriods returns the periods above one that divide a minute, an hour or a day, or are days, up
// to a week, in their order.
func roundPeriods(above time.Duration) (list []time.Duration) {
	add := func(d time.Duration, whole bool) {
		if whole && d > above {
			list = append(list, d)
		}
	}
	for n := time.Duration(1); n < 60; n++ {
		add(n*time.Second, 60%n == 0)
	}
	for n := time.Duration(1); n < 24*60; n++ {
		add(n*time.Minute, 24*60%n == 0)
	}
	for n := time.Duration(1); n <= 7; n++ {
		add(n*day, true)
	}
	return list
}
