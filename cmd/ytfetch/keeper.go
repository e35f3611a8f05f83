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

// A database keeps the pages of a pass in the one file of a directory.
type database struct {
	pass *pass
	file *store.Store
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
		Items: got.Items, Found: got.Found, Next: got.Next, Done: last, At: d.pass.now(),
	})
	if err != nil {
		return fmt.Errorf("cannot store page %d: %w", at.number, err)
	}
	d.stored[at.number] = len(got.Items)
	return nil
}

func (d *database) chart(slot time.Time) store.Chart {
	return store.Chart{Region: d.pass.region, Query: d.pass.query, Slot: slot, Arguments: d.pass.arguments()}
}
