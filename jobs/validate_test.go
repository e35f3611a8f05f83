package jobs

import (
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/regions"
)

func youtube() []*quota.Credential {
	return []*quota.Credential{{
		Name: "youtube",
		Limits: []quota.Limit{
			{Name: "daily", Units: 10_000, Reserve: 500, Window: quota.Sliding(24 * time.Hour)},
			{Name: "search", Units: 300, Window: quota.Sliding(24 * time.Hour), Only: []string{"search.list"}},
		},
		Operations: map[string]quota.Cost{"search.list": {Every: 100}, "videos.list": {Every: 1}},
	}}
}

func TestValidate(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Job)
		path   string // of the only error, joined by dots
		want   string // part of its message; empty: nothing is wrong
	}{
		{"the example", func(*Job) {}, "", ""},
		{"a pace of a period", func(j *Job) { j.MaxWait = time.Hour }, "", ""},
		{"exactly what there is", func(j *Job) { j.Expects = map[string]quota.Units{"videos.list": 9_500} }, "", ""},
		{"all with the reserve", func(j *Job) { j.UseReserve, j.Expects = true, map[string]quota.Units{"videos.list": 10_000} }, "", ""},
		{"name", func(j *Job) { j.Name = "a b" }, "", "letters, digits"},
		{"no regions", func(j *Job) { j.Regions = nil }, "regions", "at least one"},
		{"no schedule", func(j *Job) { j.Schedule = nil }, "every", "needs a schedule"},
		{"a manual job at the start", func(j *Job) { j.Schedule, j.RunAtStart = Unscheduled{}, true }, "run_at_start", "only a person"},
		{"a schedule that never comes", func(j *Job) { j.Schedule = Every{} }, "cron", "never happens"},
		{"fewer retries than none", func(j *Job) { j.Retry = -1 }, "retry", "from 0 to 10"},
		{"too many retries", func(j *Job) { j.Retry = 11 }, "retry", "from 0 to 10"},
		{"a wait beyond the next slot", func(j *Job) { j.MaxWait = time.Hour + 1 }, "max_wait", "than the 1h between two slots"},
		{"a retry in the next slot", func(j *Job) { j.Retry, j.RetryAfter = 1, time.Hour }, "retry_after", "1h is not less than the 1h between two slots"},
		{"a stagger that does not fit", func(j *Job) { j.Stagger = 9 * time.Minute }, "stagger", "8 regions, 9m0s apart, do not fit into the 1h0m0s"},
		{"no command", func(j *Job) { j.Command = nil }, "command", "needs a command"},
		{"a contract variable", func(j *Job) { j.Env = map[string]string{"QUOTAD_TOKEN": "x"} }, "env.QUOTAD_TOKEN", "set by quotad"},
		{"an unknown credential", func(j *Job) { j.Credential = "maps" }, "credential", `"maps" is not configured`},
		{"an unknown operation", func(j *Job) { j.Expects = map[string]quota.Units{"captions.list": 1} }, "expects.captions.list", "not listed"},
		{"too many calls", func(j *Job) { j.Expects = map[string]quota.Units{"search.list": quota.MaxUnits} }, "expects.search.list", "exceed"},
		{"more than there ever is", func(j *Job) { j.Expects = map[string]quota.Units{"videos.list": 9_501} }, "expects", `9,501 units of limit "daily", which never has more than 9,500`},
	} {
		job := trending(t, 8)
		test.change(job)
		wrong := job.Validate(youtube())
		if test.want == "" && len(wrong) > 0 || test.want != "" && (len(wrong) != 1 || strings.Join(wrong[0].Path, ".") != test.path || !strings.Contains(wrong[0].Message, test.want)) {
			t.Errorf("%s: got %v, want one error, %s: …%s…", test.name, wrong, test.path, test.want)
		}
	}
}

// The last pass of a run starts before the next slot, also if that is by no whole seconds.
func TestStagger(t *testing.T) {
	for _, row := range []struct {
		stagger time.Duration
		n       int
		fits    bool
	}{
		{10 * time.Minute, 6, true}, {10 * time.Minute, 7, false}, {time.Hour, 1, true}, {time.Hour, 2, false}, {EvenStagger, 3000, true}, {EvenStagger, 2000, true},
	} {
		job := &Job{Schedule: every(t, time.Hour), Stagger: row.stagger, Regions: make(regions.Ring, row.n)}
		if job.StaggerFits() != row.fits {
			t.Errorf("%d regions, %v apart: got %v", row.n, row.stagger, !row.fits)
		}
		if last := time.Duration(row.n-1) * job.StaggerWithin(time.Hour, row.n); row.fits && last >= time.Hour {
			t.Errorf("%d regions, %v apart: the last one starts after %v", row.n, row.stagger, last)
		}
	}
}
