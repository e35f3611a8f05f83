package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/api"
)

// A setting is what a key of the configuration says, as text to compare.
type setting struct {
	text   string
	hidden bool // it may hold a secret, and is not told
}

// A table is the settings of a job, a credential or the like, by key.
type table map[string]setting

// settingsOf returns all that a reload may change, by the name of the table.
func settingsOf(c *config.Config) map[string]table {
	tables := map[string]table{
		"log":      {"level": {text: c.LogLevel}},
		"on_event": eventSettings(c.OnEvent),
	}
	for _, credential := range c.Credentials {
		tables[keyOf("credentials", credential.Name)] = credentialSettings(credential, c.Outages[credential.Name])
	}
	for _, job := range c.Jobs {
		tables[keyOf("jobs", job.Name)] = jobSettings(job)
	}
	return tables
}

func eventSettings(o config.OnEvent) table {
	t := table{"timeout": {text: o.Timeout.String()}}
	for event, command := range o.Commands {
		t[keyOf(string(event))] = setting{text: fmt.Sprintf("%q", command), hidden: true}
	}
	return t
}

func credentialSettings(c *quota.Credential, o config.Outage) table {
	t := table{"on_outage": {text: outageText(o)}}
	for _, limit := range c.Limits {
		t[keyOf("limits", limit.Name)] = setting{text: limitText(limit)}
	}
	for operation, cost := range c.Operations {
		t[keyOf("operations", operation)] = setting{text: costText(cost)}
	}
	return t
}

func limitText(l quota.Limit) string {
	text := fmt.Sprintf("%s %s, %s in reserve", l.Units.Text(), window(l.Window), quota.Thousands(l.Reserve))
	if len(l.Only) > 0 {
		text += ", only " + strings.Join(l.Only, ", ")
	}
	return text
}

func costText(c quota.Cost) string {
	if c.Per == nil {
		return quota.Thousands(c.Every)
	}
	return counts(c.Per)
}

// counts writes units by name: "100 daily, 1 search".
func counts(units map[string]quota.Units) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(units)) {
		parts = append(parts, quota.Thousands(units[name])+" "+name)
	}
	return strings.Join(parts, ", ")
}

func outageText(o config.Outage) string {
	if len(o.Open) == 0 {
		return "closed"
	}
	return fmt.Sprintf("open for %s, %s", strings.Join(slices.Sorted(maps.Keys(o.Open)), ", "), o.Units.Text())
}

func jobSettings(j *jobs.Job) table {
	return table{
		"credential":      {text: j.Credential},
		"regions":         {text: fmt.Sprint(j.Regions)},
		"schedule":        {text: j.Schedule.String()},
		"stagger":         {text: staggerText(j)},
		"parallel":        {text: strconv.Itoa(j.Parallel)},
		"run_at_start":    {text: strconv.FormatBool(j.RunAtStart)},
		"missed_within":   {text: j.MissedWithin.String()},
		"expects":         {text: counts(j.Expects)},
		"use_reserve":     {text: strconv.FormatBool(j.UseReserve)},
		"units_per_run":   {text: quota.Thousands(j.UnitsPerRun)},
		"exhausted_codes": {text: fmt.Sprint(j.ExhaustedCodes)},
		"stop_on_failure": {text: strconv.FormatBool(j.StopOnFailure)},
		"command":         {text: fmt.Sprintf("%q", j.Command), hidden: true},
		"dir":             {text: j.Dir},
		"env":             {text: fmt.Sprintf("%q %q", j.Env, j.Secrets), hidden: true},
		"timeout":         {text: j.Timeout.String()},
		"kill_grace":      {text: j.KillGrace.String()},
	}
}

func staggerText(j *jobs.Job) string {
	if j.Stagger == jobs.EvenStagger {
		return "even"
	}
	return j.Stagger.String()
}

// keyOf joins the parts of a key as TOML does.
func keyOf(parts ...string) string {
	for i, part := range parts {
		if strings.ContainsFunc(part, notBare) {
			parts[i] = strconv.Quote(part)
		}
	}
	return strings.Join(parts, ".")
}

func notBare(r rune) bool {
	letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	return !letter && (r < '0' || r > '9') && r != '_' && r != '-'
}

// compare returns what is different between two configurations, by key. Of a
// table that stands in one of them only, nothing but that is told.
func compare(was, is map[string]table) []api.Change {
	changes := []api.Change{}
	for _, name := range slices.Sorted(maps.Keys(joined(was, is))) {
		before, after := was[name], is[name]
		switch {
		case before == nil:
			changes = append(changes, api.Change{Key: name, Kind: api.Added})
		case after == nil:
			changes = append(changes, api.Change{Key: name, Kind: api.Removed})
		default:
			changes = append(changes, compareTables(name, before, after)...)
		}
	}
	return changes
}

func compareTables(name string, was, is table) []api.Change {
	var changes []api.Change
	for _, key := range slices.Sorted(maps.Keys(joined(was, is))) {
		before, stood := was[key]
		after, stands := is[key]
		change := api.Change{Key: name + "." + key, Kind: api.Changed}
		switch {
		case before == after:
			continue
		case !stood:
			change.Kind = api.Added
		case !stands:
			change.Kind = api.Removed
		}
		if !before.hidden && !after.hidden {
			change.Was, change.Is = before.text, after.text
		}
		changes = append(changes, change)
	}
	return changes
}

// joined returns what stands in either.
func joined[V any](a, b map[string]V) map[string]V {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
