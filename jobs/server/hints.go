package server

import (
	"errors"
	"fmt"
	"slices"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/regions"
)

// A subject is what a request named: a job, perhaps with regions, or a run.
type subject struct {
	job     string
	regions []regions.Region
	run     string
}

// problem returns a runner's error as a problem with its cure; nil: there is none.
func (h handlers) problem(err error, of subject) error {
	switch {
	case errors.Is(err, jobs.ErrUnknown) && of.run != "":
		return api.NewProblem(api.NotFound, "%v", err).WithHint(h.runHint(of.run))
	case errors.Is(err, jobs.ErrUnknown):
		return api.NewProblem(api.NotFound, "%v", err).WithHint(h.jobHint(of))
	case errors.Is(err, jobs.ErrInvalid):
		return api.NewProblem(quota.BadRequest, "%v", err)
	case errors.Is(err, jobs.ErrUnderWay):
		return api.NewProblem(api.Conflict, "%v", err).WithHint(h.underWayHint(of.job))
	case errors.Is(err, jobs.ErrStopping):
		return api.NewProblem(api.Conflict, "%v", err)
	}
	return err
}

// jobHint suggests the job or the region that was probably meant by an unknown one.
func (h handlers) jobHint(of subject) string {
	all, _ := h.runner.Status("") // without an error: only a name can be unknown
	i := slices.IndexFunc(all, func(j jobs.Status) bool { return j.Name == of.job })
	if i < 0 {
		var names []string
		for _, j := range all {
			names = append(names, j.Name)
		}
		return quota.DidYouMean(of.job, names, "jobs")
	}
	var ring []string
	for _, region := range all[i].Regions {
		ring = append(ring, string(region))
	}
	for _, region := range of.regions {
		if !slices.Contains(ring, string(region)) {
			return quota.DidYouMean(string(region), ring, "regions of "+of.job)
		}
	}
	return ""
}

// underWayHint says what to do about the job's run under way.
func (h handlers) underWayHint(job string) string {
	if j, err := h.runner.Status(job); err == nil && j[0].Last != nil && j[0].Last.State == jobs.RunRunning {
		return "wait until it is over, or end it: quotactl stop " + j[0].Last.ID
	}
	return "wait until it is over: quotactl runs " + job
}

// runHint says what is known of a run that is not under way here. The name may be that of a job.
func (h handlers) runHint(name string) string {
	if run, err := h.runner.RunOf(name); err == nil {
		return fmt.Sprintf("it is over (%s): quotactl runs %s", run.State, run.ID)
	}
	j, err := h.runner.Status(name)
	switch {
	case err != nil:
		return "quotactl runs lists them"
	case j[0].Last == nil:
		return name + " is a job, which has not run yet"
	case j[0].Last.State == jobs.RunRunning:
		return fmt.Sprintf("%s is a job: its run under way is %s", name, j[0].Last.ID)
	}
	return fmt.Sprintf("%s is a job: its last run was %s, and none is under way", name, j[0].Last.ID)
}
