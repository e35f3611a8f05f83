package regions

import "time"

// Even returns the stagger that spreads n passes, one or more, evenly over a
// period: each starts period/n after the one before it.
func Even(period time.Duration, n int) time.Duration {
	return period / time.Duration(n)
}

// Start returns when the i-th pass of a run starts, counted from 0: i staggers
// after the run's slot.
func Start(slot time.Time, stagger time.Duration, i int) time.Time {
	return slot.Add(time.Duration(i) * stagger)
}

// Fits tells whether the last of n passes still starts before the period ends.
func Fits(period, stagger time.Duration, n int) bool {
	return n <= 1 || stagger <= (period-1)/time.Duration(n-1)
}
