package slidinglog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"quotad/quota"
)

// termsOf says for each limit and operation of a credential how it is counted.
func termsOf(c *quota.Credential) (lines []string) {
	said := make(map[string]string)
	for _, limit := range c.Limits {
		text := limit.Units.Text() + " " + limit.Describe()
		if limit.Reserve > 0 {
			text += fmt.Sprintf(", %s in reserve", quota.Thousands(limit.Reserve))
		}
		said["limit "+limit.Name] = text
	}
	for operation, cost := range c.Operations {
		text := cost.Every.Text()
		if cost.Per != nil {
			var parts []string
			for _, limit := range slices.Sorted(maps.Keys(cost.Per)) {
				parts = append(parts, fmt.Sprintf("%s of %s", cost.Per[limit].Text(), limit))
			}
			text = strings.Join(parts, ", ")
		}
		said["operation "+operation] = text
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		lines = append(lines, name+": "+said[name])
	}
	return lines
}

// differences returns how other hosts that wrote lately count otherwise than this one.
func (f *facts) differences(self HostID, now time.Time, credential string) (found []string) {
	mine, ok := f.Hosts[self]
	if !ok {
		return nil
	}
	for _, host := range slices.SortedFunc(maps.Keys(f.Hosts), compareHosts) {
		theirs := f.Hosts[host]
		if host == self || theirs.Hello == 0 || theirs.Bye {
			continue
		}
		if text := differ(theirs, mine); text != "" {
			found = append(found, credential+": "+text)
		}
	}
	return found
}

// differ says what a host counts otherwise than this one, the first three things.
func differ(theirs, mine hostFacts) string {
	there, here := byName(theirs.Terms), byName(mine.Terms)
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
	return fmt.Sprintf("host %s shares the ledger and counts otherwise: %s%s", theirs.Label, strings.Join(parts, "; "), more)
}

// byName takes terms apart.
func byName(terms []string) map[string]string {
	named := make(map[string]string, len(terms))
	for _, line := range terms {
		name, text, _ := strings.Cut(line, ": ")
		named[name] = text
	}
	return named
}
