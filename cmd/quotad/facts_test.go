package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quotad/cmd/quotad/trouble"
	"quotad/quota"
	"quotad/quota/slidinglog"
)

// A ledger that was well just before it was lost is not put back, nor is one that grants nothing yet. Where nothing was
// put back, nothing was lost, and what was not lost is carried along.
func TestHealthBeforeALoss(t *testing.T) {
	for records, want := range map[int]string{3: "lost, lost, back", 0: "lost, lost, none"} {
		f, err := openFacts(filepath.Join(t.TempDir(), "troubles.json"))
		must(t, err)
		before := time.Now()
		f.record(slidinglog.Event{Kind: slidinglog.Restored, Credential: "carried", Records: 3})
		f.record(slidinglog.Event{Kind: slidinglog.LostLog, Credential: "api"})
		f.record(slidinglog.Event{Kind: slidinglog.Restored, Credential: "api", Records: records})
		var got []string
		for _, now := range []struct {
			asked  time.Time
			health quota.Health
		}{
			{before, quota.Health{Reachable: true}},
			{time.Now(), quota.Health{Reachable: true, Recovering: []string{"api"}}},
			{time.Now(), quota.Health{Reachable: true}},
		} {
			s := trouble.State{Ledger: trouble.LedgerState{Health: now.health}}
			for _, name := range []string{"api", "carried"} {
				s.Credentials = append(s.Credentials, trouble.CredentialState{Credential: &quota.Credential{Name: name}})
			}
			f.complete(&s, now.asked)
			switch {
			case len(s.Losses) == 0:
				got = append(got, "none")
			case len(s.Losses) == 1 && s.Losses[0].Credential == "api" && s.Losses[0].Back.IsZero():
				got = append(got, "lost")
			case len(s.Losses) == 1 && s.Losses[0].Credential == "api":
				got = append(got, "back")
			}
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("with %d records: %s, want %s", records, text, want)
		}
	}
}
