package slidinglog

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/journal"
)

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
