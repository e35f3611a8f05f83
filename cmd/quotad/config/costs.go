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

// unquoted records an error if the name of an operation lacks its quotes, with the names that
// were meant: videos.list = 1 is videos = { list = 1 }. A table with one of the keys in may is
// meant as a table.
func (n node) unquoted(may map[string]any) bool {
	names := namesBelow(n.path[len(n.path)-1], n.value, may)
	if names != nil {
		n.fail("must not be a table: an operation with a dot in its name needs quotes, %s", quoted(names))
	}
	return names != nil
}

func namesBelow(key string, value any, may map[string]any) (names []string) {
	values, ok := value.(map[string]any)
	if !ok || strings.Contains(key, ".") {
		return nil
	}
	known := slices.Collect(maps.Keys(may))
	for _, below := range slices.Sorted(maps.Keys(values)) {
		if slices.Contains(known, below) || quota.Nearest(below, known) != "" {
			return nil
		}
		inner := namesBelow(below, values[below], nil)
		if inner == nil {
			inner = []string{below}
		}
		for _, name := range inner {
			names = append(names, key+"."+name)
		}
	}
	return names
}
