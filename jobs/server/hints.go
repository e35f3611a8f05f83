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
		problem := api.NewProblem(api.Conflict, "%v", err)
		if j, err := h.runner.Status(of.job); err == nil && j[0].Last != nil {
			return problem.WithHint("wait until it is over, or end it: quotactl stop " + j[0].Last.ID)
		}
		return problem
	case errors.Is(err, jobs.ErrStopping):
		return api.NewProblem(api.Conflict, "%v", err)
	}
	return err
}

// jobHint suggests the job or the region that was probably meant by an unknown one.
func (h handlers) jobHint(of subject) string {
	all, _ := h.runner.Status("") // without an error: only a name can be unknown
	var names, ring []string
	for _, j := range all {
		if names = append(names, j.Name); j.Name == of.job {
			for _, region := range j.Regions {
				ring = append(ring, string(region))
			}
		}
	}
	for _, region := range of.regions {
		if ring != nil && !slices.Contains(ring, string(region)) {
			return quota.DidYouMean(string(region), ring, "regions of "+of.job)
		}
	}
	return quota.DidYouMean(of.job, names, "jobs")
}

// runHint says what is known of a run that is not under way here.
func (h handlers) runHint(id string) string {
	if run, err := h.runner.RunOf(id); err == nil {
		return fmt.Sprintf("it is over (%s): quotactl runs %s", run.State, run.ID)
	}
	return "quotactl runs lists them"
}
