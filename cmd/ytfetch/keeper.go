package main

import (
	"fmt"
	"time"

	"quotad/cmd/ytfetch/store"
	"quotad/quota"
)

// Stored are the pages that this process stored, with how many videos are on each.
type stored map[int]int

// String says what is stored: "150 videos on 3 pages".
func (s stored) String() string {
	videos := 0
	for _, items := range s {
		videos += items
	}
	return quota.Count(videos, "video", "videos") + " on " + quota.Count(len(s), "page", "pages")
}

// A database keeps pages in the one file of a directory.
type database struct {
	file      *store.Store
	region    string
	query     string // empty: of the region's chart
	arguments string // of the chart
	now       func() time.Time
	stored
}

var (
	_ keeper = (*database)(nil)
	_ keeper = (*jsonLines)(nil)
)

func (d *database) where() string { return d.file.Path() }

func (d *database) unknown(ids []string) ([]string, error) { return d.file.Unknown(ids) }

func (d *database) write(at place, got page, last bool) error {
	err := d.file.Save(store.Page{
		Chart:  d.chart(at.chart),
		Number: at.number, First: (at.number-1)*perPage + 1,
		Items: got.Items, Found: got.Found, Next: got.Next, Done: last, At: d.now(),
	})
	if err != nil {
		return fmt.Errorf("cannot store page %d: %w", at.number, err)
	}
	d.stored[at.number] = len(got.Items)
	return nil
}

func (d *database) chart(slot time.Time) store.Chart {
	return store.Chart{Region: d.region, Query: d.query, Slot: slot, Arguments: d.arguments}
}

// resume returns the place after what is stored of the chart that a bookmark names; the
// first page where there is none, or all of it is stored.
func (d *database) resume(at place) (place, error) {
	if at.chart.IsZero() {
		return at, nil // of no chart, or by an older ytfetch
	}
	progress, err := d.file.Progress(d.chart(at.chart))
	switch {
	case err != nil:
		return at, fmt.Errorf("cannot read what is stored: %w", err)
	case progress.Done:
		return firstPage(at.chart), nil
	case progress.Pages >= at.number:
		return at.page(progress.Pages+1, progress.Next), nil
	default:
		return at, nil
	}
}

// fresh says why the region's chart need not be fetched: it was begun less than a span ago, both
// by the clock and by the slots. With every = "10m" slots are 10m apart, though a pass may begin
// a second late. It is empty otherwise.
func (d *database) fresh(slot time.Time, span time.Duration) (why string, err error) {
	last, began, found, err := d.file.Latest(d.chart(slot))
	if err != nil {
		return "", fmt.Errorf("cannot read what is stored: %w", err)
	}
	age := d.now().Sub(began)
	if !found || age < 0 || age >= span || slot.Sub(last) >= span {
		return "", nil
	}
	what := d.region + " was fetched"
	if d.query != "" {
		what = fmt.Sprintf("%s was searched for %q", d.region, d.query)
	}
	return fmt.Sprintf("%s %v ago by the same arguments, less than --fresh %v: nothing to do", what, age.Round(time.Second), span), nil
}
