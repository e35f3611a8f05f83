package config

import (
	"maps"
	"slices"
	"strings"

	"quotad/quota"
)

// cost reads a number for every limit, or a table of numbers per limit.
func (n node) cost(c *quota.Cost) {
	if _, isTable := n.value.(map[string]any); isTable {
		n.into(&c.Per)
		return
	}
	units, _ := as[int64](n, "a number of units, or a table of them per limit: { daily = 100 }")
	c.Every = quota.Units(units)
}

// unquoted records an error if the name of an operation lacks its quotes: videos.list = 1 is videos = { list = 1 }. A table
// that names a limit, or nearly does, is one of costs by limit.
func (n node) unquoted(limits map[string]any) bool {
	name, known := n.path[len(n.path)-1], slices.Collect(maps.Keys(limits))
	values, _ := n.value.(map[string]any)
	var names []string
	for key := range values {
		if slices.Contains(known, key) || quota.Nearest(key, known) != "" || strings.Contains(name, ".") {
			return false
		}
		names = append(names, name+"."+key)
	}
	if names != nil {
		slices.Sort(names)
		n.fail("must not be a table: an operation with a dot in its name needs quotes, %s", quoted(names))
	}
	return names != nil
}
