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

// underWayHint says what to do about the job's run under way.
func (h handlers) underWayHint(job string) string {
	j, err := h.runner.Status(job)
	if err != nil || j[0].Last == nil || j[0].Last.State != jobs.RunRunning {
		return "wait until it is over: quotactl runs " + job
	}
	return "wait until it is over, or end it" + onHost(j[0].Last) + ": quotactl stop " + j[0].Last.ID
}

// runHint says what is known of a run that is not under way here. The name
// may be that of a job.
func (h handlers) runHint(name string) string {
	if run, err := h.runner.RunOf(name); err == nil {
		return endHint(&run)
	}
	if j, err := h.runner.Status(name); err == nil {
		return jobHint(j[0])
	}
	return "quotactl runs lists them"
}

// endHint says why a known run cannot be stopped here.
func endHint(r *jobs.Run) string {
	if r.State == jobs.RunRunning {
		return "it is under way" + onHost(r) + ": end it there"
	}
	return fmt.Sprintf("it is over (%s): quotactl runs %s", r.State, r.ID)
}

// jobHint names the run that was probably meant by the name of its job.
func jobHint(j jobs.Status) string {
	switch {
	case j.Last == nil:
		return j.Name + " is a job, which has not run yet"
	case j.Last.State == jobs.RunRunning:
		return fmt.Sprintf("%s is a job: its run under way is %s", j.Name, j.Last.ID)
	default:
		return fmt.Sprintf("%s is a job: its last run was %s, and none is under way", j.Name, j.Last.ID)
	}
}

// onHost names the host of a run, if it is known.
func onHost(r *jobs.Run) string {
	if r.Host == "" {
		return ""
	}
	return " on " + r.Host
}
