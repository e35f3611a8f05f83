package quota_test

import (
	"strings"
	"testing"
	"time"

	"quotad/quota"
)

// What is wrong with a credential is one error each, at its place in the file.
func TestValidate(t *testing.T) {
	hour := quota.Sliding(time.Hour)
	for _, row := range []struct {
		name  string
		edit  func(*quota.Credential)
		wants []string // "path: message", in part; none: it is good
	}{
		{"nothing", func(*quota.Credential) {}, nil},
		{"units that are wrong", func(c *quota.Credential) { c.Limits[0].Units = 0 }, []string{"limits.daily.units: must be from 1"}},
		{"a reserve of everything", func(c *quota.Credential) { c.Limits[0].Reserve = 1000 }, []string{"limits.daily.reserve: must be at least 0 and less than units"}},
		{"a cost in an unknown limit", func(c *quota.Credential) {
			c.Operations["search.list"] = quota.Cost{Per: map[string]quota.Units{"daily": 100, "dayly": 1}}
		}, []string{`operations.search.list: unknown limit "dayly": did you mean "daily"?`}},
		{"free for everybody but a job", func(c *quota.Credential) { c.Limits[0].Jobs = []string{"backfill"} }, []string{
			"operations.search.list: only limits with jobs of their own count this operation", "operations.videos.list: only limits",
		}},
		{"free for an excepted job", func(c *quota.Credential) { c.Limits[0].ExceptJobs = []string{"backfill"} }, []string{
			`operations.search.list: no limit counts this operation for job "backfill"`, "operations.videos.list: no limit",
		}},
		{"each job counted by one of two limits", func(c *quota.Credential) {
			c.Limits[0].ExceptJobs = []string{"backfill", "remote/shop"}
			c.Limits = append(c.Limits, quota.Limit{Name: "cap", Units: 100, Window: hour, Jobs: []string{"backfill", "remote/shop"}})
		}, nil},
		{"jobs and except_jobs", func(c *quota.Credential) {
			c.Limits = append(c.Limits, quota.Limit{Name: "cap", Units: 100, Window: hour, Jobs: []string{"backfill"}, ExceptJobs: []string{"trending"}})
		}, []string{"limits.cap.except_jobs: cannot be combined with jobs"}},
		{"a job twice", func(c *quota.Credential) {
			c.Limits = append(c.Limits, quota.Limit{Name: "cap", Units: 100, Window: hour, Jobs: []string{"backfill", "backfill"}})
		}, []string{`limits.cap.jobs: job "backfill" is listed twice`}},
		{"a limit in which nothing costs anything", func(c *quota.Credential) {
			c.Operations = map[string]quota.Cost{"videos.list": {Per: map[string]quota.Units{"daily": 1}}}
			c.Limits = append(c.Limits, quota.Limit{Name: "hourly", Units: 10, Window: hour})
		}, []string{"limits.hourly: no operation costs anything in it"}},
		{"a period of a second", func(c *quota.Credential) { c.Limits[0].Window = quota.Anchored(time.Second, nine) }, []string{"limits.daily.window: a period from an instant has whole milliseconds, from 1m"}},
		{"a period of a minute", func(c *quota.Credential) { c.Limits[0].Window = quota.Anchored(time.Minute, nine) }, nil},
		{"a day of no time zone", func(c *quota.Credential) { c.Limits[0].Window = quota.Calendar(quota.Day, nil) }, []string{"limits.daily.window: a calendar window needs a time zone"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := youtube()
			row.edit(c)
			found := c.Validate()
			for _, want := range row.wants {
				matches := 0
				for _, e := range found {
					if strings.HasPrefix(strings.Join(e.Path, ".")+": "+e.Message, want) {
						matches++
					}
				}
				if matches != 1 {
					t.Errorf("%q is said %d times, want once", want, matches)
				}
			}
			if len(found) != len(row.wants) {
				t.Errorf("got %v, want %d errors", found, len(row.wants))
			}
		})
	}
}
