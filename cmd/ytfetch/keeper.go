package main

import (
	"time"

	"quotad/cmd/ytfetch/store"
)

// A database keeps the pages of a pass in the one file of a directory.
type database struct {
	pass *pass
	file *store.Store
}

var (
	_ keeper = (*database)(nil)
	_ keeper = (*jsonLines)(nil)
)

func (d *database) where() string { return d.file.Path() }

func (d *database) unknown(ids []string) ([]string, error) { return d.file.Unknown(ids) }

func (d *database) write(at place, got page, last bool) error {
	return d.file.Save(store.Page{
		Chart:  d.chart(at.chart),
		Number: at.number, First: (at.number-1)*perPage + 1,
		Items: got.Items, Found: got.Found, Next: got.Next, Done: last, At: d.pass.now(),
	})
}

func (d *database) chart(slot time.Time) store.Chart {
	return store.Chart{Region: d.pass.region, Query: d.pass.query, Slot: slot, Arguments: d.pass.arguments()}
}
