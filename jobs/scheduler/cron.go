package scheduler

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-co-op/gocron/v2"

	"quotad/jobs"
)

// ParseCron returns the schedule of a cron line in a time zone: five fields, or six with the seconds first, or one of
// @hourly, @daily, @weekly, @monthly and @yearly.
//
// Where daylight saving moves the clock, a line that names its hours, such as "30 2 * * *", comes once for each of
// its times of day: one that spring swallows comes as the clock jumps, one that autumn repeats comes the first time
// only. A line for every hour or every few hours, "*/30 * * * *", goes by the time that passes: every half hour,
// whatever the clock shows.
func ParseCron(line string, zone *time.Location) (jobs.Schedule, error) {
	line = strings.Join(strings.Fields(line), " ")
	if strings.Contains(line, "TZ=") {
		return nil, fmt.Errorf("cannot use cron line %q: leave the time zone out of the line, and set timezone", line)
	}
	if strings.HasPrefix(line, "@every") {
		return nil, fmt.Errorf(`cannot use cron line %q: for a period, set every = "30m"`, line)
	}
	// The line is read as if the zone's clock were UTC's; which instant its clock shows a time of day at is found out
	// here. Where the search for a first slot begins does not matter, only that it is not now: a line means the same
	// whenever it is read.
	clock := gocron.NewDefaultCron(true)
	err := clock.IsValid(line, time.UTC, time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		return nil, fmt.Errorf("cannot use cron line %q: %w", line, plain(err))
	}
	return cron{line: line, zone: zone, clock: clock, hourly: isHourly(line)}, nil
}

// plain returns what is wrong with a line, without the names of the parser.
func plain(err error) error {
	if errors.Is(err, gocron.ErrCronJobInvalid) {
		return errors.New("it never happens")
	}
	if joined := interface{ Unwrap() []error }(nil); errors.As(err, &joined) {
		all := joined.Unwrap()
		return all[len(all)-1]
	}
	return err
}

// isHourly reports whether a line has a star for its hours.
func isHourly(line string) bool {
	fields := strings.Fields(line)
	if len(fields) < 5 {
		return line == "@hourly"
	}
	hours := fields[len(fields)-4]
	return strings.HasPrefix(hours, "*") || strings.HasPrefix(hours, "?")
}

// A cron is the schedule of a cron line.
type cron struct {
	line   string
	zone   *time.Location
	clock  gocron.Cron // the times of day at which the line comes, written as if they were UTC
	hourly bool        // goes by the time that passes
}

func (c cron) String() string {
	if c.zone == time.UTC {
		return "cron " + c.line
	}
	return "cron " + c.line + " " + c.zone.String()
}

// Next implements jobs.Schedule.
func (c cron) Next(t time.Time) time.Time {
	if c.hourly {
		return c.nextPassing(t)
	}
	for shown := c.clock.Next(t.UTC().Add(c.offset(t))); !shown.IsZero(); shown = c.clock.Next(shown) {
		if slot := c.first(shown); slot.After(t) { // else autumn repeats it
			return slot.UTC()
		}
	}
	return time.Time{}
}

// nextPassing returns the next slot of an hourly line: within each stretch of
// time between two changes of the clock it counts as if there were no changes.
func (c cron) nextPassing(t time.Time) time.Time {
	for within := t; ; {
		_, change := within.In(c.zone).ZoneBounds()
		offset := c.offset(within)
		shown := c.clock.Next(t.UTC().Add(offset))
		if shown.IsZero() {
			return time.Time{}
		}
		if slot := shown.Add(-offset); change.IsZero() || slot.Before(change) {
			return slot
		}
		t, within = change.Add(-1), change // whose own instant is of the stretch that it begins
	}
}

func (c cron) offset(t time.Time) time.Duration {
	_, seconds := t.In(c.zone).Zone()
	return time.Duration(seconds) * time.Second
}

// first returns the first instant at which the clock shows a time of day, or, if
// it never does because spring swallows it, when the clock jumps over it.
func (c cron) first(shown time.Time) time.Time {
	y, m, d := shown.Date()
	at := time.Date(y, m, d, shown.Hour(), shown.Minute(), shown.Second(), 0, c.zone)
	from, until := at.ZoneBounds()
	switch now := at.UTC().Add(c.offset(at)); {
	case now.After(shown):
		return from
	case now.Before(shown):
		return until
	}
	if from.IsZero() {
		return at
	}
	if earlier := shown.Add(-c.offset(from.Add(-1))); earlier.Before(from) {
		return earlier
	}
	return at
}
