package trouble_test

import (
	"fmt"
	"time"

	"quotad/cmd/quotad/trouble"
	"quotad/quota"
)

// Two things need a person: a disk that is nearly full, and a project of which YouTube counts more than quotad
// does, because a program elsewhere spends from it. The worst is first, and each has its cure.
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
			Limits: []trouble.LimitState{{
				LimitState: quota.LimitState{Limit: daily, Used: 4_000},
				Fits:       true,
				Drift:      "the upstream counts 9,000 units, and we count 4,000",
				DriftBy:    5_000,
			}},
		}},
		Disk: trouble.DiskState{Dir: "/var/lib/quotad", Free: 20 << 20, Size: 8 << 30},
	}
	for _, t := range trouble.List(state, now) {
		fmt.Printf("%s of %s\n  %s\n  %s\n", t.Kind, t.Of, t.Says, t.Do)
	}
	// Output:
	// disk of host
	//   the disk of /var/lib/quotad has 20 MB left
	//   df /var/lib/quotad
	// drift of limit youtube daily
	//   youtube daily: the upstream counts 9,000 units, and we count 4,000
	//   quotactl book youtube daily 5000
}
