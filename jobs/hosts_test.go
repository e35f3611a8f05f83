package jobs

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// Which host runs a job is a function of who lives, and of nothing else.
func TestRunsOn(t *testing.T) {
	host := func(name string, ago time.Duration, jobs ...string) Daemon {
		return Daemon{ID: "id of " + name, Name: name, Jobs: jobs, Ago: ago}
	}
	a, b, c := host("a", 0, "fetch"), host("b", time.Second, "fetch", "fill"), host("c", 15*time.Second, "fill")
	dead := func(h Daemon) Daemon { h.Ago = livesFor + time.Millisecond; return h }
	twin := Daemon{ID: "another", Name: "a", Jobs: a.Jobs}
	for _, row := range []struct {
		name, job, on string
		hosts         []Daemon
		want          string // the id; empty: nobody
	}{
		{"the first by name", "fetch", "", []Daemon{b, a, c}, a.ID},
		{"who is dead does not count", "fetch", "", []Daemon{b, dead(a), c}, b.ID},
		{"silent for a while", "fill", "", []Daemon{c}, c.ID},
		{"who lacks the job does not count", "fill", "", []Daemon{a, b, c}, b.ID},
		{"the one that the job names", "fetch", "b", []Daemon{a, b, c}, b.ID},
		{"it is dead", "fetch", "b", []Daemon{a, dead(b), c}, ""},
		{"it lacks the job", "fetch", "c", []Daemon{a, b, c}, ""},
		{"two of one name: the last by id", "fetch", "", []Daemon{a, twin, b}, "id of a"},
		{"in the other order", "fetch", "", []Daemon{twin, a, b}, "id of a"},
		{"nobody lives", "fetch", "", []Daemon{dead(a), dead(b)}, ""},
	} {
		got, found := RunsOn(&Job{Name: row.job, Host: row.on}, row.hosts)
		if got.ID != row.want || found != (row.want != "") {
			t.Errorf("%s: got %q, want %q", row.name, got.ID, row.want)
		}
	}
}

// A job runs on one host at a time. A host that stands by says nothing of good runs; when it takes over, it begins by its
// own cursor, and a good run has its time. The ledger may not have said who lives, or not lately: the slot waits for
// that, until the next one.
func TestAJobRunsOnOneHost(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		other, last, known := Daemon{ID: "2", Name: "A", Jobs: []string{"trending"}}, time.Now(), true
		var mu sync.Mutex // guards all three while a slot waits
		set := func(name string, isKnown bool) {
			mu.Lock()
			defer mu.Unlock()
			other.Name, last, known = name, time.Now(), isKnown
		}
		b := newBed(t, dir, trending(t, 2))
		b.config.Hosts = func() ([]Daemon, time.Duration, bool) {
			mu.Lock()
			defer mu.Unlock()
			return []Daemon{other, {ID: "1", Name: "a", Self: true}}, max(0, time.Since(last)), known
		}
		ticks := func(what string, runs bool) {
			t.Helper()
			last = time.Now().Add(time.Hour) // the ledger is there
			b.forget()
			b.run()
			if ran := len(b.forget()) > 0; ran != runs {
				t.Errorf("%s: ran %v, want %v", what, ran, runs)
			}
		}
		for range 40 {
			ticks("another host is before this one", false)
		}
		if got := b.status(); got.Host != "A" || got.Hosts != "" || !got.Due.IsZero() {
			t.Errorf("got %q, %q and a good run at %v, want that it runs on A", got.Host, got.Hosts, got.Due)
		}
		other.Ago = 16 * time.Second
		if due := b.status().Due; due.Before(b.now().Add(24 * time.Hour)) {
			t.Errorf("it takes over at %v, and a good run is due at %v", b.now(), due)
		}
		ticks("it is silent", true)
		if got := b.status(); got.Host != "" || got.Cursor != "US" || got.Last.Host != "a" {
			t.Errorf("got %+v, want that it runs here", got)
		}
		other.Ago = 0
		ticks("it is back", false)
		other.Jobs = nil
		ticks("it has not the job", true)
		other.Jobs, other.Name = []string{"trending"}, "b"
		ticks("it is behind this one", true)

		known, last = false, time.Now().Add(-time.Hour)
		b.tick()
		b.wait(time.Hour)
		set("b", true)
		if b.wait(time.Second); len(b.forget()) > 0 {
			t.Error("a slot runs after the next one has come")
		}
		set("b", false)
		last = time.Now().Add(-time.Hour)
		b.tick()
		b.wait(30 * time.Minute)
		b.wants()
		set("b", true)
		b.wait(time.Second)
		if len(b.forget()) == 0 {
			t.Error("no run begins once the ledger has answered")
		}
		b.wait(20 * time.Minute)
		other.Name = "A" // as it turns out: what was known before the host was frozen is old
		b.tick()
		time.Sleep(time.Second)
		set("A", true)
		b.wait(time.Minute)
		for _, line := range b.forget() {
			if strings.HasSuffix(line, "run running") {
				t.Error("a host that was frozen runs a slot of another one")
			}
		}
		other.Name = "b"
		b.tick() // Redis stays away: what it said last holds
		b.wait(4 * time.Second)
		if len(b.forget()) == 0 {
			t.Error("while the ledger is away, nobody runs the job")
		}
	})
}

// A job may name its host. It is a trouble if that one is not there for two slots, or has no such job.
func TestTheHostOfAJob(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		var others []Daemon
		job := trending(t, 1)
		job.Host = "z"
		b := newBed(t, dir, job)
		b.config.Hosts = func() ([]Daemon, time.Duration, bool) {
			return append(others, Daemon{ID: "1", Name: "a", Self: true}), 0, true
		}
		z := Daemon{ID: "9", Name: "z", Jobs: []string{"trending"}}
		for _, row := range []struct {
			others []Daemon
			wrong  string
		}{
			{nil, `no daemon is called "z"`},
			{[]Daemon{z}, ""},
			{[]Daemon{{ID: "9", Name: "z"}}, "host z does not schedule it"},
			{[]Daemon{{ID: "9", Name: "z", Jobs: z.Jobs, Ago: 50 * time.Minute}}, ""},
			{[]Daemon{{ID: "9", Name: "z", Jobs: z.Jobs, Ago: 3 * time.Hour}}, "host z has been silent for 3h"},
		} {
			others = row.others
			got := b.status()
			if got.Host != "z" || (got.Hosts == "") != (row.wrong == "") || !strings.Contains(got.Hosts, row.wrong) {
				t.Errorf("%+v: got %q, %q, want z, %q", row.others, got.Host, got.Hosts, row.wrong)
			}
		}
		b.run()
		b.wants()
		job = trending(t, 1)
		job.Host = "a"
		must(t, b.SetJobs([]*Job{job}))
		b.config.Hosts = func() ([]Daemon, time.Duration, bool) { return nil, 0, false }
		b.tick()
		b.wants(ran("12:00:00")...) // it needs no word of the ledger
		b.begun()                   // an operator may run it on every host
		if got := b.status().Last; got == nil || got.Trigger != Manual {
			t.Errorf("got %+v, want a manual run", got)
		}
	})
}
