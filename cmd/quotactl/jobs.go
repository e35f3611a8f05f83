package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/regions"
)

const jobsUsage = `List the jobs, or show one with its regions and its last run.

Usage:
  quotactl jobs [JOB]

With -o value the answer is how many there are.

Example:
  $ quotactl jobs
  JOB       CREDENTIAL  SCHEDULE   REGIONS  CURSOR  NEXT      LAST
  trending  youtube     every 30m        8  US      09:30:00  done 26m ago
`

func newJobs(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "jobs [JOB]",
		Short:             "the jobs: schedule, cursor, next and last run",
		Long:              jobsUsage,
		Args:              arguments("[JOB]"),
		ValidArgsFunction: c.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return c.showJob(cmd.Context(), args[0])
			}
			return c.listJobs(cmd.Context())
		},
	}
}

// operator returns the client for jobs and runs.
func (c *cli) operator() jobsapi.Client { return jobsapi.Client{Client: c.reader()} }

func (c *cli) listJobs(ctx context.Context) error {
	list, err := c.operator().Jobs(ctx)
	if err != nil {
		return c.explain(err)
	}
	return c.print(answer{
		body:  list,
		value: func() (int64, error) { return int64(len(list)), nil },
		table: func(v term.View) string { return jobTable(list, v) },
	})
}

func jobTable(list []jobsapi.Job, v term.View) string {
	if len(list) == 0 {
		return "no job is configured\n"
	}
	t := term.Table{Columns: []term.Column{
		{Head: "JOB"}, {Head: "CREDENTIAL"}, {Head: "SCHEDULE"}, {Head: "REGIONS", Right: true}, {Head: "CURSOR"},
		{Head: "NEXT" + v.ZoneMark()}, {Head: "LAST"},
	}}
	for _, j := range list {
		t.Add(term.Cell{Text: j.Name}, term.Cell{Text: j.Credential}, term.Cell{Text: j.Schedule},
			term.Cell{Text: quota.Thousands(len(j.Regions))}, term.Cell{Text: string(j.Cursor)}, nextCell(j, v), lastCell(j.LastRun, v))
	}
	var b strings.Builder
	t.Render(&b, v)
	return b.String()
}

// nextCell tells when a job's next run begins.
func nextCell(j jobsapi.Job, v term.View) term.Cell {
	switch {
	case j.Pause != nil:
		return term.Cell{Text: "paused", Style: term.Yellow}
	case j.NextRun.IsZero():
		return term.Cell{Text: "none"}
	}
	return term.Cell{Text: v.Clock(j.NextRun)}
}

func lastCell(r *jobs.Run, v term.View) term.Cell {
	if r == nil {
		return term.Cell{Text: "none"}
	}
	ago, _, _ := strings.Cut(term.Brief(v.Now.Sub(r.StartedAt)), " ")
	text := fmt.Sprintf("%s %s ago", r.State, ago)
	if r.State == jobs.RunFailed {
		text = fmt.Sprintf("%s %s", quota.Thousands(len(r.Failed())), text)
	}
	return term.Cell{Text: text, Style: runStyle(*r)}
}

func (c *cli) showJob(ctx context.Context, name string) error {
	job, err := c.operator().Job(ctx, name)
	if err != nil {
		return c.explain(err)
	}
	return c.printJob(job)
}

// printJob answers with one job, as it is or as it has become.
func (c *cli) printJob(job jobsapi.Job) error {
	return c.print(answer{
		body:  job,
		value: noInteger("a job"),
		table: func(v term.View) string { return jobPage(job, v) },
	})
}

// jobPage is what the status tells of a job, and how it is configured.
func jobPage(j jobsapi.Job, v term.View) string {
	var b strings.Builder
	renderJob(&b, j, v)
	v.Prose(&b, 2, term.Plain, "regions "+listText(j.Regions))
	expects := "expects nothing in particular"
	if len(j.Expects) > 0 {
		expects = "expects " + callsText(j.Expects)
	}
	if j.UseReserve {
		expects += " and may use the reserve"
	}
	if j.UnitsPerRun > 0 {
		expects += "; a run may spend " + units(int64(j.UnitsPerRun))
	}
	v.Prose(&b, 2, term.Plain, fmt.Sprintf("credential %s; a pass %s", j.Credential, expects))
	return b.String()
}

// callsText writes "4 videos.list, 1 search.list", by name.
func callsText(calls map[string]quota.Units) string {
	var parts []string
	for _, operation := range slices.Sorted(maps.Keys(calls)) {
		parts = append(parts, quota.Thousands(calls[operation])+" "+operation)
	}
	return strings.Join(parts, ", ")
}

func (c *cli) jobNames(ctx context.Context) ([]string, error) {
	list, err := c.operator().Jobs(ctx)
	return jobNames(list), err
}

func jobNames(list []jobsapi.Job) []string {
	names := make([]string, len(list))
	for i, j := range list {
		names[i] = j.Name
	}
	return names
}

// regionNames returns the regions of all jobs, each once.
func (c *cli) regionNames(ctx context.Context) ([]string, error) {
	list, err := c.operator().Jobs(ctx)
	var names []string
	for _, j := range list {
		names = append(names, regionNames(j)...)
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

func regionNames(j jobsapi.Job) []string {
	names := make([]string, len(j.Regions))
	for i, region := range j.Regions {
		names[i] = string(region)
	}
	return names
}

// listText writes regions one after the other: what could be taken for two stands in
// quotes.
func listText(list []regions.Region) string {
	names := make([]string, len(list))
	for i, region := range list {
		names[i] = inList(region)
	}
	return strings.Join(names, " ")
}

func inList(region regions.Region) string {
	if text := string(region); !strings.ContainsAny(text, ` []"`) {
		return text
	}
	return strconv.Quote(string(region))
}

// renderJob writes a job: what comes next, and what its last run did.
func renderJob(b *strings.Builder, j jobsapi.Job, v term.View) {
	v.Prose(b, 0, term.Bold, "job "+j.Name)
	v.Prose(b, 2, term.Plain, fmt.Sprintf("%s; %s; cursor at %s", j.Schedule, nextText(j, v), j.Cursor))
	if j.Pause != nil {
		v.Prose(b, 2, term.Yellow, pauseText(*j.Pause, v))
	}
	if isOverdue(j, v) {
		v.Prose(b, 2, term.Red, overdueText(j, v))
	}
	if j.Skipped != nil {
		v.Prose(b, 2, term.Yellow, skipText(*j.Skipped, v))
	}
	if j.LastRun == nil {
		v.Prose(b, 2, term.Faint, "no run yet")
		return
	}
	renderRun(b, "last run", *j.LastRun, v)
	if n := len(j.Regions); 0 < n && n <= manyRegions {
		v.Prose(b, 2, term.Plain, ringText(j))
	}
	renderPasses(b, notOK(*j.LastRun), v)
}

func isOverdue(j jobsapi.Job, v term.View) bool {
	return !j.OverdueAt.IsZero() && !v.Now.Before(j.OverdueAt)
}

func overdueText(j jobsapi.Job, v term.View) string {
	return "overdue: a good run was due " + v.When(j.OverdueAt)
}

// nextText tells when the next run begins, or who begins it.
func nextText(j jobsapi.Job, v term.View) string {
	switch {
	case j.Schedule == jobs.Unscheduled{}.String():
		return "runs only by quotactl run " + j.Name
	case j.NextRun.IsZero():
		return "no next run"
	}
	return "next run " + v.When(j.NextRun)
}

// manyRegions is how long a ring may be that is told region by region, so that a
// status stays on one screen.
const manyRegions = 60

func pauseText(p jobs.Pause, v term.View) string {
	text := "paused " + v.When(p.Since)
	if p.By != "" {
		text += ", by " + v.Caller(p.By)
	}
	if p.Note != "" {
		text += ": " + p.Note
	}
	if !p.Until.IsZero() {
		text += "; ends " + v.When(p.Until)
	}
	return text
}

// skipText tells of ticks that did not become a run.
func skipText(r jobs.Run, v term.View) string {
	latest := r.Slot
	if !r.LastSlot.IsZero() {
		latest = r.LastSlot
	}
	text := fmt.Sprintf("%s skipped, the latest %s: %s", quota.Count(max(1, r.Ticks), "tick", "ticks"), v.When(latest), r.Reason)
	if r.Detail != "" {
		text += "; " + r.Detail
	}
	return text
}
