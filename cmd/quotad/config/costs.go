package config

import (
	"maps"
	"slices"
	"strings"

	"quotad/quota"
)

// A cost is a number for every limit, or a table of numbers per limit.
type cost struct{ quota.Cost }

func (c *cost) decode(n node) {
	if _, isTable := n.value.(map[string]any); isTable {
		c.Per = map[string]quota.Units{}
		for limit, value := range n.asTable() {
			var units quota.Units
			n.below(limit, value).into(&units)
			c.Per[limit] = units
		}
		return
	}
	units, _ := as[int64](n, "a number of units, or a table of them per limit: { daily = 100 }")
	c.Every = quota.Units(units)
}

func (c cost) String() string {
	if c.Per == nil {
		return quota.Thousands(c.Every)
	}
	var parts []string
	for _, limit := range slices.Sorted(maps.Keys(c.Per)) {
		parts = append(parts, quota.Thousands(c.Per[limit])+" "+limit)
	}
	return strings.Join(parts, ", ")
}

// Costs are those of operations, by name.
type costs map[string]cost

func (c *costs) decode(n node) {
	limits, _ := n.parent["limits"].(map[string]any)
	*c = byOperation[cost](n, limits)
}

// Calls are numbers of calls, by the name of an operation.
type calls map[string]quota.Units

func (c *calls) decode(n node) {
	*c = byOperation[quota.Units](n, nil)
}

// byOperation reads a table whose keys are operations. The value of an operation may be a table
// with the keys in may.
func byOperation[T any](n node, may map[string]any) map[string]T {
	all := map[string]T{}
	for operation, value := range n.asTable() {
		if one := n.below(operation, value); !one.unquoted(may) {
			var t T
			one.into(&t)
			all[operation] = t
		}
	}
	return all
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
