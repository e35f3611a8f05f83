package api

import (
	"context"
	"net/http"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/regions"
)

// owner returns the region of the pass that calls.
func owner(c *api.Call) (job string, region regions.Region, err error) {
	if c.Caller.Region == "" {
		return "", "", api.NewProblem(quota.BadRequest, "only a pass has a bookmark of its own, by its run token: a person names job and region, quotactl bookmark JOB REGION")
	}
	return c.Caller.Job, regions.Region(c.Caller.Region), nil
}

func (s server) ownBookmark(_ context.Context, c *api.Call, _ api.None) (Bookmark, error) {
	job, region, err := owner(c)
	if err != nil {
		return Bookmark{}, err
	}
	return s.read(job, region)
}

func (s server) leaveBookmark(_ context.Context, c *api.Call, in Bookmark) (Bookmark, error) {
	job, region, err := owner(c)
	if err != nil {
		return Bookmark{}, err
	}
	return s.leave(job, region, in.Bookmark)
}

func (s server) dropBookmark(_ context.Context, c *api.Call, _ api.None) (Bookmark, error) {
	job, region, err := owner(c)
	if err != nil {
		return Bookmark{}, err
	}
	return s.leave(job, region, "")
}

func (s server) bookmark(_ context.Context, c *api.Call, _ api.None) (Bookmark, error) {
	return s.read(c.Path("job"), regions.Region(c.Path("region")))
}

func (s server) clearBookmark(_ context.Context, c *api.Call, _ api.None) (Bookmark, error) {
	return s.leave(c.Path("job"), regions.Region(c.Path("region")), "")
}

func (s server) read(job string, region regions.Region) (Bookmark, error) {
	text, err := s.runner.Bookmark(job, region)
	if err != nil {
		return Bookmark{}, s.problem(err, subject{job: job, regions: []regions.Region{region}})
	}
	return Bookmark{text}, nil
}

func (s server) leave(job string, region regions.Region, text string) (Bookmark, error) {
	if err := s.runner.SetBookmark(job, region, text); err != nil {
		return Bookmark{}, s.problem(err, subject{job: job, regions: []regions.Region{region}})
	}
	return Bookmark{text}, nil
}

// Bookmark returns what the last pass of a region left for the next one.
func (c Client) Bookmark(ctx context.Context, job, region string) (Bookmark, error) {
	return ask[Bookmark](ctx, c, http.MethodGet, pathOf("jobs", job, "bookmarks", region), nil)
}

// ClearBookmark has the next pass of a region begin anew.
func (c Client) ClearBookmark(ctx context.Context, job, region string) (Bookmark, error) {
	return ask[Bookmark](ctx, c, http.MethodDelete, pathOf("jobs", job, "bookmarks", region), nil)
}

// LeaveBookmark leaves something for the next pass of the region whose run token the
// client has; empty takes it away.
func (c Client) LeaveBookmark(ctx context.Context, text string) error {
	_, err := ask[Bookmark](ctx, c, http.MethodPut, "/v1/bookmark", Bookmark{text})
	return err
}
