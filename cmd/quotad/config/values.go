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
	"quotad/regions"
)

const (
	day              = 24 * time.Hour
	durationExamples = `such as "90s", "30m", "24h" or "7d"`
)

// A duration is longer than zero, unless the tag of its field says zero:"ok". By the tag even:"ok" it may be "even".
type duration time.Duration

const evenly = duration(jobs.EvenStagger)

func (d *duration) decode(n node) {
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
		*d = evenly
		return
	}
	parsed, err := parseDuration(text)
	if err == nil && parsed == 0 && n.tag.Get("zero") == "" {
		err = errors.New("must be longer than zero")
	}
	if err != nil {
		n.fail("%v%s", err, or)
	}
	*d = duration(parsed)
}

func (d duration) String() string {
	if d == evenly {
		return "even"
	}
	return quota.Brief(time.Duration(d))
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

// A zone is a time zone.
type zone struct{ *time.Location }

// UnmarshalText reads the IANA name of a time zone. Go reads "" as UTC and "Local" as
// the host's own zone, which may differ between the hosts that share a ledger.
func (z *zone) UnmarshalText(name []byte) error {
	location, err := time.LoadLocation(string(name))
	if err != nil || len(name) == 0 || string(name) == "Local" {
		return fmt.Errorf(`unknown time zone %q: use a name of the IANA database, such as "Europe/Berlin"`, name)
	}
	z.Location = location
	return nil
}

// A window is a duration, or a table { calendar = "day", timezone = "…" }, or { every = "24h", from = "…" }.
type window struct{ quota.Window }

func (w *window) decode(n node) {
	if _, isTable := n.value.(map[string]any); !isTable {
		var length duration
		n.into(&length)
		w.Window = quota.Sliding(time.Duration(length))
		return
	}
	var p periodTable
	n.into(&p)
	if !p.has("every") && !p.has("from") {
		p.require("calendar", `"day"`)
		p.require("timezone", `"America/Los_Angeles", where the period begins`)
		w.Window = quota.Calendar(p.Calendar, p.Timezone.Location)
		return
	}
	p.require("every", `"24h"`)
	p.require("from", `"2026-01-01T11:30:15Z", when a period began`)
	for _, key := range []string{"calendar", "timezone"} {
		if p.has(key) {
			p.fail(key, "cannot be combined with every and from: remove it, or them")
		}
	}
	w.Window = quota.Sliding(time.Duration(p.Every))
	if time.Time(p.From).IsZero() {
		return // it is an error already
	}
	w.Window = quota.Anchored(time.Duration(p.Every), time.Time(p.From))
	if now := n.document.host.Now; !now.IsZero() && w.From.After(now) {
		began, _ := w.Bounds(now)
		p.at("from").warn("lies in the future: periods come before it too, of which one began at %s", began.Add(time.Millisecond).Format(time.RFC3339))
	}
}

// An instant is a time in a zone that is named with it.
type instant time.Time

func (i *instant) decode(n node) {
	at, isTime := n.value.(time.Time)
	text, isText := n.value.(string)
	var err error
	if isText {
		at, err = time.Parse(time.RFC3339, text)
	}
	if local := at.Location().String(); err != nil || !isTime && !isText || strings.Contains(local, "local") {
		n.fail(`must be a time with its zone, such as "2026-01-01T11:30:15Z"`)
		return
	}
	*i = instant(at)
}

func (w window) String() string {
	if w.Restarts() {
		return w.Describe()
	}
	return w.Window.String()
}

// A ring is an array of regions, no two of which are alike.
type ring regions.Ring

func (r *ring) decode(n node) {
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
