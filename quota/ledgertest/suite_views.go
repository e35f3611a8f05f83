package ledgertest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/quota"
)

// hourly is a credential with a limit of 100 units an hour, and one that keeps the log
// for a day.
func hourly() *quota.Credential {
	c := one(1000, quota.Sliding(24*time.Hour))
	c.Limits = append(c.Limits, quota.Limit{Name: "hour", Units: 100, Window: quota.Sliding(time.Hour)})
	return c
}

// givenBackGoesWithItsDebits takes a limit out after an adjustment, lets the log lose
// the debits that it gave back, and puts the limit in again.
func givenBackGoesWithItsDebits(t *testing.T, harness Harness) {
	h := begin(t, harness, hourly())
	h.granted("most")
	h.adjust("hour", -70)
	h.used(70, 0)
	h.c = one(1000, quota.Sliding(24*time.Hour))
	for _, step := range []time.Duration{10 * time.Minute, 48 * time.Hour} {
		h.clock.Add(step)
		h.granted("list")
	}
	h.clock.Add(time.Minute)
	h.granted("most")
	h.c = hourly()
	h.used(71, 71)
	h.denied("most", "hour", time.Hour)
}

// givenBackThenSettled settles a grant of which something was returned: that stays
// returned, whatever the grant is settled to.
func givenBackThenSettled(t *testing.T, harness Harness) {
	h := begin(t, harness, hourly())
	first := h.granted("ten")
	h.clock.Add(time.Minute)
	h.granted("ten")
	h.adjust("hour", -4)
	h.used(20, 16)
	for _, row := range []struct{ to, daily, hour quota.Units }{
		{10, 20, 16}, {3, 13, 10}, {15, 25, 21}, {4, 14, 10}, {10, 20, 16},
	} {
		h.settle(first, row.to)
		h.used(row.daily, row.hour)
	}
	h.adjust("hour", -14)
	h.used(20, 2)
	h.clock.Add(59 * time.Minute)
	h.used(20, 2)
	h.clock.Add(time.Minute)
	h.used(20, 0)
}

// givenBackOfAnotherWindow changes a limit's window after an adjustment, and its name:
// what was returned belongs to the name that it was returned to.
func givenBackOfAnotherWindow(t *testing.T, harness Harness) {
	h := begin(t, harness, hourly())
	h.granted("most")
	h.adjust("hour", -50)
	h.used(70, 20)
	longer := hourly()
	longer.Limits[1].Window = quota.Sliding(2 * time.Hour)
	h.c = longer
	h.used(70, 20)
	h.clock.Add(90 * time.Minute)
	h.used(70, 20)
	h.c = hourly()
	h.used(70, 0)
	h.c = longer
	h.used(70, 20)
	renamed := hourly()
	renamed.Limits[1] = quota.Limit{Name: "two-hours", Units: 100, Window: quota.Sliding(2 * time.Hour)}
	h.c = renamed
	h.used(70, 70)
	h.again()
	h.used(70, 70)
	h.c = longer
	h.used(70, 20)
}

// hostsDiffer has two hosts decide in turn whose files disagree on costs, windows and
// what a limit counts. Each counts what both were charged.
func hostsDiffer(t *testing.T, harness Harness) {
	h := begin(t, harness, hourly())
	other := hourly()
	other.Limits[0].Only = []string{"ten", "most"}
	other.Limits[1].Window = quota.Sliding(30 * time.Minute)
	other.Operations = map[string]quota.Cost{"list": {Every: 2}, "ten": {Every: 10}, "most": {Every: 70}}
	hosts := []*history{h, {TB: h.TB, clock: h.clock, ledger: h.ledger, c: other}}
	if harness.Join != nil {
		hosts[1].ledger = harness.Join(t)
		t.Cleanup(func() { hosts[1].ledger.Close() })
	}
	for range 10 {
		for _, host := range hosts {
			host.granted("list")
		}
		h.clock.Add(time.Minute)
	}
	hosts[0].used(20, 30) // to which a list of the other costs what it costs here
	hosts[1].used(10, 30)
	hosts[0].adjust("hour", -3)
	hosts[0].used(20, 27)
	hosts[1].used(10, 27)
	h.clock.Add(20 * time.Minute)
	hosts[0].used(20, 27)
	hosts[1].used(10, 27)
	h.clock.Add(time.Minute)
	hosts[0].used(20, 27)
	hosts[1].used(10, 24)
}

// logAheadOfTheClock sets the clock wrong for a while: a warning says so, and a reset
// ends it.
func logAheadOfTheClock(t *testing.T, harness Harness) {
	h := begin(t, harness, one(100, quota.Sliding(time.Hour)))
	h.granted("most")
	h.clock.Add(48 * time.Hour)
	h.granted("most")
	h.clock.Add(-48 * time.Hour)
	d := h.denied("most", "daily", 49*time.Hour)
	told := func() bool {
		return slices.ContainsFunc(h.ledger.Health(context.Background()).Clock, func(w string) bool { return strings.Contains(w, "ahead") })
	}
	if _, isModel := h.ledger.(*Model); !isModel && !told() {
		t.Error("nobody is told that the log is two days ahead of the clock")
	}
	h.clock.Add(d.RetryAfter - tick)
	h.denied("most", "daily", tick)
	h.clock.Add(-d.RetryAfter + tick)
	if err := h.ledger.Reset(context.Background(), h.c, quota.Caller{UID: 0}, "the clock was wrong"); err != nil {
		t.Fatal(err)
	}
	h.used(0)
	h.granted("most")
	h.denied("most", "daily", time.Hour)
	if told() {
		t.Error("after a reset people are told that the log is ahead")
	}
	h.again()
	h.clock.Add(time.Hour)
	h.granted("most")
}
