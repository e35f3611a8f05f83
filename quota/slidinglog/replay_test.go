package slidinglog

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/journal"
)

// What a start loads at once is what restore.lua would have put back entry by entry.
func TestReplayIsRestore(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		now := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
		dir := t.TempDir()
		j, err := journal.Open(dir, "youtube", false)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 40 {
			at := now.Add(-time.Duration(random.IntN(90))*time.Minute).UnixMicro() + int64(n) - 100 // some are older than is kept
			text := fmt.Sprintf(" daily=%d search=%d\ngrant search.list 1 @1 %% %%", random.IntN(9), random.IntN(9))
			switch random.IntN(8) {
			case 0:
				text = fmt.Sprintf("\nsettle %019d %d @1 %% %%", random.IntN(n+1), random.IntN(20))
			case 1:
				text = fmt.Sprintf("\nclose daily %d @1 %% says", now.Add(time.Duration(random.IntN(9))*time.Hour).UnixMicro())
			case 2:
				text = "\nreset - 0 @1 % %"
			}
			kind := []journal.Kind{journal.Own, journal.Mirrored, journal.Alone}[random.IntN(3)]
			if err := j.Append(journal.Record{Kind: kind, At: at, ID: fmt.Sprintf("%019d", n), Text: text}); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		c := &quota.Credential{Name: "youtube", Operations: map[string]quota.Cost{"search.list": {Every: 1}},
			Limits: []quota.Limit{{Name: "daily", Units: 100, Window: quota.Sliding(time.Hour)}, {Name: "search", Units: 100, Window: quota.Sliding(time.Hour)}}}
		logs := func(replay bool) (state map[string]string, scores map[string]int64, used []quota.Units) {
			m := NewMemory(func() time.Time { return now })
			l := Open(Config{Engine: m, Dir: dir, Manual: true})
			one := &log{ledger: l, engine: m, name: "youtube", restoring: make(chan struct{}, 1), credential: c, known: known{keep: time.Hour.Microseconds()}}
			one.told, one.toldAt = now.UnixMicro(), time.Now()
			if one.journal, err = journal.Open(dir, "youtube", false); err != nil {
				t.Fatal(err)
			}
			if replay {
				var back putBack
				back, err = one.load(t.Context(), m, nil)
				one.restored("", back, nil, true)
			} else {
				err = one.restore(t.Context(), "", true)
			}
			if err != nil {
				t.Fatal(err)
			}
			state = maps.Clone(m.keys["youtube:state"].hash)
			for _, drawn := range []string{"epoch", "back", "quiet", "server"} {
				delete(state, drawn)
			}
			u, _, err := one.look(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			for _, limit := range u.Limits {
				used = append(used, limit.Used)
			}
			if err := one.journal.Close(); err != nil {
				t.Fatal(err)
			}
			return state, maps.Clone(m.keys["youtube:entries"].times), used
		}
		state, scores, used := logs(true)
		wantState, wantScores, wantUsed := logs(false)
		if !maps.Equal(state, wantState) || !maps.Equal(scores, wantScores) || !slices.Equal(used, wantUsed) {
			t.Fatalf("seed %d: a start has\n%q\n%v, used %d; restore.lua\n%q\n%v, used %d", seed, state, scores, used, wantState, wantScores, wantUsed)
		}
	}
}
