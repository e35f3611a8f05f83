package boltledger

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/seedtest"
	"quotad/quota/slidinglog"
)

// A clock that is set back frees nothing, and an operator is told; one that is set right goes
// on, and a reset is the way out.
func TestClockAheadAndBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	clock := ledgertest.NewClock(noon())
	l := openLedger(t, Config{Path: path}, clock)
	c := plenty(credential)
	c.Limits[0].Units = 2
	grant := func(want bool) quota.Decision {
		t.Helper()
		d, err := acquire(t, l, c, "")
		must(t, err)
		if d.Granted() != want {
			t.Fatalf("at %v: %+v, want granted %t", clock.Now(), d, want)
		}
		return d
	}
	again := func() {
		t.Helper()
		must(t, l.Close())
		l = openLedger(t, Config{Path: path}, clock)
		usedOf(t, l, c)
	}
	grant(true)
	clock.Add(30 * time.Hour)
	grant(true)
	clock.Add(-30 * time.Hour)
	for range 2 {
		warned := strings.Join(l.Health(t.Context()).Clock, "")
		if !strings.Contains(warned, "ahead of the clock") || !strings.Contains(warned, "quotactl reset youtube") {
			t.Errorf("of a log that is ahead it warns %q", warned)
		}
		again()
	}
	grant(true) // the first has left: time goes on from the newest entry
	if d := grant(false); !d.RetryAt.Equal(clock.Now().Add(54 * time.Hour)) {
		t.Errorf("retry at %v", d.RetryAt)
	}
	must(t, l.Reset(t.Context(), c, quota.Caller{}, "the clock was ahead"))
	grant(true)
	again()
	grant(true)
	d := grant(false)
	clock.Set(d.RetryAt)
	grant(true)
	if warned := l.Health(t.Context()).Clock; len(warned) > 0 {
		t.Errorf("after a reset it warns %q", warned)
	}
	must(t, l.Close())
}

// Each credential has a log of its own, however many there are.
func TestAThousandCredentials(t *testing.T) {
	seedtest.SkipUnderRace(t)
	path := filepath.Join(t.TempDir(), "ledger.db")
	clock := ledgertest.NewClock(noon())
	const n = 1000
	l := openLedger(t, Config{Path: path, Unsynced: true}, clock)
	for i := range 3 * n {
		_, err := acquire(t, l, plenty(fmt.Sprint("c", i%n)), "call")
		must(t, err)
		if i == n {
			must(t, l.Fold())
		}
	}
	for range 2 {
		for i := range n {
			if used := usedOf(t, l, plenty(fmt.Sprint("c", i))); used != 1 {
				t.Fatalf("credential %d holds %d units, want 1", i, used)
			}
		}
		must(t, l.Close())
		l = openLedger(t, Config{Path: path}, clock)
	}
	must(t, l.Close())
}

// What another version of quotad keeps in a file is not read, and whoever starts is told what
// to do; so is who takes a state directory to another kind of ledger.
func TestStateOfOthers(t *testing.T) {
	clock := ledgertest.NewClock(noon())
	for name, row := range map[string]struct {
		change func(t *testing.T, f *File)
		store  slidinglog.Store
		want   []string
	}{
		"head of another version":  {func(t *testing.T, f *File) { must(t, f.SetHead([]byte(`{"Version":2}`))) }, nil, []string{"another version of quotad", "install that version again, or move ledger.db* away"}},
		"head that is damaged":     {func(t *testing.T, f *File) { must(t, f.SetHead([]byte(`{`))) }, nil, []string{"damaged"}},
		"facts of another version": {func(t *testing.T, f *File) { must(t, fold(f, factsOf(`{"Version":1}`))) }, nil, []string{"another version of quotad", credential, "move ledger.db* away"}},
		"facts that are damaged":   {func(t *testing.T, f *File) { must(t, fold(f, factsOf(`{`))) }, nil, []string{"damaged", credential}},
		"to redis":                 {func(*testing.T, *File) {}, &ledgertest.SimStore{}, []string{`backend = "embedded"`, "state_dir", "move ledger.db* away"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			l := openLedger(t, Config{Path: path}, clock)
			_, err := acquire(t, l, plenty(credential), "")
			must(t, errors.Join(err, l.Close()))
			f := mustOpen(t, path)
			defer func() { must(t, f.Close()) }()
			row.change(t, f)
			store := ""
			if row.store != nil {
				store = row.store.Name()
			}
			checked := slidinglog.CheckFile(f, []string{credential}, store)
			l, err = slidinglog.Open(slidinglog.Config{File: f, Store: row.store, Clock: clock.Now, Manual: true})
			if err == nil {
				_, err = acquire(t, l, plenty(credential), "")
			}
			for _, err := range []error{checked, err} {
				for _, want := range row.want {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("got %v, want it to say %q", err, want)
					}
				}
			}
		})
	}
}

func factsOf(text string) slidinglog.TableChange {
	return slidinglog.TableChange{Credential: credential, Facts: []byte(text)}
}
