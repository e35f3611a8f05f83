package notify

import "quotad/quota"

// Thresholds are the percentages of what jobs may spend of a limit at which it
// is near.
var Thresholds = [...]quota.Units{80, 95}

// slack is by how many percent of its units a limit must have recovered before
// the same thing is told of it again: units come back one by one, and are spent
// one by one.
const slack = 10

// A level is how far a limit is spent, as far as it was told of.
type level struct {
	over     [len(Thresholds)]bool
	denying  bool
	deniedAt quota.Units // the most that was used while it denied
}

// rise takes in that before units were used and used are, and returns the
// Thresholds that have been crossed since they were last told of.
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

// deny takes in that the limit denies while so many units are used, and tells
// whether that is news. A call that costs much is denied early, so it is the use
// that must have gone back, not the limit that must be full.
func (l *level) deny(used, budget quota.Units) (news bool) {
	l.recover(used, budget)
	news = !l.denying
	l.denying, l.deniedAt = true, max(l.deniedAt, used)
	return news
}

// recover forgets what is over.
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
