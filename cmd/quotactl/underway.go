package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota/api"
)

// inTheWay tells whether an error is that a run of the job is under way.
func inTheWay(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Reason == api.Conflict && strings.Contains(p.Detail, jobs.ErrUnderWay.Error())
}

// underWayHint says what to do about the run that is in the way of an error. It is
// only a hint, so an error on the way to it is not told.
func (c *cli) underWayHint(ctx context.Context, err error, job string) string {
	j, askErr := c.operator().Job(ctx, job)
	switch {
	case askErr != nil || j.LastRun == nil || j.LastRun.State != jobs.RunRunning:
		return "wait until it is over: quotactl runs --job " + job
	case strings.Contains(err.Error(), j.LastRun.ID): // a daemon names its own
		return "wait until it is over, or end it: quotactl stop " + j.LastRun.ID
	default:
		return "wait until it is over, or end it" + there(*j.LastRun) + ": quotactl stop " + j.LastRun.ID
	}
}

// there names the host of a run that another daemon has.
func there(r jobs.Run) string {
	if r.Host == "" {
		return " on its host"
	}
	return " on " + r.Host
}

// explainRun explains an error of a request about a run: what was named may be a
// job, or a run that is over or elsewhere.
func (c *cli) explainRun(ctx context.Context, err error, name string) error {
	err = c.explain(err)
	var f *failure
	if !errors.As(err, &f) || f.code != exitNotFound || f.hint != "" {
		return err
	}
	f.hint = "quotactl runs lists them"
	if run, askErr := c.operator().Run(ctx, name); askErr == nil {
		f.hint = whereHint(run)
	} else if list, askErr := c.operator().Jobs(ctx); askErr == nil {
		if i := slices.IndexFunc(list, func(j jobsapi.Job) bool { return j.Name == name }); i >= 0 {
			f.hint = jobHint(list[i])
		}
	}
	return err
}

// whereHint says of a run that is known why it cannot be ended here.
func whereHint(r jobs.Run) string {
	if r.State == jobs.RunRunning {
		return "it is under way" + there(r) + ": end it there"
	}
	return fmt.Sprintf("it is over (%s): quotactl runs show %s", r.State, r.ID)
}

// jobHint names the run that was probably meant by the name of its job.
func jobHint(j jobsapi.Job) string {
	switch {
	case j.LastRun == nil:
		return j.Name + " is a job, which has not run yet"
	case j.LastRun.State == jobs.RunRunning:
		return fmt.Sprintf("%s is a job: its run under way is %s", j.Name, j.LastRun.ID)
	default:
		return fmt.Sprintf("%s is a job: its last run was %s, and none is under way", j.Name, j.LastRun.ID)
	}
}
