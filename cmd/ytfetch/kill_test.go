package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	"quotad/cmd/ytfetch/store"
	"quotad/cmd/ytfetch/upstream"
	"quotad/quota/seedtest"
)

// A fetch is killed at any moment and goes on: what is stored is what was debited, but for
// at most one page for each kill, which was acquired and not stored; the next pass begins
// with it. No page is paid for again.
func TestKilledFetch(t *testing.T) {
	kills := seedtest.Long(t, 8)
	f := newKilledFetch(t)
	random := rand.New(rand.NewPCG(16, 9))
	lost, losses := int64(0), 0
	for i := range kills {
		f.run(i, &killing{call: 1 + random.IntN(4), before: random.IntN(3) == 0, after: time.Duration(random.IntN(12_000)) * time.Microsecond})
		debited, stored := f.debited(), f.stored()
		now := debited - stored
		if now < lost || now > lost+1 {
			t.Fatalf("kill %d: %d pages debited, %d stored: %d more than before are missing", i, debited, stored, now-lost)
		}
		if now > lost {
			losses++
		}
		lost = now
		f.checkNext(i)
	}
	f.run(kills, nil)
	if debited, stored := f.debited(), f.stored(); debited-stored != lost {
		t.Errorf("%d pages debited, %d stored, %d missing at the last kill", debited, stored, lost)
	}
	t.Logf("%d pages stored over %d kills, %d of which came between a page's debit and its commit", f.stored(), kills, losses)
}

// A killing says when to end a pass: at its call-th call upstream, before or so long after
// that is answered.
type killing struct {
	call   int
	before bool
	after  time.Duration
}

type killedFetch struct {
	*testEnv
	t     *testing.T
	dir   string
	calls chan chan struct{}
	tube  *httptest.Server
	slots []time.Time
}

func newKilledFetch(t *testing.T) *killedFetch {
	e, err := openEnv(envConfig{limit: 1_000_000, quota: 1_000_000, pages: 12})
	if err != nil {
		t.Fatal(err)
	}
	f := &killedFetch{testEnv: e, t: t, dir: t.TempDir(), calls: make(chan chan struct{})}
	f.tube = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answered := make(chan struct{})
		defer close(answered)
		select {
		case f.calls <- answered: // whoever kills waits for this one
		case <-r.Context().Done():
		}
		e.upstream.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		f.tube.Close()
		if err := e.close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// run runs a pass, which is killed, unless it ends before that.
func (f *killedFetch) run(i int, kill *killing) {
	f.t.Helper()
	slot := f.clock.Now().Add(time.Duration(i) * time.Minute)
	f.slots = append(f.slots, slot)
	pass := exec.Command("ytfetch", "trending", "--base-url", f.tube.URL+upstream.Path, "--out", f.dir, "--fresh", "0", "--retain", "0")
	pass.Env = append(os.Environ(), "YOUTUBE_API_KEY="+secret, "QUOTAD_SOCKET="+f.socket(), "QUOTAD_TOKEN="+runToken, "QUOTAD_CREDENTIAL=youtube",
		"QUOTAD_REGION=DE", "QUOTAD_SCHEDULED_AT="+slot.Format(time.RFC3339), "QUOTAD_DEADLINE=", "QUOTAD_JOB_DIR="+f.dir)
	if err := pass.Start(); err != nil {
		f.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- pass.Wait() }()
	for call := 1; ; call++ {
		select {
		case answered := <-f.calls:
			if kill == nil || call < kill.call {
				continue
			}
			if !kill.before {
				<-answered
				time.Sleep(kill.after) // the moment: while the page is stored, or quotad told
			}
			pass.Process.Kill()
			<-ended
			return
		case err := <-ended:
			if err != nil {
				f.t.Fatalf("the pass fails: %v", err)
			}
			return
		}
	}
}

func (f *killedFetch) debited() int64 {
	f.t.Helper()
	used, err := f.used()
	if err != nil {
		f.t.Fatal(err)
	}
	return used
}

// stored counts the pages of all charts.
func (f *killedFetch) stored() int64 {
	f.t.Helper()
	pages := 0
	f.open(func(p *pass) {
		for _, slot := range f.slots {
			progress, err := p.file.Progress(p.chartOf(slot))
			if err != nil {
				f.t.Fatal(err)
			}
			pages += progress.Pages
		}
		if got, want := countRows(f.t, f.dir, "appearances"), pages*perPage; got != want {
			f.t.Errorf("got %d places of %d pages, want %d", got, pages, want)
		}
	})
	return int64(pages)
}

// checkNext looks where the next pass begins: behind what is stored of the chart.
func (f *killedFetch) checkNext(i int) {
	f.t.Helper()
	left := (&options{region: "DE", jobDir: f.dir}).left()
	at, ok := parsePlace(left)
	if !ok {
		f.t.Fatalf("kill %d: bookmark %q", i, left)
	}
	f.open(func(p *pass) {
		p.bookmark = left
		_, err := p.resume()
		progress, _ := p.file.Progress(p.chartOf(at.chart))
		if next := p.begin; err != nil || !progress.Done && next.number != progress.Pages+1 {
			f.t.Errorf("kill %d: the next pass begins at page %d, %v, though %d are stored", i, next.number, err, progress.Pages)
		}
	})
}

func (f *killedFetch) open(do func(*pass)) {
	f.t.Helper()
	file, err := store.Open(f.dir)
	if err != nil {
		f.t.Fatal(fmt.Errorf("after a kill: %w", err))
	}
	defer file.Close()
	do(&pass{options: options{region: "DE"}, now: time.Now, file: file})
}
