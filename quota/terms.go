package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// DifferingTerms says what another host that shares a ledger counts otherwise than this one, the
// first three things; empty if nothing. Each line of terms is of one thing: "limit daily: 10,000
// units in any 24h".
func DifferingTerms(label string, theirs, ours []string) string {
	there, here := termsByName(theirs), termsByName(ours)
	all := maps.Clone(there)
	maps.Copy(all, here)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t, has := there[name]
		h, have := here[name]
		switch {
		case t == h:
		case !has:
			parts = append(parts, fmt.Sprintf("no %s, here %s", name, h))
		case !have:
			parts = append(parts, fmt.Sprintf("%s: %s, here none", name, t))
		default:
			parts = append(parts, fmt.Sprintf("%s: %s, here %s", name, t, h))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	more := ""
	if n := len(parts) - 3; n > 0 {
		parts, more = parts[:3], fmt.Sprintf("; and %d more", n)
	}
	return fmt.Sprintf("host %s shares the ledger and counts otherwise: %s%s", label, strings.Join(parts, "; "), more)
}

func termsByName(terms []string) map[string]string {
	named := make(map[string]string, len(terms))
	for _, line := range terms {
		name, text, _ := strings.Cut(line, ": ")
		named[name] = text
	}
	return named
}
