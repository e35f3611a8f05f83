package config

import (
	"cmp"
	"maps"
	"slices"

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
				one.Window, c.Limits[i].Window = pool.Window, pool.Window
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
