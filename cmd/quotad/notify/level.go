package notify

import "quotad/quota"

// Thresholds are the percentages of what jobs may spend of a limit at which it
// is near.
var Thresholds = [...]quota.Units{80, 95}

// slack is by how many percent of its units a limit must have recovered before
// the same alert is raised again: units come back one by one, and are spent
// one by one.
const slack = 10

// A level is how far a limit is spent, as alerts last reported it.
type level struct {
	over     [len(Thresholds)]bool
	denying  bool
	deniedAt quota.Units // the maximum use while it denied
}

// rise records a use that was before and is used, and returns the Thresholds that
// have been crossed since they were last reported.
func (l *level) rise(before, used, budget quota.Units) (crossed []quota.Units) {
	l.recover(before, budget)
	for i, percent := range Thresholds {
		if !l.over[i] && used*100 >= percent*budget {
			l.over[i] = true
			crossed = append(crossed, percent)
		}
	}
	return crossed
}

// deny records that the limit denies at a use, and reports whether it did not deny
// before. A call that costs much is denied early, so the use must have fallen before the
// next alert; the limit need not have been full.
func (l *level) deny(used, budget quota.Units) (began bool) {
	l.recover(used, budget)
	began = !l.denying
	l.denying, l.deniedAt = true, max(l.deniedAt, used)
	return began
}

// recover ends the states that a use has left.
func (l *level) recover(used, budget quota.Units) {
	for i, percent := range Thresholds {
		if used*100 < (percent-slack)*budget {
			l.over[i] = false
		}
	}
	if l.denying && (used == 0 || (l.deniedAt-used)*100 >= slack*budget) {
		l.denying, l.deniedAt = false, 0
	}
}
