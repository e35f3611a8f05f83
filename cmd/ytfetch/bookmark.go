package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A place is where a pass begins in a chart, or in what a query finds. As a bookmark it is "6
// CDIQAA 20261121T120000Z": the number of the page, its token, and the slot of the pass that
// began the chart, which identifies the chart. The first page has no token. A query adds
// "after=20261120T110000Z&query=golden+river".
type place struct {
	number int
	token  string
	chart  time.Time // zero: the bookmark does not say
	found
}

// Found is what the place of a query has in addition. Zero: the place is in a chart.
type found struct {
	query string
	after time.Time // the search leaves out what was published before
	ids   string    // of the page, with a dot between two: upstream has found them, and they are not stored yet
	next  string    // the token of the page after it, if ids are there
}

// slotLayout is how a slot is written in names, in UTC.
const slotLayout = "20060102T150405Z"

func firstPage(chart time.Time) place { return place{number: 1, chart: chart} }

// isFirst reports whether nothing was fetched yet.
func (at place) isFirst() bool { return at.number == 1 && at.ids == "" }

// page returns the place of another page of the same chart.
func (at place) page(number int, token string) place {
	return place{number, token, at.chart, found{query: at.query, after: at.after}}
}

// written is the form of a bookmark. An older ytfetch left none of its chart.
var written = regexp.MustCompile(`^(\d+)(?: (\S+))??(?: (\d{8}T\d{6}Z))?(?: (\S*query=\S*))?$`)

// parsePlace reads a bookmark. An empty one is the first page of no chart.
func parsePlace(bookmark string) (at place, ok bool) {
	part := written.FindStringSubmatch(cmp.Or(bookmark, "1"))
	if part == nil {
		return firstPage(time.Time{}), false
	}
	number, err := strconv.Atoi(part[1])
	at = place{number: number, token: part[2]}
	if err == nil && part[3] != "" {
		at.chart, err = time.Parse(slotLayout, part[3])
	}
	if err == nil && part[4] != "" {
		at.found, err = parseFound(part[4])
	}
	if err != nil || number < 1 || (number == 1) != (at.token == "") {
		return firstPage(time.Time{}), false
	}
	return at, true
}

func (at place) bookmark() string {
	fields := []string{strconv.Itoa(at.number)}
	if at.token != "" {
		fields = append(fields, at.token)
	}
	fields = append(fields, at.chart.UTC().Format(slotLayout))
	if at.query != "" {
		fields = append(fields, at.found.String())
	}
	return strings.Join(fields, " ")
}

func (f found) String() string {
	values := url.Values{"query": {f.query}, "after": {f.after.UTC().Format(slotLayout)}}
	if f.ids != "" {
		values["ids"], values["next"] = []string{f.ids}, []string{f.next}
	}
	return values.Encode()
}

func parseFound(text string) (f found, err error) {
	values, err := url.ParseQuery(text)
	if err != nil {
		return f, err
	}
	f = found{query: values.Get("query"), ids: values.Get("ids"), next: values.Get("next")}
	f.after, err = time.Parse(slotLayout, values.Get("after"))
	return f, err
}

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

// leave sets where the next pass of the region begins. It is called when a chart is begun
// and after each page, not when the pass ends: a killed pass has no time for it. If it fails, the pass
// continues, and the next one fetches again what is already there.
func (p *pass) leave(at place) {
	if err := p.keep(at.bookmark()); err != nil {
		p.say("cannot leave a bookmark at page %d: %v", at.number, err)
	}
}

// keepFile replaces the bookmark of the region; an empty one removes it. By hand there is no next pass.
func (o *options) keepFile(text string) error {
	if o.jobDir == "" {
		return nil
	}
	if text == "" {
		if err := os.Remove(o.bookmarkFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	next := o.bookmarkFile() + ".new"
	if err := os.WriteFile(next, []byte(text+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(next, o.bookmarkFile())
}

func (o *options) bookmarkFile() string {
	return filepath.Join(o.jobDir, "page."+url.PathEscape(o.region))
}

// left returns the bookmark of the region, empty if there is none.
func (o *options) left() string {
	if o.jobDir == "" {
		return ""
	}
	text, _ := os.ReadFile(o.bookmarkFile())
	return strings.TrimSuffix(string(text), "\n")
}
