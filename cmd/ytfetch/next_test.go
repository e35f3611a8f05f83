package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// next runs a pass that finds a bookmark, as its job's options have it, and returns its
// exit code and what it said.
func (r *passRun) next(ctx context.Context, bookmark string, fresh time.Duration) (code int, said string) {
	r.t.Helper()
	var log bytes.Buffer
	p := *r.pass
	p.slot, p.say = r.clock.Now(), func(format string, args ...any) { fmt.Fprintf(&log, format+"\n", args...) }
	p.bookmark, p.fresh = bookmark, fresh
	code = report(&log, p.start(ctx))
	return code, log.String()
}

func (r *passRun) wantStored(videos, appearances int) {
	r.t.Helper()
	if gotVideos, gotAppearances := countRows(r.t, r.out, "videos"), countRows(r.t, r.out, "appearances"); gotVideos != videos || gotAppearances != appearances {
		r.t.Errorf("got %d videos, %d appearances, want %d and %d", gotVideos, gotAppearances, videos, appearances)
	}
}

// The pass before was killed when a page was stored and quotad not told yet: the bookmark
// names a page that is there. The next pass goes on behind it.
func TestPageThatTheBookmarkNamesMayBeStored(t *testing.T) {
	for _, page := range []int{1, 2, 3} {
		t.Run(fmt.Sprintf("page %d", page), func(t *testing.T) {
			d := newRun(t, envConfig{limit: int64(page), quota: 100})
			d.next(t.Context(), "", 0)
			before := d.marks.all()[page-1]
			if !strings.HasPrefix(before, fmt.Sprint(page, " ")) {
				t.Fatalf("got bookmarks %q", d.marks.all())
			}
			for pages := page; pages < 4; pages++ { // of a limit that may be smaller than what is left
				d.clock.Add(25 * time.Hour)
				code, said := d.next(t.Context(), before, 0)
				if want := fmt.Sprintf("continuing at page %d\n", pages+1); pages == page && !strings.HasPrefix(said, want) {
					t.Errorf("exit code %d, want %q:\n%s", code, want, said)
				}
				if code == exitOK {
					break
				}
				marks := d.marks.all()
				before = marks[len(marks)-1]
			}
			d.wantStored(200, 200)
			if calls := d.upstream.Counts().Requests; calls != 4 {
				t.Errorf("got %d calls, want one for each page", calls)
			}
		})
	}
}

// A chart that is whole is not gone on with.
func TestBookmarkOfAChartThatIsWhole(t *testing.T) {
	d := newRun(t, envConfig{limit: 100, quota: 100})
	d.next(t.Context(), "", 0)
	marks := d.marks.all()
	d.clock.Add(time.Hour)
	if code, said := d.next(t.Context(), marks[len(marks)-1], defaultFresh); code != exitOK || strings.Contains(said, "going on") {
		t.Errorf("exit code %d:\n%s", code, said)
	}
	d.wantStored(200, 400)
}

// The bookmark is of another host's chart: nothing of it is stored here.
func TestBookmarkOfAChartThatIsNotStored(t *testing.T) {
	d := newRun(t, envConfig{limit: 100, quota: 100})
	d.next(t.Context(), "", 0)
	token := strings.Fields(d.marks.all()[2])[1]
	code, said := d.next(t.Context(), place{3, token, d.clock.Now().Add(-time.Hour), found{}}.bookmark(), 0)
	if code != exitOK || !strings.HasPrefix(said, "continuing at page 3\n") {
		t.Errorf("exit code %d:\n%s", code, said)
	}
}

func TestFreshRegionIsNotFetchedAgain(t *testing.T) {
	d := newRun(t, envConfig{limit: 100, quota: 100})
	d.next(t.Context(), "", defaultFresh)
	for _, row := range []struct {
		name  string
		after time.Duration
		set   func(*options)
		calls int
	}{
		{"at once", 0, nil, 4},
		{"a moment too early", defaultFresh - time.Second, nil, 4},
		{"other arguments", 0, func(o *options) { o.pages = 1 }, 5},
		{"another source", 0, func(o *options) { o.sample = true }, 9},
		{"late enough", time.Second, nil, 13},
	} {
		d.clock.Add(row.after)
		before := d.pass.options
		if row.set != nil {
			row.set(&d.pass.options)
		}
		code, said := d.next(t.Context(), "", defaultFresh)
		d.pass.options = before
		if got := d.upstream.Counts().Requests; code != exitOK || got != row.calls {
			t.Errorf("%s: exit code %d, %d calls, want %d:\n%s", row.name, code, got, row.calls, said)
		}
	}
}

// A chart that is not whole is not fresh, nor one whose slot is a period ago.
func TestFreshNeedsAWholeChart(t *testing.T) {
	d := newRun(t, envConfig{limit: 2, quota: 100})
	d.next(t.Context(), "", defaultFresh)
	marks := d.marks.all()
	if code, said := d.next(t.Context(), marks[len(marks)-1], defaultFresh); code != exitDenied {
		t.Errorf("exit code %d, want that it asks:\n%s", code, said)
	}
}

// What was fetched longer ago than --retain goes at the end of a pass, and nothing before.
func TestPassRemovesWhatIsTooOld(t *testing.T) {
	d := newRun(t, envConfig{limit: 100, quota: 100})
	d.next(t.Context(), "", 0)
	d.clock.Add(23 * time.Hour)
	d.next(t.Context(), "", 0)
	d.clock.Add(defaultRetain)
	d.pass.pages = 1
	if _, said := d.next(t.Context(), "", 0); strings.Contains(said, "removed") { // of the first chart the places go, whose videos were seen since
		t.Errorf("got:\n%s", said)
	}
	d.wantStored(200, 250)
	d.clock.Add(time.Second)
	if _, said := d.next(t.Context(), "", 0); !strings.HasSuffix(said, "removed 150 videos, fetched more than 30 days ago\n") {
		t.Errorf("got:\n%s", said)
	}
	d.wantStored(50, 100)
	d.clock.Add(2 * defaultRetain)
	d.pass.retain = 0
	d.next(t.Context(), "", 0)
	d.wantStored(50, 150)
}
