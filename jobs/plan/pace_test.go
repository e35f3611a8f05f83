package plan

import (
	"testing"
	"time"

	"quotad/quota"
)

// A limit of 3 calls in any ten seconds is a pace for a job that waits for it, and for one that
// does not an end; and so says whether the schedule fits.
func TestPlanOfAPace(t *testing.T) {
	api := &quota.Credential{
		Name: "youtube", Operations: map[string]quota.Cost{"list": {Every: 1}},
		Limits: []quota.Limit{{Name: "pace", Units: 3, Window: quota.Sliding(10 * time.Second)}},
	}
	for _, test := range []struct {
		name            string
		wait            time.Duration
		expects         quota.Units
		served, skipped int
		fits            bool
	}{
		{"it waits", time.Minute, 2, 8, 0, true},
		{"it expects more than the limit ever has", time.Minute, 5, 8, 0, true},
		{"it does not wait", 0, 2, 1, 7, false},
		{"it does not wait so long", 9 * time.Second, 2, 1, 7, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			job := trending(t)
			job.Stagger, job.MaxWait, job.Expects = 0, test.wait, map[string]quota.Units{"list": test.expects}
			p := simulate(time.Hour+time.Minute+30*time.Second, []*quota.Credential{api}, job)
			if p.Jobs[0].Runs != 1 || p.Passes != test.served || p.Skipped != test.skipped || p.Limits[0].Fits != test.fits {
				t.Errorf("got %d passes and %d skipped in %d runs, fits %v; want %d, %d, %v", p.Passes, p.Skipped, p.Jobs[0].Runs, p.Limits[0].Fits, test.served, test.skipped, test.fits)
			}
		})
	}
}
