package main

import (
	"path/filepath"
	"testing"
	"time"

	"quotad/cmd/quotad/trouble"
	"quotad/quota"
	"quotad/quota/slidinglog"
)

// A ledger that was well just before it was lost is not put back.
func TestHealthBeforeALoss(t *testing.T) {
	f, err := openFacts(filepath.Join(t.TempDir(), "troubles.json"))
	must(t, err)
	before := time.Now()
	f.record(slidinglog.Event{Kind: slidinglog.LostLog, Credential: "api"})
	for _, test := range []struct {
		asked time.Time
		back  bool
	}{{before, false}, {time.Now(), true}} {
		s := trouble.State{
			Ledger:      trouble.LedgerState{Health: quota.Health{Reachable: true}},
			Credentials: []trouble.CredentialState{{Credential: &quota.Credential{Name: "api"}}},
		}
		if f.complete(&s, test.asked); len(s.Losses) != 1 || s.Losses[0].Back.IsZero() == test.back {
			t.Errorf("by the health at %v: %+v, want it put back: %v", test.asked, s.Losses, test.back)
		}
	}
}
