package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/upstream"
	"quotad/regions"
)

const (
	day              = 24 * time.Hour
	durationExamples = `such as "90s", "30m", "24h" or "7d"`
)

// duration reads a duration longer than zero, unless the tag of its field says zero:"ok". By the tag even:"ok" it may be "even".
func (n node) duration(d *time.Duration) {
	want, or := "a duration in quotes, "+durationExamples, ""
	even := n.tag.Get("even") != ""
	if even {
		want, or = `"even" or `+want, `; or write "even"`
	}
	text, ok := as[string](n, want)
	switch {
	case !ok:
		return
	case even && text == "even":
		*d = jobs.EvenStagger
		return
	}
	parsed, err := parseDuration(text)
	if err == nil && parsed == 0 && n.tag.Get("zero") == "" {
		err = errors.New("must be longer than zero")
	}
	if err != nil {
		n.fail("%v%s", err, or)
	}
	*d = parsed
}

// parseDuration reads "30m", "1.5h", "7d" or "1d12h". None is below zero.
func parseDuration(text string) (time.Duration, error) {
	d, err := api.ParseSpan(text)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%q is too long", text)
	case err != nil:
		return 0, fmt.Errorf("%q is not a duration: write a number with its unit, %s", text, durationExamples)
	case d < 0:
		return 0, fmt.Errorf("%q is below zero", text)
	}
	return d, nil
}

// zone reads the IANA name of a time zone. Go reads "" as UTC and "Local" as the host's own zone, which may differ
// between the hosts that share a ledger.
func (n node) zone(z **time.Location) {
	name, ok := as[string](n, aString)
	if !ok {
		return
	}
	location, err := time.LoadLocation(name)
	if err == nil && name != "" && name != "Local" {
		*z = location
		return
	}
	cure := `use a name of the IANA database, such as "Europe/Berlin"`
	known := strings.ReplaceAll(name, " ", "_")
	if abbreviated := map[string]string{"PST": "Los_Angeles", "PDT": "Los_Angeles", "EDT": "New_York", "CST": "Chicago", "CDT": "Chicago"}[name]; abbreviated != "" {
		known = "America/" + abbreviated
	}
	if _, err := time.LoadLocation(known); err == nil && known != name {
		cure = fmt.Sprintf("did you mean %q?", known)
	}
	n.fail("unknown time zone %q: %s", name, cure)
}

// window reads a duration, or a table { calendar = "day", timezone = "…" }, or { every = "24h", from = "…" }.
func (n node) window(w *quota.Window) {
	if n.value == nil {
		return
	}
	if text, isText := n.value.(string); isText && slices.Contains([]string{"hour", "day", "month"}, text) {
		n.fail("%q is not a duration: write %q for any %s, or { calendar = %q, timezone = \"America/Los_Angeles\" }",
			text, map[string]string{"hour": "1h", "day": "24h", "month": "30d"}[text], text, text)
		return
	}
	if _, isTable := n.value.(map[string]any); !isTable && n.tag.Get("is") == "period" {
		n.fail(`must be a period, such as { calendar = "day", timezone = "America/Los_Angeles" }: ` +
			"without one it is not known when the upstream resets")
		return
	} else if !isTable {
		var length time.Duration
		n.duration(&length)
		*w = quota.Sliding(length)
		return
	}
	var p periodTable
	n.into(&p)
	if !p.has("every") && !p.has("from") {
		p.require("calendar", `"day"`)
		p.require("timezone", `"America/Los_Angeles", where the period begins`)
		*w = quota.Calendar(p.Calendar, p.Timezone)
		return
	}
	p.require("every", `"24h"`)
	p.require("from", `"2026-01-01T11:30:15Z", when a period began`)
	for _, key := range []string{"calendar", "timezone"} {
		if p.has(key) {
			p.fail(key, "cannot be combined with every and from: remove it, or them")
		}
	}
	*w = quota.Anchored(p.Every, p.From)
	if now := n.document.host.Now; !now.IsZero() && w.From.After(now) {
		began, _ := w.Bounds(now)
		p.at("from").warn("lies in the future: periods come before it too, of which one began at %s", began.Add(time.Millisecond).Format(time.RFC3339))
	}
}

// instant reads a time in a zone that is named with it.
func (n node) instant(t *time.Time) {
	at, isTime := n.value.(time.Time)
	text, isText := n.value.(string)
	var err error
	if isText {
		at, err = time.Parse(time.RFC3339, text)
	}
	switch local := at.Location().String(); {
	case n.value == nil:
	case err != nil || !isTime && !isText || strings.Contains(local, "local"):
		n.fail(`must be a time with its zone, such as "2026-01-01T11:30:15Z"`)
	case at.IsZero():
		n.fail("must lie in 1970 or later: %s", at.Format(time.RFC3339))
	default:
		*t = at
	}
}

// ring reads an array of regions, no two of which are alike.
func (n node) ring(r *regions.Ring) {
	for _, text := range n.texts() {
		region := regions.Region(text)
		switch err := region.Check(); {
		case err != nil:
			n.fail("%v", err)
		case slices.Contains(*r, region):
			n.fail("region %q is listed twice: remove one", region)
		default:
			*r = append(*r, region)
		}
	}
}

// pointers reads a JSON pointer, or several in their order.
func (n node) pointers(p *[]upstream.Pointer) {
	if _, one := n.value.(string); one {
		n.value = []any{n.value}
	}
	for _, text := range n.texts() {
		one, err := upstream.ParsePointer(text)
		if err != nil {
			n.fail("%v", err)
		}
		*p = append(*p, one)
	}
}

// statuses reads those of answers.
func (n node) statuses(s *[]int) {
	list, _ := as[[]any](n, "an array of statuses, such as [304]")
	for _, value := range list {
		status, _ := value.(int64)
		if status < 100 || status > 599 {
			n.fail("must be a status from 100 to 599: %v", value)
		}
		*s = append(*s, int(status))
	}
}
