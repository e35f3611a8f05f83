package config

import (
	"slices"

	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/slidinglog"
)

// Fits returns whether the jobs fit the limits, limit by limit, if no other caller
// spends from them.
func (c *Config) Fits() []plan.Fit { return c.document.fits() }

// Warnings returns what is hardly meant but no error. Among them are each limit whose reserve has
// no room for what an outage may grant, and each limit that the jobs do not fit, where runs will end
// early.
func (c *Config) Warnings() Errors {
	warnings := slices.Clone(c.document.warnings)
	for _, f := range c.Fits() {
		if f.Over() > 0 {
			warnings = append(warnings, c.document.at([]string{"credentials", f.Credential, "limits", f.Limit}, "%s", f.Shortage()))
		}
	}
	warnings.sort()
	return warnings
}

// warnOfAllowances warns of each limit that may be overspent while the ledger cannot be
// reached: each host then spends what was left on its own, and only the reserve is room for that.
func (c *Config) warnOfAllowances() {
	for _, credential := range c.Credentials {
		for _, l := range credential.Limits {
			if allowed := outageCost(c.Outages[credential.Name], l, credential); allowed > l.Reserve {
				c.at("credentials", credential.Name, "on_outage", "open_units").warn(
					"while Redis cannot be reached each host may spend %s of %s, which keeps %s in reserve: together they may spend more than there is",
					quota.Count(allowed, "unit", "units"), l.Name, quota.Thousands(l.Reserve))
			}
		}
	}
}

// outageCost returns the maximum cost of an outage in a limit. Its units bound the largest charge
// of each grant.
func outageCost(outage slidinglog.Policy, l quota.Limit, c *quota.Credential) (maxCost quota.Units) {
	for operation := range outage.Open {
		cost, largest := c.Operations[operation], quota.Units(0)
		for _, other := range c.Limits {
			largest = max(largest, cost.In(other, operation))
		}
		if largest > 0 {
			maxCost = max(maxCost, outage.Units/largest*cost.In(l, operation))
		}
	}
	return maxCost
}
