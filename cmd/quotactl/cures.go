package main

import (
	"fmt"
	"slices"
	"strings"

	"quotad/cmd/quotactl/term"
	"quotad/quota"
	"quotad/quota/api"
)

// curesOf says what would have the calls granted, each by itself.
func curesOf(w api.Why, v term.View) []string {
	if w.Granted {
		return nil
	}
	var cures []string
	if w.RetryAt != nil {
		cures = append(cures, "wait until "+v.Clock(term.CeilSecond(*w.RetryAt))+v.ZoneMark())
	}
	if 0 < w.FitsCount && w.FitsCount < w.Count {
		cures = append(cures, fmt.Sprintf("ask for less: %s would be granted now", quota.Count(w.FitsCount, "call", "calls")))
	}
	if w.ReserveAllows {
		cures = append(cures, "take it from the reserve, as an operator: "+fromReserve(w))
	}
	missing := slices.DeleteFunc(slices.Clone(w.Obstacles), func(o api.Obstacle) bool { return o.Missing == 0 })
	if len(missing) < len(w.Obstacles) || len(missing) == 0 {
		return cures // a limit that counts as spent can only be waited for
	}
	if w.RetryAt != nil {
		cures = append(cures, giveBackText(w.Credential, missing))
	}
	return append(cures, raiseText(w, missing))
}

// fromReserve is the command for just these calls.
func fromReserve(w api.Why) string {
	command := fmt.Sprintf("quotactl acquire %s --credential %s", w.Operation, w.Credential)
	if w.Count > 1 {
		command += fmt.Sprintf(" --count %d", w.Count)
	}
	return command + " --use-reserve"
}

// giveBackText says what would have to leave the log.
func giveBackText(credential string, missing []api.Obstacle) string {
	var amounts, commands []string
	for _, o := range missing {
		amounts = append(amounts, units(o.Missing)+" in "+o.Limit)
		commands = append(commands, fmt.Sprintf("quotactl adjust %s %s -%d", credential, o.Limit, o.Missing))
	}
	return fmt.Sprintf("give back %s: settle or release grants that cost less (quotactl log names them), or %s",
		strings.Join(amounts, " and "), strings.Join(commands, " and "))
}

// raiseText says how the configuration would have to change.
func raiseText(w api.Why, missing []api.Obstacle) string {
	var raised, lowered []string
	for _, o := range missing {
		for _, l := range w.Limits {
			if l.Name != o.Limit {
				continue
			}
			raised = append(raised, fmt.Sprintf("limit %s by %s, to %s", l.Name, units(o.Missing), quota.Thousands(l.Units+o.Missing)))
			if l.Reserve >= o.Missing {
				lowered = append(lowered, fmt.Sprintf("the reserve of %s to %s", l.Name, quota.Thousands(l.Reserve-o.Missing)))
			}
		}
	}
	text := "raise " + strings.Join(raised, ", and ") + ", if the upstream allows it"
	if len(lowered) == len(missing) {
		text += "; or lower " + strings.Join(lowered, " and ")
	}
	return text
}

// mostNamed is how many holders are named before the rest is summed up.
const mostNamed = 4

// renderHolders tells who holds the units of an obstacle.
func renderHolders(b *strings.Builder, o api.Obstacle, v term.View) {
	if len(o.Jobs) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", v.Paint(term.Bold, "who holds limit "+o.Limit))
	v.Item(b, 2, "jobs        ", holdersText("job", o.Jobs, o.Held, v))
	v.Item(b, 2, "regions     ", holdersText("region", o.Regions, o.Held, v))
	v.Item(b, 2, "operations  ", holdersText("operation", o.Operations, o.Held, v))
	if o.GivenBack > 0 {
		v.Item(b, 2, "given back  ", units(o.GivenBack)+" of these, by adjustments")
	}
}

// holdersText writes "trending 8,000 (85 %), charts 1,400 (15 %)".
func holdersText(by string, holders []api.Holder, held int64, v term.View) string {
	var parts []string
	rest := held
	for _, h := range holders[:min(mostNamed, len(holders))] {
		parts = append(parts, fmt.Sprintf("%s %s (%s)", shareName(by, h.Name, v), quota.Thousands(h.Units), percent(h.Units, held)))
		rest -= h.Units
	}
	if rest > 0 {
		parts = append(parts, "others "+quota.Thousands(rest))
	}
	return strings.Join(parts, ", ")
}
