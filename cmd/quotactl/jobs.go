package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
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
		table: func(v view) string { return jobTable(list, v) },
	})
}

func jobTable(list []jobsapi.Job, v view) string {
	t := table{columns: []column{
		{head: "JOB"}, {head: "CREDENTIAL"}, {head: "SCHEDULE"}, {head: "REGIONS", right: true}, {head: "CURSOR"},
		{head: "NEXT" + v.zoneMark()}, {head: "LAST"},
	}}
	for _, j := range list {
		next := cell{text: "none"}
		if !j.NextRun.IsZero() {
			next.text = v.clock(j.NextRun)
		}
		if j.Pause != nil {
			next = cell{"paused", yellow}
		}
		t.add(cell{text: j.Name}, cell{text: j.Credential}, cell{text: jobs.Brief(j.Schedule)},
			cell{text: quota.Thousands(len(j.Regions))}, cell{text: string(j.Cursor)}, next, lastCell(j.LastRun, v))
	}
	var b strings.Builder
	t.render(&b, v)
	return b.String()
}

func lastCell(r *jobs.Run, v view) cell {
	if r == nil {
		return cell{text: "none"}
	}
	ago, _, _ := strings.Cut(brief(v.now.Sub(r.StartedAt)), " ")
	if failed := failures(*r); failed > 0 && r.State == jobs.RunDone {
		return cell{fmt.Sprintf("%s failed %s ago", quota.Thousands(failed), ago), red}
	}
	return cell{fmt.Sprintf("%s %s ago", r.State, ago), runStyle(r.State)}
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
		table: func(v view) string { return jobPage(job, v) },
	})
}

// jobPage is what the status tells of a job, and how it is configured.
func jobPage(j jobsapi.Job, v view) string {
	var b strings.Builder
	renderJob(&b, j, v)
	v.prose(&b, 2, plain, "regions "+strings.Join(regionNames(j), " "))
	expects := "expects nothing in particular"
	if len(j.Expects) > 0 {
		expects = "expects " + callsText(j.Expects)
	}
	v.prose(&b, 2, plain, fmt.Sprintf("credential %s; a pass %s", j.Credential, expects))
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
