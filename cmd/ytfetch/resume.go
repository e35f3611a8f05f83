package main

import (
	"fmt"
	"time"
)

// A search finds what upstream's index has. Videos that were published this long before the last
// search may have been missing there: the next one asks for them again, and finds most of them
// stored.
const indexTime = time.Hour

// resume makes the pass begin where its bookmark says, after what is stored already. done says
// why nothing is to be fetched; it is empty if something is.
func (p *pass) resume() (done string, err error) {
	at, ok := parsePlace(p.bookmark)
	if !ok {
		p.say("the bookmark %q is not of ytfetch: beginning at page 1", p.bookmark)
	}
	if at.query != p.query { // its tokens are not valid for this one
		if at != firstPage(time.Time{}) {
			p.say("the bookmark is of %s: beginning at page 1", at.of())
		}
		at = firstPage(time.Time{})
	}
	if at, done, err = p.afterStored(at); err != nil {
		return "", fmt.Errorf("cannot read what is stored: %w", err)
	}
	switch {
	case at.isFirst(), p.pages != 0 && at.number > p.pages:
		at = p.first()
	case at.chart.IsZero():
		at.chart = p.slot
	}
	p.begin = at
	return done, nil
}

// of says what a place is in.
func (at place) of() string {
	if at.query == "" {
		return "a chart"
	}
	return fmt.Sprintf("another query, %q", at.query)
}

// afterStored returns the place after what is stored of the chart that a bookmark names; the
// first page where there is none, or all of it is stored. A search then begins where the last
// one of the same query and arguments ended. done says that the region's chart was begun lately.
func (p *pass) afterStored(at place) (begin place, done string, err error) {
	last, began, found, err := p.file.Latest(p.chartOf(p.slot))
	if err != nil {
		return at, "", err
	}
	if found && p.query != "" && last.Before(p.slot) {
		p.after = last.Add(-indexTime)
	}
	if !at.chart.IsZero() { // else of no chart, or by an older ytfetch
		progress, err := p.file.Progress(p.chartOf(at.chart))
		switch {
		case err != nil:
			return at, "", err
		case progress.Done:
			at = firstPage(at.chart)
		case progress.Pages >= at.number:
			at = at.page(progress.Pages+1, progress.Next)
		}
	}
	if found && at.isFirst() {
		done = p.lately(last, began)
	}
	return at, done, nil
}

// lately says why the region's chart need not be fetched: it was begun less than --fresh ago, both
// by the clock and by the slots. With every = "10m" slots are 10m apart, though a pass may begin
// a second late. It is empty otherwise.
func (p *pass) lately(last, began time.Time) string {
	age := p.now().Sub(began)
	if age < 0 || age >= p.fresh || p.slot.Sub(last) >= p.fresh {
		return ""
	}
	what := p.region + " was fetched"
	if p.query != "" {
		what = fmt.Sprintf("%s was searched for %q", p.region, p.query)
	}
	return fmt.Sprintf("%s %v ago by the same arguments, less than --fresh %v: nothing to do", what, age.Round(time.Second), p.fresh)
}
