package jobs

import (
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"quotad/regions"
)

// MaxBookmark is how many bytes a bookmark has at most.
const MaxBookmark = 4096

// Bookmark returns what the last pass of a region left for the next one; empty if
// nothing. The error is ErrUnknown.
func (r *Runner) Bookmark(job string, region regions.Region) (string, error) {
	j, err := r.regionOf(job, region)
	if err != nil {
		return "", err
	}
	r.look([]*jobControl{j})
	return j.bookmark(region), nil
}

// SetBookmark replaces what the next pass of a region finds, on whatever host; empty
// takes it away. On return it is on disk, and other hosts know it, or hear of it as soon as they
// can be reached. The errors are ErrUnknown, ErrInvalid and those of the disk.
func (r *Runner) SetBookmark(job string, region regions.Region, text string) error {
	j, err := r.regionOf(job, region)
	if err != nil {
		return err
	}
	if len(text) > MaxBookmark || !utf8.ValidString(text) || hasNUL(text) {
		return fmt.Errorf("%w: a bookmark is text of at most %d bytes without NUL", ErrInvalid, MaxBookmark)
	}
	one := record{Bookmark: &bookmarked{region, text}}
	kept, err := j.decide(context.Background(), func() ([]record, error) { return []record{one}, nil }, nil)
	if err != nil { // they are told as soon as they can be
		return j.note(true, one)
	}
	return kept
}

func (r *Runner) regionOf(job string, region regions.Region) (*jobControl, error) {
	j, err := r.state(job)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(j.current().Regions, region) {
		return nil, fmt.Errorf("region %q of job %q: %w", region, job, ErrUnknown)
	}
	return j, nil
}
