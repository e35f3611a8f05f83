package server

import (
	"context"

	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/server"
	"quotad/regions"
)

// owner returns the region of the pass that calls.
func owner(c *server.Session) (job string, region regions.Region, err error) {
	if c.Caller.Region == "" {
		return "", "", api.NewProblem(quota.BadRequest, "only a pass, by its run token, has a bookmark: without one name job and region, quotactl bookmark JOB REGION")
	}
	return c.Caller.Job, regions.Region(c.Caller.Region), nil
}

func (h handlers) ownBookmark(_ context.Context, c *server.Session, _ server.None) (jobsapi.Bookmark, error) {
	job, region, err := owner(c)
	if err != nil {
		return jobsapi.Bookmark{}, err
	}
	return h.read(job, region)
}

func (h handlers) leaveBookmark(_ context.Context, c *server.Session, in jobsapi.Bookmark) (jobsapi.Bookmark, error) {
	job, region, err := owner(c)
	if err != nil {
		return jobsapi.Bookmark{}, err
	}
	return h.leave(job, region, in.Bookmark)
}

func (h handlers) dropBookmark(_ context.Context, c *server.Session, _ server.None) (jobsapi.Bookmark, error) {
	job, region, err := owner(c)
	if err != nil {
		return jobsapi.Bookmark{}, err
	}
	return h.leave(job, region, "")
}

func (h handlers) bookmark(_ context.Context, c *server.Session, _ server.None) (jobsapi.Bookmark, error) {
	return h.read(c.Path("job"), regions.Region(c.Path("region")))
}

func (h handlers) clearBookmark(_ context.Context, c *server.Session, _ server.None) (jobsapi.Bookmark, error) {
	return h.leave(c.Path("job"), regions.Region(c.Path("region")), "")
}

func (h handlers) read(job string, region regions.Region) (jobsapi.Bookmark, error) {
	text, err := h.runner.Bookmark(job, region)
	if err != nil {
		return jobsapi.Bookmark{}, h.problem(err, subject{job: job, regions: []regions.Region{region}})
	}
	return jobsapi.Bookmark{Bookmark: text}, nil
}

func (h handlers) leave(job string, region regions.Region, text string) (jobsapi.Bookmark, error) {
	if err := h.runner.SetBookmark(job, region, text); err != nil {
		return jobsapi.Bookmark{}, h.problem(err, subject{job: job, regions: []regions.Region{region}})
	}
	return jobsapi.Bookmark{Bookmark: text}, nil
}
