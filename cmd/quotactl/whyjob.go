package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"quotad/cmd/quotactl/term"
	"quotad/cmd/quotactl/wording"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota/api"
	"quotad/regions"
)

// A whyJob is what keeps a job from running, or would.
type whyJob struct {
	Job      jobsapi.Job   `json:"job"`
	Pass     []api.Why     `json:"pass"`              // for each operation that a pass expects
	Unknown  string        `json:"unknown,omitempty"` // why the ledger does not say whether a pass fits
	Refused  []api.Refusal `json:"refused"`           // in the last day, the latest first
	Schedule []plan.Fit    `json:"schedule"`          // what the schedule asks of the limits where the job has a share
}

// whyJob shows why a job runs or does not, unless it could not be asked for.
func (c *cli) whyJob(ctx context.Context, job jobsapi.Job, err error) error {
	var body whyJob
	if err == nil {
		body, err = c.ofJob(ctx, job)
	}
	return show(c, body, err, whyJob.missing, whyJobPage)
}

// ofJob asks for what keeps a job from running.
func (c *cli) ofJob(ctx context.Context, job jobsapi.Job) (whyJob, error) {
	client := c.client()
	body := whyJob{Job: job, Pass: []api.Why{}, Schedule: []plan.Fit{}}
	for _, operation := range slices.Sorted(maps.Keys(job.Expects)) {
		w, err := client.Why(ctx, job.Credential, api.WhyQuery{Operation: operation, Count: int64(job.Expects[operation]), Job: job.Name})
		if err != nil {
			body.Unknown = err.Error()
			break
		}
		body.Pass = append(body.Pass, w)
	}
	p, _ := client.Plan(ctx) // empty if the ledger is away
	for _, f := range p.Limits {
		if f.Credential == job.Credential && slices.ContainsFunc(f.Shares, func(s plan.JobDemand) bool { return s.Job == job.Name }) {
			body.Schedule = append(body.Schedule, f)
		}
	}
	list, err := client.Refusals(ctx)
	body.Refused = slices.DeleteFunc(list.Refusals, func(r api.Refusal) bool { return r.By != job.Name })
	return body, err
}

func (body whyJob) missing() (missing int64, err error) {
	for _, w := range body.Pass {
		missing = max(missing, maxMissing(w))
	}
	return missing, nil
}

func whyJobPage(body whyJob, v term.View) string {
	var b strings.Builder
	j := body.Job
	renderJob(&b, j, v)
	switch {
	case body.Unknown != "":
		v.Item(&b, 2, "next pass: ", "not known: "+body.Unknown)
	case len(body.Pass) == 0:
		v.Item(&b, 2, "next pass: ", "has no expects: quotad starts it whatever is left")
	}
	for _, w := range body.Pass {
		renderPass(&b, w, v)
	}
	for _, f := range body.Schedule {
		if f.Over() > 0 {
			renderFit(&b, f, v)
		}
	}
	refused := "nothing in the last day"
	if len(body.Refused) > 0 {
		r := body.Refused[0]
		refused = fmt.Sprintf("%s: %s%s: %s", v.When(r.At), regions.Region(r.Region).Before(), wording.RefusedWhat(r), wording.Refused(r, v))
		if n := len(body.Refused) - 1; n > 0 {
			refused += fmt.Sprintf("; %d more: quotactl refusals --job %s", n, j.Name)
		}
	}
	v.Item(&b, 2, "refused last: ", refused)
	if j.Pause != nil {
		v.Item(&b, 2, "do: ", "quotactl resume "+j.Name)
	}
	return b.String()
}

// renderPass says whether the calls of an operation fit that a pass expects.
func renderPass(b *strings.Builder, w api.Why, v term.View) {
	text := verdict(w)
	if w.RetryAt != nil {
		text += "; fits " + v.When(*w.RetryAt)
	}
	v.Item(b, 2, "next pass: ", text)
	if !w.Granted {
		v.Item(b, 4, "do: ", fmt.Sprintf("quotactl why %s %s --job %s says what would change", w.Credential, w.Operation, w.Job))
	}
}
