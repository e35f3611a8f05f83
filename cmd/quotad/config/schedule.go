package config

import (
	"time"

	"quotad/jobs"
	"quotad/jobs/scheduler"
)

// schedule reads every with its offset, or cron with its timezone, or that there is
// none; exactly one of the three.
func (r *reader) schedule(t *table) jobs.Schedule {
	if t.has("schedule") {
		return manual(t)
	}
	every, cron := t.has("every"), t.has("cron")
	switch {
	case every && cron:
		t.fail("cron", "stands beside every: remove one of the two")
		return r.every(t)
	case cron:
		if t.has("offset") {
			t.fail("offset", "has a meaning beside every only: remove it, and write the minutes into the cron line")
		}
		return r.cron(t)
	default:
		if t.has("timezone") {
			t.fail("timezone", "has a meaning beside cron only: remove it")
		}
		return r.every(t)
	}
}

// manual is the schedule of a job that only a person runs: what says when a run or
// its passes begin has no meaning beside it.
func manual(t *table) jobs.Schedule {
	text, ok := read[string](t, "schedule", `"manual"`)
	if ok && text != "manual" {
		t.fail("schedule", `must be "manual", not %q: a period stands in every, and a cron line in cron`, text)
	}
	for _, key := range []string{"every", "offset", "cron", "timezone", "stagger", "missed", "missed_within"} {
		if t.has(key) {
			t.fail(key, `has no meaning beside schedule = "manual": remove one of the two`)
		}
	}
	return jobs.Unscheduled{}
}

// every returns nil where the key is missing.
func (r *reader) every(t *table) jobs.Schedule {
	offset, _ := t.span("offset")
	if !t.has("every") {
		return nil
	}
	period := t.duration("every", day)
	schedule, err := jobs.NewEvery(period, offset)
	if err != nil {
		t.fail("every", "%v", err)
		return daily()
	}
	if offset >= period {
		t.fail("offset", "must be less than every (%v): %q comes to the same", jobs.Brief(period.String()), jobs.Brief((offset % period).String()))
	}
	return schedule
}

// daily stands in for a schedule that cannot be read.
func daily() jobs.Schedule {
	schedule, err := jobs.NewEvery(day, 0)
	if err != nil {
		return nil // cannot be: a day is long enough
	}
	return schedule
}

func (r *reader) cron(t *table) jobs.Schedule {
	zone := r.timezone(t)
	line, ok := read[string](t, "cron", `a cron line in quotes, such as "*/30 * * * *"`)
	if !ok {
		return daily()
	}
	schedule, err := scheduler.ParseCron(line, zone)
	if err != nil {
		t.fail("cron", "%v", err)
		return daily()
	}
	return schedule
}

// missedWithin returns how old a missed slot may be to be made up for: none if
// missed is "skip".
func (r *reader) missedWithin(t *table, schedule jobs.Schedule) time.Duration {
	if schedule == (jobs.Unscheduled{}) {
		return 0
	}
	const once, skip = "once", "skip"
	if t.oneOf("missed", once, once, skip) == skip {
		if t.has("missed_within") {
			t.fail("missed_within", `has a meaning beside missed = "once" only: remove one of the two`)
		}
		return 0
	}
	if schedule == nil {
		return t.duration("missed_within", day)
	}
	return t.duration("missed_within", jobs.DefaultMissedWithin(schedule))
}
