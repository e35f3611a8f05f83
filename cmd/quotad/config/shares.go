package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"quotad/quota"
)

// joinPools sets what a share takes from its pool: its cost in each operation whose table
// does not name the share, and its window if it has none of its own.
func (t *credentialTable) joinPools(c *quota.Credential) {
	pools := byWidth(c)
	for i, share := range c.Limits {
		if !share.IsShare() {
			continue
		}
		for operation, cost := range c.Operations {
			if _, named := cost.Per[share.Name]; cost.Per == nil || named || !share.Counts(operation) {
				continue
			}
			if pool := slices.IndexFunc(pools, func(l quota.Limit) bool { return cost.Per[l.Name] > 0 }); pool >= 0 {
				per := maps.Clone(cost.Per) // the file's own does not change
				per[share.Name] = per[pools[pool].Name]
				c.Operations[operation] = quota.Cost{Per: per}
			}
		}
		if one := t.Limits[share.Name]; !one.has("window") {
			if pool, found := poolOf(c, share); found {
				one.Window.Window, c.Limits[i].Window = pool.Window, pool.Window
			}
		}
	}
}

// poolOf returns the limit that a share is a part of: the widest that counts an operation which
// the share counts.
func poolOf(c *quota.Credential, share quota.Limit) (pool quota.Limit, found bool) {
	for _, l := range byWidth(c) {
		for operation, cost := range c.Operations {
			if cost.In(l, operation) > 0 && cost.In(share, operation) > 0 {
				return l, true
			}
		}
	}
	return quota.Limit{}, false
}

// byWidth returns the limits that are no shares, the widest first: the one that counts the most
// operations; of several, the one with the longest window, then the largest.
func byWidth(c *quota.Credential) []quota.Limit {
	pools := slices.DeleteFunc(slices.Clone(c.Limits), quota.Limit.IsShare)
	counted := map[string]int{}
	for operation, cost := range c.Operations {
		for _, l := range pools {
			if cost.In(l, operation) > 0 {
				counted[l.Name]++
			}
		}
	}
	slices.SortStableFunc(pools, func(a, b quota.Limit) int {
		return cmp.Or(counted[b.Name]-counted[a.Name], cmp.Compare(b.Window.Nominal(), a.Window.Nominal()), cmp.Compare(b.Units, a.Units))
	})
	return pools
}

// limitsLike reports whether a share limits its jobs wherever a limit does: it is enforced, too,
// in the same window, and counts each operation that the limit counts, at the same cost.
func limitsLike(c *quota.Credential, share, limit quota.Limit) bool {
	return !share.DryRun && !limit.DryRun && sameWindow(share, limit) && countsAll(c, share, limit)
}

// deniedBefore returns a limit that always denies before a share would: its pool, or one that
// counts each operation of the share.
func deniedBefore(c *quota.Credential, share quota.Limit) (by quota.Limit, found bool) {
	pool, _ := poolOf(c, share)
	for _, l := range c.Limits {
		if l.IsShare() || l.DryRun || !sameWindow(share, l) || share.Budget(false) < l.Budget(false) {
			continue
		}
		if countsAll(c, l, share) || l.Name == pool.Name && countsAll(c, share, l) {
			return l, true
		}
	}
	return quota.Limit{}, false
}

func sameWindow(a, b quota.Limit) bool { return a.Window.String() == b.Window.String() }

// countsAll reports whether a limit counts each operation that another one counts, at the same cost.
func countsAll(c *quota.Credential, limit, other quota.Limit) bool {
	for operation, cost := range c.Operations {
		if units := cost.In(other, operation); units > 0 && cost.In(limit, operation) != units {
			return false
		}
	}
	return true
}

// keptFor returns how much of a pool a share leaves to the jobs that it does not count.
func keptFor(pool, share quota.Limit) quota.Units {
	if len(share.ExceptJobs) == 0 {
		return 0
	}
	return max(0, pool.Budget(false)-share.Budget(false))
}

// warnOfShares warns of shares that never deny, that are too small for any call, or that
// keep more of a pool than it has.
func (c *Config) warnOfShares() {
	for _, credential := range c.Credentials {
		promised := map[string]quota.Units{} // by pool
		for _, share := range credential.Limits {
			if !share.IsShare() {
				continue
			}
			at := c.file.at("credentials", credential.Name, "limits", share.Name, "units")
			if operation, units := cheapest(credential, share); units > share.Budget(false) {
				at.warn("the jobs that it counts can make no call: the cheapest, %s, costs %s", operation, units.Text())
			}
			if by, is := deniedBefore(credential, share); is {
				at.warn("it denies nothing before limit %s does, which has %s for jobs", by.Name, quota.Thousands(by.Budget(false)))
			}
			pool, found := poolOf(credential, share)
			if !found || !limitsLike(credential, share, pool) {
				continue
			}
			if before := promised[pool.Name]; before <= pool.Budget(false) && before+keptFor(pool, share) > pool.Budget(false) {
				at.warn("more is kept for some jobs than limit %s has: %s of %s", pool.Name, quota.Thousands(before+keptFor(pool, share)), quota.Thousands(pool.Budget(false)))
			}
			promised[pool.Name] += keptFor(pool, share)
		}
	}
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

// Counts says what a job can count on, limit by limit, for limits that have shares.
func Counts(c *quota.Credential, job string, useReserve bool) (lines []string) {
	for _, pool := range c.Limits {
		if pool.IsShare() || pool.DryRun {
			continue
		}
		most, own, whose, shared := pool.Budget(useReserve), quota.Units(0), []string(nil), false
		for _, share := range c.Limits {
			if of, found := poolOf(c, share); !share.IsShare() || !found || of.Name != pool.Name || !limitsLike(c, share, pool) {
				continue
			}
			shared = true
			if share.CountsJob(job) {
				most = min(most, share.Budget(useReserve))
			} else if units := keptFor(pool, share); units > own && slices.Contains(share.ExceptJobs, job) {
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
