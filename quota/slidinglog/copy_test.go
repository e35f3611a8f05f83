package slidinglog_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/seedtest"
	"quotad/quota/slidinglog"
)

// In whatever order entries come, twice or not, and whatever has been folded or opened again
// meanwhile: the sums, the closed limits and the log are the same.
func TestACopyIsAFunctionOfTheSet(t *testing.T) {
	seedtest.SkipUnderRace(t)
	seed := seedtest.Seed(t, 1)
	for n := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, n))
		set := randomSet(random)
		want := applied(t, random, set, false)
		for range 4 {
			random.Shuffle(len(set), func(i, j int) { set[i], set[j] = set[j], set[i] })
			if got := applied(t, random, set, true); got != want {
				t.Fatalf("seed %d, set %d:\n%s\nin another order\n%s", seed, n, want, got)
			}
		}
	}
}

// Of grants of one request that follow each other within a window, the last counts for all, also if one in the middle
// comes last, and the first does not reach to the last.
func TestGrantsOfARequestInAnyOrder(t *testing.T) {
	c := oneLimit(1000)
	c.Limits[0].Window = quota.Sliding(20 * time.Second)
	c = c.Prepared()
	var set []quota.Entry
	for i, units := range []quota.Units{7, 9, 8} {
		set = append(set, quota.Entry{ID: quota.ID{Ms: nine.UnixMilli() + int64(i)*15_000, Seq: 1}, By: "trending",
			Charges: []quota.Charge{{Limit: "daily", Units: units}}, Body: quota.Grant{Operation: "list", Count: units, Key: "one request"}})
	}
	correction := set[2]
	correction.ID.Seq, correction.Charges = 2, []quota.Charge{{Limit: "daily", Units: -3}}
	correction.Body = quota.Adjusted{Asked: -3, Gives: []quota.Give{{Of: set[0].ID, Units: 3}}}
	set = append(set, correction)
	for _, order := range [][]int{{0, 1, 2, 3}, {0, 2, 1, 3}, {1, 0, 2, 3}, {1, 2, 0, 3}, {2, 0, 1, 3}, {2, 1, 0, 3}, {3, 2, 1, 0}, {0, 3, 2, 1}} {
		copied, err := slidinglog.OpenSet(ledgertest.NewMemFile(), c)
		if err != nil {
			t.Fatal(err)
		}
		clock := nine.Add(32 * time.Second)
		for n, i := range order {
			if err := copied.Put(quota.ID{Ms: clock.UnixMilli(), Seq: int64(n)}, set[i]); err != nil {
				t.Fatal(err)
			}
		}
		if used, _, _, err := copied.Read(clock); err != nil || used[0] != 9-3 {
			t.Errorf("in the order %v, %v are used: %v", order, used, err)
		}
	}
}

func twoLimits() *quota.Credential {
	c := oneLimit(1000)
	c.Limits = append(c.Limits, quota.Limit{Name: "hourly", Units: 500, Window: quota.Sliding(time.Hour)})
	return c
}

// randomSet draws the entries of two hours, each of its own time. Some come from a log that fell back:
// they are of an earlier generation. Of two resets, that of the higher generation may have the earlier time.
func randomSet(random *rand.Rand) (set []quota.Entry) {
	var grants, counts []quota.ID
	gen := int64(0)
	for i := range 5 + random.IntN(25) {
		e := quota.Entry{ID: quota.ID{Ms: nine.UnixMilli() + int64(i)*300_000, Seq: int64(i + 1)}, Gen: gen, By: "trending"}
		if random.IntN(4) == 0 {
			e.Gen = random.Int64N(gen + 1)
		}
		kind := random.IntN(13)
		switch {
		case kind < 6 || len(grants) == 0:
			units := quota.Units(1 + random.IntN(50))
			e.Body = quota.Grant{Operation: "list", Count: units, Key: []string{"", "", "one request", "another"}[random.IntN(4)]}
			e.Charges = []quota.Charge{{Limit: "daily", Units: units}, {Limit: "hourly", Units: units}}
			grants, counts = append(grants, e.ID), append(counts, e.ID)
		case kind < 8:
			e.Body = quota.Settled{Grant: grants[random.IntN(len(grants))], To: quota.Units(random.IntN(80))}
		case kind == 8:
			e.Body, e.Charges = quota.Adjusted{Asked: 9}, []quota.Charge{{Limit: "daily", Units: 9}}
			counts = append(counts, e.ID)
		case kind < 11:
			of, units := counts[random.IntN(len(counts))], quota.Units(1+random.IntN(5))
			e.Charges = []quota.Charge{{Limit: "daily", Units: -units}}
			e.Body = quota.Adjusted{Asked: -int64(units), Gives: []quota.Give{{Of: of, Units: units}}}
		case kind == 11:
			if e.Body = (quota.Changed{Change: quota.KindClosing, Limit: "daily", Until: e.ID.Time().Add(12 * time.Hour)}); random.IntN(2) == 0 {
				e.Body = quota.Changed{Change: quota.KindOpening, Limit: "daily"}
			}
		default:
			e.Body = quota.Reset{Until: e.ID.Time().Add(time.Duration(random.IntN(3)) * 30 * time.Minute)}
			e.Gen++
			gen = max(gen, e.Gen)
		}
		set = append(set, e)
	}
	return set
}

// applied puts entries into a copy and returns what it says then.
func applied(t *testing.T, random *rand.Rand, set []quota.Entry, disturbed bool) string {
	t.Helper()
	file, c := ledgertest.NewMemFile(), twoLimits()
	copied, err := slidinglog.OpenSet(file, c)
	clock := nine.Add(150 * time.Minute)
	for i := 0; i < len(set) && err == nil; {
		n := 1 + random.IntN(min(4, len(set)-i))
		err = copied.Put(quota.ID{Ms: clock.UnixMilli(), Seq: int64(i)}, set[i:i+n]...)
		if i += n; !disturbed || err != nil {
			continue
		}
		switch random.IntN(5) {
		case 0:
			err = copied.Put(quota.ID{Ms: clock.UnixMilli(), Seq: int64(i)}, set[random.IntN(i)])
		case 1:
			err = copied.Fold()
		case 2:
			if err = copied.Fold(); err == nil {
				copied, err = slidinglog.OpenSet(file, c)
			}
		case 3:
			_, _, _, err = copied.Read(clock)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	used, closed, log, err := copied.Read(clock)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("used %v\nclosed %v\nlog", used, closed)
	for _, e := range log {
		g, _ := e.Grant()
		if text += fmt.Sprintf(" %+v", e); g.Own != nil {
			text = strings.Replace(text, fmt.Sprintf("%p", g.Own), fmt.Sprint(*g.Own), 1)
		}
	}
	return text
}
