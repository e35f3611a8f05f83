package config

import (
	"fmt"
	"slices"
	"strings"

	"quotad/quota"
)

// poolOf returns the smallest limit that a share is a part of: one that counts everybody's
// calls of what the share counts, in the same window.
func poolOf(c *quota.Credential, share quota.Limit) (pool quota.Limit, found bool) {
	for _, l := range c.Limits {
		if l.IsShare() || l.Observe || l.Window.String() != share.Window.String() || !countsAll(c, l, share) {
			continue
		}
		if !found || l.Budget(false) < pool.Budget(false) {
			pool, found = l, true
		}
	}
	return pool, found
}

// countsAll tells whether a limit counts each operation that a share does, for as much.
func countsAll(c *quota.Credential, pool, share quota.Limit) bool {
	for operation, cost := range c.Operations {
		if units := cost.In(share, operation); units > 0 && cost.In(pool, operation) != units {
			return false
		}
	}
	return true
}

// kept is how much of a pool a share leaves to the jobs that it does not count.
func kept(pool, share quota.Limit) quota.Units {
	if len(share.ExceptJobs) == 0 || share.Observe {
		return 0
	}
	return max(0, pool.Budget(false)-share.Budget(false))
}

// oddShares tells of shares that hold nobody back, that are too small for any call, and that
// promise more of a pool than it has.
func (c *Config) oddShares() (all Errors) {
	for _, credential := range c.Credentials {
		promised := map[string]quota.Units{} // by pool
		for _, share := range credential.Limits {
			if !share.IsShare() {
				continue
			}
			path := []string{"credentials", credential.Name, "limits", share.Name, "units"}
			warn := func(format string, args ...any) {
				all = append(all, Error{File: c.File, Line: c.lines.at(path), Key: keyAt(path), Message: fmt.Sprintf(format, args...)})
			}
			if operation, units := cheapest(credential, share); units > share.Budget(false) && share.Lift == 0 {
				warn("the jobs that it counts can make no call: the cheapest, %s, costs %s", operation, units.Text())
			}
			pool, found := poolOf(credential, share)
			if !found {
				continue
			}
			if share.Budget(false) >= pool.Budget(false) {
				warn("it holds nobody back: limit %s has %s for jobs", pool.Name, quota.Thousands(pool.Budget(false)))
			}
			if before := promised[pool.Name]; before <= pool.Budget(false) && before+kept(pool, share) > pool.Budget(false) {
				warn("more is kept for some jobs than limit %s has: %s of %s", pool.Name, quota.Thousands(before+kept(pool, share)), quota.Thousands(pool.Budget(false)))
			}
			promised[pool.Name] += kept(pool, share)
		}
	}
	return all
}

// cheapest returns the operation that costs the least in a limit.
func cheapest(c *quota.Credential, l quota.Limit) (operation string, units quota.Units) {
	for name, cost := range c.Operations {
		if own := cost.In(l, name); own > 0 && (units == 0 || own < units || own == units && name < operation) {
			operation, units = name, own
		}
	}
	return operation, units
}

// Counts says what a job can count on, limit by limit, where shares have a part in that.
func Counts(c *quota.Credential, job string, useReserve bool) (lines []string) {
	for _, pool := range c.Limits {
		if pool.IsShare() || pool.Observe {
			continue
		}
		most, own, whose, shared := pool.Budget(useReserve), quota.Units(0), []string(nil), false
		for _, share := range c.Limits {
			if of, found := poolOf(c, share); !share.IsShare() || share.Observe || !found || of.Name != pool.Name {
				continue
			}
			shared = true
			if share.CountsJob(job) {
				most = min(most, share.Budget(useReserve))
			} else if units := kept(pool, share); units > own && slices.Contains(share.ExceptJobs, job) {
				own, whose = units, share.ExceptJobs
			}
		}
		if !shared {
			continue
		}
		text := []string{fmt.Sprintf("can have at most %s of %s", quota.Thousands(most), pool.Name)}
		if own = min(own, most); own > 0 {
			text = append(text, fmt.Sprintf("%s of it kept for %s", quota.Thousands(own), strings.Join(whose, ", ")))
		}
		lines = append(lines, strings.Join(text, ", "))
	}
	return lines
}
