package scheduler

import (
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/jobs"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	must(t, err)
	return loc
}

func parse(t *testing.T, line, in string) jobs.Schedule {
	t.Helper()
	s, err := ParseCron(line, zone(t, in))
	must(t, err)
	return s
}

// Slots around the days on which clocks change, in the local time of each.
func TestCron(t *testing.T) {
	for _, test := range []struct {
		name, line, zone string
		after            string
		want             []string
	}{
		{"with seconds", "15 */30 * * * *", "UTC", "2026-03-01T10:17:00Z",
			[]string{"2026-03-01T10:30:15Z", "2026-03-01T11:00:15Z"}},
		{"at a local time", "0 9 * * 1-5", "America/New_York", "2026-01-02T20:00:00-05:00",
			[]string{"2026-01-05T09:00:00-05:00", "2026-01-06T09:00:00-05:00"}},
		{"a weekday is the zone's, which is UTC's a day later", "0 20 * * 5", "America/New_York", "2026-01-02T19:00:00-05:00",
			[]string{"2026-01-02T20:00:00-05:00", "2026-01-09T20:00:00-05:00"}},

		{"spring swallows the time: as the clock jumps", "30 1 * * *", "Europe/London", "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T02:00:00+01:00", "2026-03-30T01:30:00+01:00"}},
		{"spring swallows several: once", "*/15 2 * * *", "America/New_York", "2026-03-08T01:00:00-05:00",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:00:00-04:00"}},
		{"spring swallows midnight", "0 0 * * *", "America/Santiago", "2026-09-05T12:00:00-04:00",
			[]string{"2026-09-06T01:00:00-03:00", "2026-09-07T00:00:00-03:00"}},
		{"swallowed and right after, one instant", "0 1,2 * * *", "Europe/London", "2026-03-28T12:00:00Z",
			[]string{"2026-03-29T02:00:00+01:00", "2026-03-30T01:00:00+01:00"}},
		{"autumn repeats the time: the first one", "30 1 * * *", "Europe/London", "2026-10-24T12:00:00+01:00",
			[]string{"2026-10-25T01:30:00+01:00", "2026-10-26T01:30:00Z"}},
		{"asked within the repeated hour", "30 1,2 * * *", "Europe/London", "2026-10-25T01:10:00Z",
			[]string{"2026-10-25T02:30:00Z", "2026-10-26T01:30:00Z"}},
		{"half an hour's change", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00:00+11:00",
			[]string{"2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"}},

		{"hourly through spring", "*/30 * * * *", "Europe/London", "2026-03-29T00:10:00Z",
			[]string{"2026-03-29T00:30:00Z", "2026-03-29T02:00:00+01:00", "2026-03-29T02:30:00+01:00"}},
		{"hourly through autumn", "*/30 * * * *", "Europe/London", "2026-10-25T01:10:00+01:00",
			[]string{"2026-10-25T01:30:00+01:00", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:00:00Z"}},
		{"hourly through autumn, by a question mark", "*/30 ? * * *", "Europe/London", "2026-10-25T01:10:00+01:00",
			[]string{"2026-10-25T01:30:00+01:00", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:00:00Z"}},
		{"hourly through autumn, with seconds", "0 0 * * * *", "Europe/London", "2026-10-25T00:10:00+01:00",
			[]string{"2026-10-25T01:00:00+01:00", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"}},
		{"hourly through autumn, by its name", "@hourly", "Europe/London", "2026-10-25T00:10:00+01:00",
			[]string{"2026-10-25T01:00:00+01:00", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"}},
		{"every other hour through spring", "0 */2 * * *", "America/New_York", "2026-03-08T00:10:00-05:00",
			[]string{"2026-03-08T04:00:00-04:00"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := parse(t, test.line, test.zone)
			if want := strings.TrimSuffix("cron "+test.line+" "+test.zone, " UTC"); s.String() != want {
				t.Errorf("it is called %q, want %q", s, want)
			}
			at, err := time.Parse(time.RFC3339, test.after)
			must(t, err)
			var got []string
			for range test.want {
				at = s.Next(at)
				if at.Location() != time.UTC {
					t.Errorf("%v is not in UTC", at)
				}
				got = append(got, at.In(zone(t, test.zone)).Format(time.RFC3339))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got\n\t%q\nwant\n\t%q", got, test.want)
			}
		})
	}
}

func TestBadCronLines(t *testing.T) {
	for _, test := range []struct{ name, line, want string }{
		{"nothing", "", "found 0"},
		{"too many fields", "* * * * * * *", "fields"},
		{"an hour that is none", "0 25 * * *", "above maximum"},
		{"the thirtieth of February", "0 0 30 2 *", "it never happens"},
		{"a period", "@every 30m", `every = "30m"`},
		{"a zone", "CRON_TZ=Europe/London 0 9 * * *", "set timezone"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := ParseCron(test.line, time.UTC); err == nil || !strings.Contains(err.Error(), test.want) || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "gocron") {
				t.Errorf("got %v, want a line with %q and without the parser's name", err, test.want)
			}
		})
	}
}
