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
	case errors.Is(err, jobs.ErrUnknown):
		return api.NewProblem(api.NotFound, "%v", err).WithHint(h.knownHint(of))
	case errors.Is(err, jobs.ErrInvalid):
		return api.NewProblem(quota.BadRequest, "%v", err)
	case errors.Is(err, jobs.ErrUnderWay):
		return api.NewProblem(api.Conflict, "%v", err).WithHint(h.underWayHint(of.job))
	case errors.Is(err, jobs.ErrStopping):
		return api.NewProblem(api.Conflict, "%v", err)
	}
	return err
}

// knownHint suggests the name that was probably meant by an unknown one.
func (h handlers) knownHint(of subject) string {
	if of.run != "" {
		return h.runHint(of.run)
	}
	all, err := h.runner.Status("")
	if err != nil {
		return ""
	}
	i := slices.IndexFunc(all, func(j jobs.Status) bool { return j.Name == of.job })
	if i < 0 {
		names := make([]string, len(all))
		for i, j := range all {
			names[i] = j.Name
		}
		return quota.DidYouMean(of.job, names, "jobs")
	}
	ring := make([]string, len(all[i].Regions))
	for k, region := range all[i].Regions {
		ring[k] = string(region)
	}
	for _, region := range of.regions {
		if !slices.Contains(ring, string(region)) {
			return quota.DidYouMean(string(region), ring, "regions of "+of.job)
		}
	}
	return ""
}

// underWayHint says what to do about the job's run under way, here or on another host.
func (h handlers) underWayHint(job string) string {
	j, err := h.runner.Status(job)
	if err != nil || j[0].Last == nil || j[0].Last.State != jobs.RunRunning {
		return "wait until it is over: quotactl runs " + job
	}
	return "wait until it is over, or end it: quotactl stop " + j[0].Last.ID
}

// runHint says what is known of a run that is not under way here. The name may be that of a job.
func (h handlers) runHint(name string) string {
	if run, err := h.runner.RunOf(name); err == nil {
		return fmt.Sprintf("it is over (%s): quotactl runs %s", run.State, run.ID)
	}
	if j, err := h.runner.Status(name); err == nil {
		return jobHint(name, j[0].Last)
	}
	return "quotactl runs lists them"
}

// jobHint names the run that was probably meant by the name of its job.
func jobHint(job string, last *jobs.Run) string {
	switch {
	case last == nil:
		return job + " is a job, which has not run yet"
	case last.State == jobs.RunRunning:
		return fmt.Sprintf("%s is a job: its run under way is %s", job, last.ID)
	}
	return fmt.Sprintf("%s is a job: its last run was %s, and none is under way", job, last.ID)
}
