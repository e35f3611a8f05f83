package trouble_test

import (
	"fmt"
	"time"

	"quotad/cmd/quotad/trouble"
	"quotad/quota"
)

// Two things need a person: a key that YouTube refuses, and a disk that is nearly full. The worst is first, and each has
// its cure.
func ExampleList() {
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	daily := quota.Limit{Name: "daily", Units: 10_000, Reserve: 500, Window: quota.Sliding(24 * time.Hour)}
	state := trouble.State{
		Credentials: []trouble.CredentialState{{
			Credential: &quota.Credential{
				Name:       "youtube",
				Limits:     []quota.Limit{daily},
				Operations: map[string]quota.Cost{"search.list": {Every: 100}},
			},
			Limits:  []trouble.LimitState{{LimitState: quota.LimitState{Limit: daily, Used: 4_000}, Fits: true}},
			Refuses: &trouble.Refusal{Says: "API key not valid"},
			KeyCure: "replace youtube.key, then quotactl reload",
		}},
		Disk: trouble.DiskState{Dir: "/var/lib/quotad", Free: 20 << 20, Size: 8 << 30},
	}
	for _, t := range trouble.List(state, now) {
		fmt.Printf("%s of %s\n  %s\n  %s\n", t.Kind, t.Of, t.Says, t.Do)
	}
	// Output:
	// key of credential youtube
	//   youtube's key is refused: API key not valid
	//   replace youtube.key, then quotactl reload
	// disk of host
	//   the disk of /var/lib/quotad has 20 MB left
	//   df /var/lib/quotad
}
