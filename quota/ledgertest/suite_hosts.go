package ledgertest

import (
	"testing"
	"time"

	"quotad/quota"
)

// limitOfOneHost alternates between two hosts, one of which has a limit more.
func limitOfOneHost(t *testing.T, harness Harness) {
	few, more := one(100, quota.Sliding(time.Hour)), one(100, quota.Sliding(time.Hour))
	more.Limits = append(more.Limits, quota.Limit{Name: "extra", Units: 50, Window: quota.Sliding(time.Minute)})
	h := begin(t, harness, few)
	other := h.join(more)
	for i := range quota.Units(4) {
		h.granted("ten")
		other.granted("list")
		h.used(11 * (i + 1))
		other.used(11*(i+1), i+1)
		h.clock.Add(time.Second)
	}
	h.clock.Add(time.Minute - 4*time.Second)
	other.used(44, 4) // the first is a µs behind
	h.clock.Add(tick)
	other.used(44, 3)
	h.clock.Add(4 * time.Second)
	other.used(44, 0)
}

// hostsDiffer has two hosts decide in turn whose files disagree on costs, windows and what a limit counts. Each counts
// what both were charged.
func hostsDiffer(t *testing.T, harness Harness) {
	ours := one(1000, quota.Sliding(24*time.Hour))
	ours.Limits = append(ours.Limits, quota.Limit{Name: "hour", Units: 100, Window: quota.Sliding(time.Hour)})
	theirs := one(1000, quota.Sliding(24*time.Hour))
	theirs.Limits = append(theirs.Limits, quota.Limit{Name: "hour", Units: 100, Window: quota.Sliding(30 * time.Minute)})
	theirs.Limits[0].Only = []string{"ten", "most"}
	theirs.Operations["list"] = quota.Cost{Every: 2}
	h := begin(t, harness, ours)
	other := h.join(theirs)
	for range 10 {
		h.granted("list")
		other.granted("list")
		h.clock.Add(time.Minute)
	}
	h.used(10, 30)
	other.used(10, 30)
	h.clock.Add(20 * time.Minute)
	h.used(10, 30)
	other.used(10, 29) // a list of ours has left the half hour, that of the other is a µs behind
	h.clock.Add(tick)
	other.used(10, 27)
	h.used(10, 30)
	h.clock.Add(time.Hour)
	h.used(10, 0)
}

// shareOfOneHost has two hosts of which one has no shares yet: each charges by its own file.
func shareOfOneHost(t *testing.T, harness Harness) {
	c := shared()
	c.Limits = c.Limits[:1]
	h := begin(t, harness, c)
	other := h.join(shared())
	h.isGrant(h.acquire(tens("backfill", 3)))
	other.used(30, 0, 0)
	other.isGrant(other.acquire(tens("trending", 1)))
	other.isGrant(other.acquire(tens("backfill", 4)))
	h.used(80)
	h.isGrant(h.acquire(tens("backfill", 1)))
	other.used(90, 40, 40)
	other.isDenial(other.acquire(tens("backfill", 1)), "cap", 24*time.Hour+tick)
}
