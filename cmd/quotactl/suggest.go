package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"quotad/cmd/quotactl/term"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/quota/api"
)

// suggestedRuns is how many of the latest runs count.
const suggestedRuns = 200

// A suggestion is what the passes of a job spent that ended well.
type suggestion struct {
	Job    string           `json:"job"`
	Passes int              `json:"passes"`
	Median map[string]int64 `json:"median"` // calls by operation
	Most   map[string]int64 `json:"most"`
}

// suggest prints what passes spent, as expects of their jobs.
func (c *cli) suggest(ctx context.Context, q usageQuery) error {
	client := c.client() // one connection for all pages
	runs, err := client.Runs(ctx, jobsapi.Selection{Most: suggestedRuns})
	if err != nil {
		return c.explain(err)
	}
	passes := passesOf(runs)
	for e, err := range entries(ctx, client, c.credential(q.credential), api.LogQuery{Since: cmp.Or(q.since, "7d"), Most: quota.MaxLogPage}) {
		if err != nil {
			return c.explain(err)
		}
		passes.add(e)
	}
	return show(c, passes.suggestions(), nil, length, func(all []suggestion, _ term.View) string { return expectsText(all) })
}

// A spentPass is what one pass spent, by operation.
type spentPass struct {
	job          string
	began, ended time.Time
	calls        map[string]int64
}

// spentPasses are the passes that ended well, by job and region, the latest first.
type spentPasses map[string][]*spentPass

func passesOf(runs []jobs.Run) spentPasses {
	passes := spentPasses{}
	for _, run := range runs {
		for _, p := range run.Passes {
			if p.Outcome == jobs.OK && p.Units > 0 {
				key := run.Job + " " + string(p.Region)
				// The ledger's clock ticks in milliseconds.
				passes[key] = append(passes[key], &spentPass{run.Job, p.StartedAt.Truncate(time.Millisecond), p.EndedAt, map[string]int64{}})
			}
		}
	}
	return passes
}

// add counts a grant for the pass that acquired it. A released grant does not count.
func (t spentPasses) add(e api.Entry) {
	if e.Kind != string(quota.KindGrant) || e.SettledTo != nil && *e.SettledTo == 0 {
		return
	}
	for _, p := range t[e.By+" "+e.Region] {
		if !e.At.Before(p.began) && !e.At.After(p.ended) {
			p.calls[e.Operation] += e.Count
		}
	}
}

// suggestions returns one suggestion for each job with passes in the log.
func (t spentPasses) suggestions() []suggestion {
	byJob := map[string][]*spentPass{}
	for _, passes := range t {
		for _, p := range passes {
			if len(p.calls) > 0 {
				byJob[p.job] = append(byJob[p.job], p)
			}
		}
	}
	all := []suggestion{}
	for _, job := range slices.Sorted(maps.Keys(byJob)) {
		s := suggestion{Job: job, Passes: len(byJob[job]), Median: map[string]int64{}, Most: map[string]int64{}}
		for _, p := range byJob[job] {
			for operation, calls := range p.calls {
				s.Most[operation] = max(s.Most[operation], calls)
			}
		}
		for operation := range s.Most {
			var counts []int64
			for _, p := range byJob[job] {
				counts = append(counts, p.calls[operation])
			}
			slices.Sort(counts)
			if median := counts[len(counts)/2]; median > 0 {
				s.Median[operation] = median
			}
		}
		all = append(all, s)
	}
	return all
}

// expectsText writes suggestions as lines of a configuration.
func expectsText(suggestions []suggestion) string {
	if len(suggestions) == 0 {
		return "# no pass has ended well and spent anything, as far as the log goes back\n"
	}
	var b strings.Builder
	for _, s := range suggestions {
		fmt.Fprintf(&b, "[jobs.%s] # the median of %s\nexpects = %s # at most %s\n", s.Job, quota.Count(s.Passes, "pass", "passes"), inlineTable(s.Median), inlineTable(s.Most))
	}
	return b.String()
}

func inlineTable(calls map[string]int64) string {
	var parts []string
	for _, operation := range slices.Sorted(maps.Keys(calls)) {
		parts = append(parts, strconv.Quote(operation)+" = "+strconv.FormatInt(calls[operation], 10))
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}
