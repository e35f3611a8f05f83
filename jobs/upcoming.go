package jobs

import (
	"slices"
	"time"

	"quotad/regions"
)

// An Upcoming is a run that has not begun yet, as far as it can be foreseen.
type Upcoming struct {
	Job    string    `json:"job"`
	Slot   time.Time `json:"slot"`
	Paused bool      `json:"paused,omitempty"` // it will be skipped, unless the job is resumed
	Passes []Planned `json:"passes"`           // in the order in which they start, if no pass is late and none stops the run
}

// A Planned is a pass that has not begun yet.
type Planned struct {
	Region   regions.Region `json:"region"`
	StartsAt time.Time      `json:"starts_at"`
}

// Upcoming returns the next runs that the schedules will begin, up to most, of
// one job or, if job is empty, of all, the soonest first. Each is foreseen as if
// the runs before it came round.
func (r *Runner) Upcoming(job string, most int) ([]Upcoming, error) {
	desks, err := r.some(job)
	if err != nil {
		return nil, err
	}
	r.refreshAll(desks)
	var list []Upcoming
	for _, d := range desks {
		list = append(list, d.upcoming(r.now(), most)...)
	}
	slices.SortStableFunc(list, func(a, b Upcoming) int { return a.Slot.Compare(b.Slot) })
	return list[:min(most, len(list))], nil
}

func (d *desk) upcoming(now time.Time, most int) []Upcoming {
	d.mu.Lock()
	job, cursor, pause := d.job, d.memory.Cursor, d.memory.Pause
	d.mu.Unlock()
	var list []Upcoming
	for slot := job.Schedule.Next(now); len(list) < most && !slot.IsZero(); slot = job.Schedule.Next(slot) {
		u := Upcoming{Job: job.Name, Slot: slot, Paused: pause.active(slot)}
		ring := job.Regions.From(cursor)
		stagger := job.stagger(slot, len(ring))
		for i, region := range ring {
			u.Passes = append(u.Passes, Planned{Region: region, StartsAt: regions.Start(slot, stagger, i)})
		}
		list = append(list, u)
	}
	return list
}
