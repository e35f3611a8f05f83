package main

import (
	"fmt"
	"time"

	"quotad/cmd/quotactl/page"
	"quotad/cmd/quotactl/term"
	"quotad/jobs"
	"quotad/quota"
)

// pageWeek is what each job did on each of the last seven days, by the clock of the
// viewer, the latest day first.
func pageWeek(f pageFacts, v term.View) page.Week {
	const days = 7
	var w page.Week
	from := midnight(v.Now.In(v.Zone))
	for i := range days {
		w.Days = append(w.Days, from.AddDate(0, 0, -i).Format("Mon 2"))
	}
	if n := len(f.runs); n == mostRuns {
		w.Note = fmt.Sprintf("the latest %s, since %s", quota.Count(n, "run", "runs"), v.Clock(f.runs[n-1].StartedAt)+v.ZoneMark())
	}
	for _, j := range f.status.Jobs {
		row := page.WeekRow{Job: j.Name}
		for i := range days {
			day := from.AddDate(0, 0, -i)
			row.Cells = append(row.Cells, cellOf(j.Name, f.runs, day, day.AddDate(0, 0, 1)))
		}
		w.Rows = append(w.Rows, row)
	}
	return w
}

func midnight(at time.Time) time.Time {
	year, month, day := at.Date()
	return time.Date(year, month, day, 0, 0, 0, 0, at.Location())
}

// cellOf is what the runs of a job that began in a day came to.
func cellOf(job string, all []jobs.Run, from, until time.Time) page.WeekCell {
	var spent quota.Units
	runs, failed := 0, 0
	for _, r := range all {
		if r.Job != job || r.State == jobs.RunSkipped || r.StartedAt.Before(from) || !r.StartedAt.Before(until) {
			continue
		}
		runs++
		if runStyle(r) == term.Red {
			failed++
		}
		for _, p := range r.Passes {
			spent += p.Units
		}
	}
	switch {
	case runs == 0:
		return page.WeekCell{}
	case failed > 0:
		return page.WeekCell{Units: units(int64(spent)), Runs: fmt.Sprintf("%d of %s failed", failed, quota.Count(runs, "run", "runs")), Tone: page.Bad}
	}
	return page.WeekCell{Units: units(int64(spent)), Runs: quota.Count(runs, "run", "runs")}
}
