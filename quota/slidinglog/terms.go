package slidinglog

import (
	"fmt"
	"maps"
	"slices"
	"strings"

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
func (f *facts) differences(self HostID, credential string) (found []string) {
	mine, ok := f.Hosts[self]
	if !ok {
		return nil
	}
	for _, host := range slices.SortedFunc(maps.Keys(f.Hosts), compareHosts) {
		theirs := f.Hosts[host]
		if host == self || theirs.Hello == 0 || theirs.Bye {
			continue
		}
		if text := quota.DifferingTerms(theirs.Label, theirs.Terms, mine.Terms); text != "" {
			found = append(found, credential+": "+text)
		}
	}
	return found
}
