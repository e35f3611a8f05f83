package plan

import (
	"slices"
	"time"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

// othersStep is how often callers that are no job of the plan spend.
const othersStep = 10 * time.Minute

// minWindow is the shortest window that has a forecast by the hour.
const minWindow = time.Hour

// An othersSim is all callers that are no job of the plan and spend from one limit: as much in each
// hour as their calls cost in the last one. What an operator booked by hand is not spent again.
type othersSim struct {
	limits  *slidinglog.Simulation
	outcome *Limit
	perHour quota.Units
	spent   quota.Units
}

// addOthers adds what calls cost in the last hour and, if the input asks for it, the callers that are
// no job of the plan.
func (s *sim) addOthers(in SimInput) {
	s.next = in.From.Add(othersStep)
	n := 0
	for _, limits := range in.Limits {
		planned := func(by string) bool {
			return slices.ContainsFunc(s.jobs, func(j *jobSim) bool { return j.Job.Name == by && j.limits == limits })
		}
		anHourAgo := in.From.Add(-time.Hour)
		all := limits.Since(anHourAgo, func(string) bool { return true })
		others := limits.Since(anHourAgo, func(by string) bool { return !planned(by) })
		for i, limit := range limits.Credential.Limits {
			l := &s.plan.Limits[n]
			n++
			if l.isForeseen = limit.Window.Nominal() >= minWindow; !l.isForeseen {
				continue
			}
			l.PerHour = max(0, all[i])
			if in.Others && others[i] > 0 {
				s.others = append(s.others, &othersSim{limits: limits, outcome: l, perHour: others[i]})
			}
		}
	}
}

// othersSpend simulates the other callers until an instant.
func (s *sim) othersSpend(until time.Time) {
	for ; s.next.Before(until); s.next = s.next.Add(othersStep) {
		steps := quota.Units(s.next.Sub(s.plan.From) / othersStep)
		for _, o := range s.others {
			l := o.outcome
			units := o.perHour*steps/quota.Units(time.Hour/othersStep) - o.spent
			o.spent += units
			if units == 0 {
				continue
			}
			d := o.limits.Spend(s.next, []quota.Charge{{Limit: l.Fit.Limit, Units: units}}, false)
			switch {
			case d.Granted():
				l.Peak = max(l.Peak, d.Limits[0].Used)
				l.hour(s.next).Units += units
			case l.DryAt.IsZero():
				l.DryAt = s.next
			}
		}
	}
}
