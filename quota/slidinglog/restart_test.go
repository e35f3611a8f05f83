package slidinglog

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/journal"
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
	noError(b.T, err)
	noError(b.T, b.l.SetCredentials(s.Credentials(), nil))
	b.Service = s
}

// killed returns the bed as it would be if the daemon were killed now, and started again.
func (b *bed) killed() *bed {
	b.Helper()
	next := &bed{T: b.T, clock: b.clock, dir: b.TempDir(), c: b.c}
	noError(b.T, os.CopyFS(next.dir, os.DirFS(b.dir)))
	next.start(next.dir)
	return next
}

func (b *bed) ask(r quota.Request) quota.Decision {
	b.Helper()
	r.Credential, r.Count = b.c.Name, max(r.Count, 1)
	d, err := b.Acquire(b.Context(), r)
	noError(b.T, err)
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
	noError(b.T, err)
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
	noError(b.T, err)
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
	b := newBed(t, credential(100, quota.Sliding(time.Minute)))
	id := strings.Repeat("id ü", quota.MaxRequestID/len("id ü")) + "abc"
	ask := func() quota.Decision { return b.ask(quota.Request{Operation: "op", Count: 40, RequestID: id}) }
	if d := ask(); !d.Granted() || len(id) != quota.MaxRequestID {
		t.Fatalf("got %+v for an id of %d bytes", d, len(id))
	}
	b.clock.Add(9 * time.Minute)
	if d := ask(); !d.Replayed {
		t.Errorf("got %+v nine minutes later, want the same grant", d)
	}
	b.used(0)
	b.clock.Add(2 * time.Minute)
	b.granted("op", 1)
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
	noError(t, b.l.SetCredentials(nil, nil))
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
	noError(t, os.WriteFile(filepath.Join(b.dir, "bad"), nil, 0o600))
	if err := b.l.SetCredentials([]*quota.Credential{bad}, nil); err == nil {
		t.Error("a file where the journal should be: no error")
	}
	b.granted("videos.list", 1)
}

// Of two answers the one that was asked for last says what time it is.
func TestTimeOfTheNewestAnswer(t *testing.T) {
	var l log
	asked := time.Now()
	l.learnTime(9e6, 0, asked)
	l.learnTime(5e6, 0, asked.Add(-time.Second))
	if now := l.nowMicros(0); now < 9e6 {
		t.Errorf("got %d µs, want the time of the newest answer", now)
	}
	l.holds = make(map[string]quota.LimitState)
	for _, used := range []quota.Units{9, 5} { // at as many seconds
		s := quota.LimitState{Limit: quota.Limit{Name: "daily"}, Used: used}
		l.keepUsage(quota.Decision{Now: time.Unix(int64(used), 0), Limits: []quota.LimitState{s}})
	}
	if used := l.holds["daily"].Used; used != 9 {
		t.Errorf("an outage finds %d used, want the 9 of the newest answer", used)
	}
}

// A closing is made again before journals forget it.
func TestAClosingIsMadeAgain(t *testing.T) {
	t.Parallel()
	b := newBed(t, youtube())
	k := quota.Change{Kind: quota.KindClosing, Limit: "search", Until: noon.Add(20 * 24 * time.Hour), Note: "gone"}
	k.Caller.UID = 7
	if _, changed, err := b.ChangeLimit(t.Context(), "youtube", k); !changed || err != nil {
		t.Fatal(changed, err)
	}
	for hours, want := range []int{1, 1, 2, 2, 3} {
		b.l.find(b.c).poll(t.Context(), true)
		body := quota.Changed{Limit: "search", Until: k.Until}
		if got := b.entries(); len(got) != want || got[want-1].Body != body || got[0].By != "@7" || got[want-1].By != "@7" || got[want-1].Note != k.Note {
			t.Errorf("after %d hours: got %+v, want %d closings", 13*hours, got, want)
		}
		b.clock.Add(13 * time.Hour)
	}
}

// What is kept for longer than it counts is in the log, and counts no longer.
func TestKeep(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		keep    time.Duration
		entries int
	}{{0, 4}, {2 * time.Hour, 13}, {24 * time.Hour, 20}} {
		c := credential(100, quota.Sliding(30*time.Minute))
		c.Keep = row.keep
		b := newBed(t, c)
		for range 20 {
			b.clock.Add(10 * time.Minute)
			b.granted("op", 1)
		}
		b.used(3)
		if got := len(b.entries()); got != row.entries-1 && got != row.entries {
			t.Errorf("keep %v: the log has %d entries, want %d", row.keep, got, row.entries)
		}
		b.killed().used(3)
	}
}

// On one host alone, nothing is decided that the journal could not take. Once it takes entries again, so does the log.
func TestAJournalThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	b := newBed(t, credential(100, quota.Sliding(24*time.Hour)))
	get := func(b *bed, id string) (quota.Decision, error) {
		return b.Acquire(t.Context(), quota.Request{Credential: "c", Operation: "op", Count: 10, RequestID: id})
	}
	if d, err := get(b, "first"); err != nil || !d.Granted() {
		t.Fatal(d, err)
	}
	one := b.l.find(b.c)
	if err := one.journal.Close(); err != nil { // from now on it takes nothing
		t.Fatal(err)
	}
	if d, err := get(b, "second"); !errors.Is(err, quota.ErrOutcomeUnknown) {
		t.Fatalf("got %+v, %v, want that it counts and is not in the journal", d, err)
	}
	for range 3 {
		if d, err := get(b, "third"); !errors.Is(err, quota.ErrUnavailable) || errors.Is(err, quota.ErrOutcomeUnknown) {
			t.Fatalf("got %+v, %v, want it refused before it is decided", d, err)
		}
	}
	_, err := b.Book(t.Context(), "c", quota.Booking{Limit: "daily", Units: 5})
	if !errors.Is(err, quota.ErrUnavailable) {
		t.Errorf("a booking: got %v", err)
	}
	if _, err := b.Reset(t.Context(), "c", quota.Caller{}, ""); !errors.Is(err, quota.ErrUnavailable) {
		t.Errorf("a reset: got %v", err)
	}
	b.used(20)
	one.poll(t.Context(), false)
	if h := b.l.Health(t.Context()); h.Reachable || len(h.Unwritten) != 1 || !strings.Contains(h.State, "journal") {
		t.Errorf("got %+v, want it said that the journal is not written", h)
	}

	again, err := journal.Open(b.dir, "c", false)
	noError(t, err)
	one.journal = again
	one.poll(t.Context(), false)
	if h := b.l.Health(t.Context()); !h.Reachable || len(h.Unwritten) != 0 {
		t.Errorf("got %+v, want it well again", h)
	}
	if d, err := get(b, "third"); err != nil || !d.Granted() || d.Replayed {
		t.Errorf("got %+v, %v, want a grant", d, err)
	}
	next := b.killed()
	next.used(30)
	if d, err := get(next, "second"); err != nil || !d.Replayed {
		t.Errorf("got %+v, %v, want the grant that was not in the journal at first", d, err)
	}
}

// What a start loads at once is what restore.lua would have put back entry by entry.
func TestLoadIsRestore(t *testing.T) {
	now := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 1))
		var records []journal.Record
		for n := range 40 {
			r := journal.Record{ID: fmt.Sprint("id", n), At: now.Add(-time.Duration(random.IntN(50))*time.Minute).UnixMicro() + int64(n)}
			switch random.IntN(8) {
			case 0:
				r.Text = fmt.Sprintf("\nsettle id%d %d @1 %% %%", random.IntN(n+1), random.IntN(20))
			case 1:
				r.Text = fmt.Sprintf("\nclose daily %d @1 %% says", now.Add(time.Duration(random.IntN(9))*time.Hour).UnixMicro())
			case 2:
				r.Text = "\nreset - 0 @1 % %"
			default:
				r.Text = fmt.Sprintf(" daily=%d search=%d\ngrant search.list 1 @1 %% %%", random.IntN(9), random.IntN(9))
			}
			if e, _ := parse(r.ID, r.At, r.Text); e.Kind() == quota.KindGrant && random.IntN(4) == 0 {
				for i := range records { // an id that is here twice, for the same request or for another one
					if strings.HasPrefix(records[i].Text, " ") {
						r.ID = records[i].ID
					}
				}
				r.Text = strings.Replace(r.Text, "search.list 1", fmt.Sprint("search.list ", 1+random.IntN(2)), 1)
			}
			records = append(records, r)
		}
		slices.SortFunc(records, func(a, b journal.Record) int { return cmp.Compare(a.At, b.At) })
		logs := func(load bool) (state map[string]string, times map[string]int64) {
			m, rest := NewMemory(func() time.Time { return now }), records
			if load {
				rest = m.load("youtube", records)
			}
			l := &log{name: "youtube", known: known{keep: time.Hour.Microseconds()}}
			if _, err := l.putBack(t.Context(), m, "", rest); err != nil {
				t.Fatal(err)
			}
			state = m.keys["youtube:state"].hash
			for _, drawn := range []string{"epoch", "back", "quiet", "server"} {
				delete(state, drawn)
			}
			return state, m.keys["youtube:entries"].times
		}
		state, times := logs(true)
		if wantState, wantTimes := logs(false); !maps.Equal(state, wantState) || !maps.Equal(times, wantTimes) {
			t.Fatalf("seed %d: a start has\n%q\n%v; restore.lua\n%q\n%v", seed, state, times, wantState, wantTimes)
		}
	}
}
