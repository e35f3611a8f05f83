package config

import (
	"maps"
	"slices"
	"time"

	"quotad/quota"
)

// An Outage says what becomes of a credential's operations while the ledger
// cannot be reached.
type Outage struct {
	Open  map[string]bool // the operations that are granted all the same
	Units quota.Units     // that those grants may cost, in any window
}

const (
	failOpen   = "open"
	failClosed = "closed"
)

// credentials reads [credentials.NAME], each checked on its own.
func (r *reader) credentials(c *Config, t *table) {
	c.Outages = map[string]Outage{}
	if len(t.names()) == 0 {
		t.document.fail(t.path, "no credential is configured: add [credentials.NAME.limits.NAME] and [credentials.NAME.operations]")
	}
	tables := t.tables("youtube")
	for _, name := range t.names() {
		one := tables[name]
		if one == nil {
			continue
		}
		if slices.Contains([]string{"limits", "operations", "on_outage"}, name) {
			t.fail(name, "stands in no credential: give that a name, such as [credentials.youtube.%s]", name)
			continue
		}
		credential, outage := r.credential(name, one)
		if c.Ledger.Backend == Embedded && one.has("on_outage") {
			one.warn("on_outage", `does nothing beside the embedded ledger, which is always there: remove it, or set backend = "redis" in [ledger]`)
			outage = Outage{}
		}
		c.Credentials = append(c.Credentials, credential)
		c.Outages[name] = outage
	}
}

func (r *reader) credential(name string, t *table) (*quota.Credential, Outage) {
	c := &quota.Credential{Name: name, Operations: map[string]quota.Cost{}}
	limits := t.table("limits")
	tables := limits.tables("daily")
	for _, limit := range limits.names() {
		if tables[limit] != nil {
			c.Limits = append(c.Limits, r.limit(limit, tables[limit]))
		}
	}
	operations := t.table("operations")
	for _, operation := range operations.names() {
		if names := unquoted(operations, operation, limits.values); len(names) > 0 {
			operations.failUnquoted(operation, names)
			for _, name := range names {
				c.Operations[name] = quota.Cost{Every: 1}
			}
			continue
		}
		c.Operations[operation] = r.cost(operations, operation)
	}
	outage := r.outage(t.table("on_outage"), c)
	t.end()
	if tables == nil {
		return c, outage // without its limits everything else would be wrong, too
	}
	r.adoptLimits(t, c)
	t.adopt(c.Validate())
	return c, outage
}

// adoptLimits notes limits whose numbers cannot be, and puts harmless ones in their
// place: everything that such a limit counts would be wrong, too.
func (r *reader) adoptLimits(t *table, c *quota.Credential) {
	for _, wrong := range c.Validate() {
		if len(wrong.Path) != 3 || wrong.Path[0] != "limits" || wrong.Path[2] != "units" && wrong.Path[2] != "reserve" {
			continue
		}
		i := slices.IndexFunc(c.Limits, func(l quota.Limit) bool { return l.Name == wrong.Path[1] })
		if c.Limits[i].Units != quota.MaxUnits { // the first of the two says enough
			t.adopt([]*quota.FieldError{wrong})
		}
		c.Limits[i].Units, c.Limits[i].Reserve = quota.MaxUnits, 0
	}
}

func (r *reader) limit(name string, t *table) quota.Limit {
	t.require("units", "10_000")
	l := quota.Limit{
		Name:    name,
		Units:   t.units("units", quota.MaxUnits),
		Reserve: t.units("reserve", 0),
		Window:  r.window(t),
		Only:    t.texts("only"),
	}
	t.end()
	return l
}

// window is a duration, or a table { calendar = "day", timezone = "…" }.
func (r *reader) window(t *table) quota.Window {
	if _, isTable := t.values["window"].(map[string]any); !isTable {
		return quota.Sliding(t.duration("window", day))
	}
	w := t.table("window")
	w.require("calendar", `"day"`)
	period := w.oneOf("calendar", string(quota.Day), string(quota.Hour), string(quota.Day), string(quota.Month))
	w.require("timezone", `"America/Los_Angeles", where the period begins`)
	zone := r.timezone(w)
	w.end()
	return quota.Calendar(quota.Period(period), zone)
}

// timezone returns UTC where none is named.
func (r *reader) timezone(t *table) *time.Location {
	name := t.text("timezone", "UTC")
	zone, err := time.LoadLocation(name)
	// Go reads "" as UTC and "Local" as the host's own zone, which is another
	// one on every host that shares a ledger.
	if err != nil || name == "" || name == "Local" {
		t.fail("timezone", `unknown time zone %q: use a name of the IANA database, such as "Europe/Berlin"`, name)
		return time.UTC
	}
	return zone
}

// cost is a number for every limit, or a table of numbers per limit.
func (r *reader) cost(t *table, operation string) quota.Cost {
	values, isTable := t.values[operation].(map[string]any)
	if !isTable {
		units, ok := read[int64](t, operation, "a number of units, or a table of them per limit: { daily = 100 }")
		if !ok {
			return quota.Cost{Every: 1}
		}
		return quota.Cost{Every: quota.Units(units)}
	}
	per := &table{document: t.document, path: t.at(operation), values: values}
	cost := quota.Cost{Per: map[string]quota.Units{}}
	for _, limit := range per.names() {
		cost.Per[limit] = per.units(limit, 1)
	}
	return cost
}

// outage reads on_outage: a default, exceptions by operation, and the cap.
func (r *reader) outage(t *table, c *quota.Credential) Outage {
	byDefault := t.oneOf("default", failClosed, failOpen, failClosed)
	o := Outage{Open: map[string]bool{}, Units: t.units("open_units", 0)}
	for operation := range c.Operations {
		if t.oneOf(operation, byDefault, failOpen, failClosed) == failOpen {
			o.Open[operation] = true
		}
	}
	if len(o.Open) > 0 {
		t.require("open_units", "50, the most that may be granted in any window")
	}
	if t.has("open_units") && (o.Units < 1 || o.Units > quota.MaxUnits) {
		t.fail("open_units", "must be from 1 to %d: %d", quota.MaxUnits, o.Units)
	}
	for name := range t.values {
		if !slices.Contains(t.known, name) {
			t.known = append(t.known, name)
			if names := unquoted(t, name, nil); len(names) > 0 {
				t.failUnquoted(name, names)
				continue
			}
			t.fail(name, "unknown operation%s", suggest(name, slices.Collect(maps.Keys(c.Operations))))
		}
	}
	return o
}
