package redisledger_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger"
	"quotad/quota/slidinglog"
)

// What the checker knows it has from the clients' notes and from Redis itself, and
// it computes anew: nothing of the ledger's own arithmetic.

// A request is one that a client made, asked once or several times.
type request struct {
	marker     string
	credential string
	units      quota.Units
	grant      string // what it was granted, empty if nothing
	outage     bool
	released   bool      // or perhaps
	first      time.Time // when it was asked first
	told       time.Time // when it was granted
	last       quota.Reason
	answered   bool // the last time it was asked
}

// A debit is an entry of the log that stands for a request.
type debit struct {
	id      quota.ID
	at      time.Time
	marker  string
	charges map[string]quota.Units // after settling
}

// requests reads what all clients wrote, by marker.
func (c *campaign) requests() map[string]*request {
	all := make(map[string]*request)
	paths, err := filepath.Glob(filepath.Join(c.dir, "*", "notes-*"))
	if err != nil {
		c.Fatal(err)
	}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			c.Fatal(err)
		}
		for lines := bufio.NewScanner(file); lines.Scan(); {
			var n note
			if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
				c.Fatalf("%s: %v", path, err)
			}
			c.take(all, n)
		}
		file.Close()
	}
	return all
}

func (c *campaign) take(all map[string]*request, n note) {
	r := all[n.Marker]
	switch n.Kind {
	case asked:
		all[n.Marker] = &request{marker: n.Marker, credential: n.Credential, units: n.Units, first: n.At}
	case answered:
		r.last, r.answered = n.Reason, true
		if n.Grant != "" {
			r.grant, r.outage, r.told = n.Grant, n.Outage, n.At
		}
	case settles:
		r.released = true
	}
}

// debits reads a credential's log, as a host that is new has it.
func (c *campaign) debits(checker *slidinglog.Ledger, credential *quota.Credential) (debits []debit) {
	for q := (quota.LogQuery{Max: 1000}); ; {
		page, err := checker.Log(c.Context(), credential, q)
		if err != nil {
			c.Fatal(err)
		}
		for _, e := range page.Entries {
			if _, ok := e.Grant(); !ok { // the trace of a correction
				continue
			}
			d := debit{id: e.ID, at: e.At, marker: e.Region, charges: make(map[string]quota.Units)}
			for _, charge := range e.Charges {
				d.charges[charge.Limit] = charge.Units
			}
			debits = append(debits, d)
		}
		if page.Next.IsZero() {
			return debits
		}
		q.After = page.Next
	}
}

// checker opens a host that has nothing but what Redis has.
func (c *campaign) checker() *slidinglog.Ledger {
	store, err := redisledger.OpenStore(redisledger.Config{Addrs: []string{c.server.Addr}, Deadline: hanging})
	if err != nil {
		c.Fatal(err)
	}
	l := slidinglog.Open(slidinglog.Config{Engine: store, Dir: c.TempDir(), Name: "checker", Deadline: hanging, Manual: true})
	c.Cleanup(func() { l.Close() })
	service, err := quota.NewService(l, campaignCredentials(), hanging)
	if err == nil {
		err = l.SetCredentials(service.Credentials(), nil)
	}
	if err != nil {
		c.Fatal(err)
	}
	l.Await(c.Context())
	return l
}

// entryOf is the entry that a grant's id names.
func entryOf(t testing.TB, grant string) quota.ID {
	t.Helper()
	_, id, err := quota.ParseGrantID(grant)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// check compares what clients were granted with what the log holds, and both with
// the limits.
func (c *campaign) check() {
	requests, checker := c.requests(), c.checker()
	for _, credential := range campaignCredentials() {
		debits := c.debits(checker, credential)
		var granted []*request
		for _, r := range requests {
			if r.credential == credential.Name && r.grant != "" {
				granted = append(granted, r)
			}
		}
		c.noneMissing(credential, granted, debits)
		c.allExplained(credential, requests, debits)
		for _, limit := range credential.Limits {
			c.neverOver(limit, credential.Name+": what clients were granted", spansOfGrants(c, granted, debits))
			c.neverOver(limit, credential.Name+": what the log holds", spansOfDebits(requests, debits, limit.Name))
		}
		c.sumsAgree(checker, credential, debits)
		if len(granted) < 20 {
			c.Errorf("%s: only %d requests were granted: the campaign shows little", credential.Name, len(granted))
		}
	}
	c.neverOverByTheHost(requests)
	for _, s := range strikes {
		c.Logf("%s: %d times", s.name, c.struck[s.name])
	}
}

// noneMissing expects each grant once in the log.
func (c *campaign) noneMissing(credential *quota.Credential, granted []*request, debits []debit) {
	byMarker := make(map[string][]debit)
	for _, d := range debits {
		byMarker[d.marker] = append(byMarker[d.marker], d)
	}
	var missing []string
	for _, r := range granted {
		id := entryOf(c, r.grant)
		standsFor := func(d debit) bool { return d.id == id && (r.released || greatest(d.charges) > 0) }
		if !slices.ContainsFunc(byMarker[r.marker], standsFor) {
			missing = append(missing, fmt.Sprintf("%s as %s (in an outage: %v; the log has %+v)", r.marker, id, r.outage, byMarker[r.marker]))
		}
	}
	if len(missing) > 0 {
		c.Errorf("%s: %d grants are missing from the log, such as %s", credential.Name, len(missing), missing[0])
	}
}

// allExplained expects that nobody was debited twice, and that whoever was debited
// was granted it, or was not told what became of the request. What was given back
// does not count.
func (c *campaign) allExplained(credential *quota.Credential, requests map[string]*request, debits []debit) {
	unheard, lost, givenBack := 0, quota.Units(0), 0
	times := make(map[string]int)
	for _, d := range debits {
		r, units := requests[d.marker], greatest(d.charges)
		if r == nil {
			c.Errorf("%s: nobody asked for %+v", credential.Name, d)
			continue
		}
		if units == 0 {
			givenBack++
			continue
		}
		times[d.marker]++
		switch {
		case times[d.marker] > 1:
			c.Errorf("%s: %s was debited %d times, here as %+v", credential.Name, d.marker, times[d.marker], d)
		case r.grant == "" && (!r.answered || r.last == unavailable):
			// Its host was killed, or ended, before it had the answer.
			unheard, lost = unheard+1, lost+units
		case r.grant == "":
			c.Errorf("%s: %s was told %q, and debited as %+v", credential.Name, d.marker, r.last, d)
		}
	}
	c.Logf("%s: %d debits, %d of them given back, and %d that nobody heard of, which hold %d units",
		credential.Name, len(debits), givenBack, unheard, lost)
}

func greatest(charges map[string]quota.Units) quota.Units {
	most := quota.Units(0)
	for _, units := range charges {
		most = max(most, units)
	}
	return most
}

// A span is units that count from a time on.
type span struct {
	at    time.Time
	units quota.Units
	what  string
}

func spansOfGrants(t testing.TB, granted []*request, debits []debit) []span {
	at := make(map[quota.ID]time.Time)
	for _, d := range debits {
		at[d.id] = d.at
	}
	var spans []span
	for _, r := range granted {
		if id := entryOf(t, r.grant); !r.released && !at[id].IsZero() {
			spans = append(spans, span{at[id], r.units, r.marker})
		}
	}
	return spans
}

// spansOfDebits leaves out what was perhaps given back: a host that did not hear the
// answer puts the whole debit back after a loss, more than is spent.
func spansOfDebits(requests map[string]*request, debits []debit, limit string) []span {
	var spans []span
	for _, d := range debits {
		if r := requests[d.marker]; r == nil || !r.released {
			spans = append(spans, span{d.at, d.charges[limit], d.marker})
		}
	}
	return spans
}

// neverOver expects that no window ever holds more than the limit.
func (c *campaign) neverOver(limit quota.Limit, what string, spans []span) {
	slices.SortFunc(spans, func(a, b span) int { return a.at.Compare(b.at) })
	sum, oldest := quota.Units(0), 0
	for _, s := range spans {
		sum += s.units
		for !spans[oldest].at.After(s.at.Add(-limit.Window.Length)) {
			sum -= spans[oldest].units
			oldest++
		}
		if sum > limit.Units {
			c.Errorf("%s: limit %q of %d units holds %d with %+v", what, limit.Name, limit.Units, sum, s)
			return
		}
	}
}

// neverOverByTheHost does the same by the clock of the clients, for the limit that
// is filled again and again: as long as Redis' clock was not stepped, what was
// asked and answered within a window was granted within it.
func (c *campaign) neverOverByTheHost(requests map[string]*request) {
	burst := campaignCredentials()[0].Limits[0]
	var granted []*request
	for _, r := range requests {
		if r.credential == "steady" && r.grant != "" {
			granted = append(granted, r)
		}
	}
	slices.SortFunc(granted, func(a, b *request) int { return a.first.Compare(b.first) })
	for i, begin := range granted {
		end := begin.first.Add(burst.Window.Length)
		if slices.ContainsFunc(c.stepped, func(at time.Time) bool { return at.After(begin.first) && at.Before(end) }) {
			continue
		}
		sum := quota.Units(0)
		for _, r := range granted[i:] {
			if r.first.Before(end) && r.told.Before(end) {
				sum += r.units
			}
		}
		if sum > burst.Units {
			c.Errorf("%d units were granted in the %v behind %s, which %d may be", sum, burst.Window.Length, begin.marker, burst.Units)
			return
		}
	}
}

// sumsAgree expects the running totals to be what the log sums up to.
func (c *campaign) sumsAgree(l *slidinglog.Ledger, credential *quota.Credential, debits []debit) {
	u, err := l.Usage(c.Context(), credential)
	if err != nil {
		c.Fatal(err)
	}
	for _, limit := range u.Limits {
		sum := quota.Units(0)
		for _, d := range debits {
			if d.at.After(u.Now.Add(-limit.Window.Length)) {
				sum += d.charges[limit.Name]
			}
		}
		if limit.Used != sum {
			c.Errorf("%s: limit %q says that %d units are used, its log sums up to %d", credential.Name, limit.Name, limit.Used, sum)
		}
	}
}
