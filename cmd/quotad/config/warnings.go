package config

import (
	"slices"

	"quotad/jobs/plan"
)

// Fits returns whether the jobs fit the limits, limit by limit, if no other caller
// spends from them.
func (c *Config) Fits() []plan.Fit { return c.document.fits() }

// Warnings returns what is hardly meant but no error. Among them is each limit that the jobs do not fit, where runs will
// end early.
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
