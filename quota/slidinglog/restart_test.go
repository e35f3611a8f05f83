package slidinglog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
)

// A bed is a service on one host alone, whose clock the test moves.
type bed struct {
	*testing.T
	*quota.Service
	clock *ledgertest.Clock
	dir   string
	l     *Ledger
	c     *quota.Credential
}

// noon is later than any machine's clock, by which a ledger that starts leaves out what is too old to count.
var noon = time.Date(2126, 11, 21, 12, 0, 0, 0, time.UTC)

func newBed(t *testing.T, c *quota.Credential) *bed {
	t.Helper()
	b := &bed{T: t, clock: ledgertest.NewClock(noon), dir: t.TempDir(), c: c}
	b.start(b.dir)
	return b
}

// start opens the ledger of a directory.
func (b *bed) start(dir string) {
	b.Helper()
	b.l = open(b.T, Config{Engine: NewMemory(b.clock.Now), Dir: dir})
	b.reload(b.c)
}

// reload has the daemon use another form of the credential.
func (b *bed) reload(c *quota.Credential) {
	b.Helper()
	b.c = c
	s, err := quota.NewService(b.l, []*quota.Credential{c}, time.Minute)
	if err != nil {
		b.Fatal(err)
	}
	if err := b.l.SetCredentials(s.Credentials(), nil); err != nil {
		b.Fatal(err)
	}
	b.Service = s
}

// killed returns the bed as it would be if the daemon were killed now, and started again.
func (b *bed) killed() *bed {
	b.Helper()
	next := &bed{T: b.T, clock: b.clock, dir: b.TempDir(), c: b.c}
	if err := os.CopyFS(next.dir, os.DirFS(b.dir)); err != nil {
		b.Fatal(err)
	}
	next.start(next.dir)
	return next
}

func (b *bed) ask(r quota.Request) quota.Decision {
	b.Helper()
	r.Credential, r.Count = b.c.Name, max(r.Count, 1)
	d, err := b.Acquire(b.Context(), r)
	if err != nil {
		b.Fatal(err)
	}
	return d
}

func (b *bed) granted(operation string, count quota.Units) quota.Decision {
	b.Helper()
	d := b.ask(quota.Request{Operation: operation, Count: count})
	if !d.Granted() {
		b.Fatalf("got %+v, want a grant", d)
	}
	return d
}

func (b *bed) denied(operation string, count quota.Units, until time.Time) {
	b.Helper()
	if d := b.ask(quota.Request{Operation: operation, Count: count}); !d.Denied() || !d.RetryAt.Equal(until) {
		b.Fatalf("got %s until %v, want a denial until %v", d.Reason, d.RetryAt, until)
	}
}

func (b *bed) usage() quota.Usage {
	b.Helper()
	u, err := b.Usage(b.Context(), b.c.Name)
	if err != nil {
		b.Fatal(err)
	}
	return u
}

func (b *bed) used(want ...quota.Units) {
	b.Helper()
	for i, s := range b.usage().Limits {
		if s.Used != want[i] {
			b.Fatalf("limit %s holds %d units, want %d", s.Name, s.Used, want[i])
		}
	}
}

func (b *bed) entries() []quota.Entry {
	b.Helper()
	page, err := b.Log(b.Context(), b.c.Name, quota.LogQuery{})
	if err != nil {
		b.Fatal(err)
	}
	return page.Entries
}

// youtube is a credential of a day, an hour of searches, and a minute that only observes.
func youtube() *quota.Credential {
	return &quota.Credential{Name: "youtube",
		Limits: []quota.Limit{
			{Name: "daily", Units: 1000, Reserve: 100, Window: quota.Calendar(quota.Day, time.UTC)},
			{Name: "search", Units: 300, Window: quota.Sliding(time.Hour), Only: []string{"search.list"}},
			{Name: "per-minute", Units: 150, Window: quota.Sliding(time.Minute), DryRun: true},
		},
		Operations: map[string]quota.Cost{"search.list": {Every: 100}, "videos.list": {Every: 1}},
	}
}

// A request id that the log has forgotten is a new request. Its grant is in the journal, too.
func TestAnIDThatIsUsedAgain(t *testing.T) {
	t.Parallel()
	c := &quota.Credential{Name: "one", Operations: map[string]quota.Cost{"get": {Every: 1}},
		Limits: []quota.Limit{{Name: "minute", Units: 100, Window: quota.Sliding(time.Minute)}}}
	b := newBed(t, c)
	id := strings.Repeat("id ü", quota.MaxRequestID/len("id ü")) + "abc"
	ask := func() quota.Decision { return b.ask(quota.Request{Operation: "get", Count: 40, RequestID: id}) }
	if d := ask(); !d.Granted() || len(id) != quota.MaxRequestID {
		t.Fatalf("got %+v for an id of %d bytes", d, len(id))
	}
	b.clock.Add(9 * time.Minute)
	if d := ask(); !d.Replayed {
		t.Errorf("got %+v nine minutes later, want the same grant", d)
	}
	b.used(0)
	b.clock.Add(2 * time.Minute)
	b.granted("get", 1)
	if d := ask(); !d.Granted() || d.Replayed {
		t.Errorf("got %+v eleven minutes later, want a grant", d)
	}
	b.used(41)
	b.killed().used(41)
}

// A credential that leaves the configuration and comes back has its log.
func TestACredentialComesBack(t *testing.T) {
	t.Parallel()
	b := newBed(t, youtube())
	b.granted("videos.list", 5)
	if err := b.l.SetCredentials(nil, nil); err != nil {
		t.Fatal(err)
	}
	_, err := b.Usage(t.Context(), "youtube")
	if err == nil || !strings.Contains(err.Error(), `"youtube" is not configured any more`) {
		t.Errorf("got %v", err)
	}
	if page, err := b.Log(t.Context(), "youtube", quota.LogQuery{}); err == nil {
		t.Errorf("got %+v of a log that is not configured", page)
	}
	b.reload(youtube())
	b.used(5, 0, 5)
	b.granted("videos.list", 1)
	b.killed().used(6, 0, 6)

	// One that cannot be opened changes nothing.
	bad := youtube()
	bad.Name = "bad"
	if err := os.WriteFile(filepath.Join(b.dir, "bad"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.l.SetCredentials([]*quota.Credential{bad}, nil); err == nil {
		t.Error("a file where the journal should be: no error")
	}
	b.granted("videos.list", 1)
}

// What is kept for longer than it counts is in the log, and counts no longer.
func TestKeep(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		keep    time.Duration
		entries int
	}{{0, 4}, {2 * time.Hour, 13}, {24 * time.Hour, 20}} {
		c := &quota.Credential{Name: "one", Keep: row.keep, Operations: map[string]quota.Cost{"get": {Every: 1}},
			Limits: []quota.Limit{{Name: "half-hour", Units: 100, Window: quota.Sliding(30 * time.Minute)}}}
		b := newBed(t, c)
		for range 20 {
			b.clock.Add(10 * time.Minute)
			b.granted("get", 1)
		}
		b.used(3)
		if got := len(b.entries()); got != row.entries-1 && got != row.entries {
			t.Errorf("keep %v: the log has %d entries, want %d", row.keep, got, row.entries)
		}
		b.killed().used(3)
	}
}
