package quota

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Brief words a duration as people write it: "1m30s", "24h", "1h30m", "7d".
func Brief(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Describe says for how long a debit counts: "in any 24h", "each day in America/Los_Angeles".
func (w Window) Describe() string {
	if w.IsCalendar() {
		return "each " + string(w.Period) + " in " + w.Zone.String()
	}
	return "in any " + Brief(w.Length)
}

// Describe says what a limit counts, and how: "in any 24h, for search.list, by trending, not
// enforced". How much it allows is told beside it.
func (l Limit) Describe() string {
	parts := []string{l.Window.Describe()}
	if len(l.Only) > 0 {
		parts = append(parts, "for "+listed(l.Only))
	}
	if len(l.Jobs) > 0 {
		parts = append(parts, "by "+listed(l.Jobs))
	}
	if len(l.ExceptJobs) > 0 {
		parts = append(parts, "by all but "+listed(l.ExceptJobs))
	}
	if l.Lift > 0 {
		parts = append(parts, "lifted in the last "+Brief(l.Lift))
	}
	if l.DryRun {
		parts = append(parts, "not enforced")
	}
	return strings.Join(parts, ", ")
}

// listed names things in an order of its own: "a and b".
func listed(names []string) string {
	names = slices.Sorted(slices.Values(names))
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
