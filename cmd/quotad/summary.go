package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/notify"
	"quotad/jobs"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/proxy"
	"quotad/regions"
)

// summarize prints what a configuration means.
func summarize(w io.Writer, c *config.Config) {
	p := printer{w}
	p.line("%s is good.\n", c.File)
	p.line("state   %s", c.StateDir)
	p.line("socket  %s", c.Socket)
	if c.Ledger.Backend == config.OnRedis {
		p.line("ledger  Redis at %s", strings.Join(c.Ledger.Redis.Addrs, ", "))
	} else {
		p.line("ledger  embedded, in the state directory")
	}
	if c.Metrics != "" {
		p.line("metrics http://%s/metrics", c.Metrics)
	}
	if c.Proxy != "" {
		p.line("proxy   http://%s, for passes that call the address in $%s", c.Proxy, proxy.AddressEnv)
	}
	if c.Remote.Listen != "" {
		p.remote(c)
	}
	for _, event := range slices.Sorted(maps.Keys(c.OnEvent.Commands)) {
		p.line("on %s: %s", event, strings.Join(c.OnEvent.Commands[event], " "))
	}
	if untold := notify.Untold(c.OnEvent); len(untold) > 0 {
		p.line("no command for %s: [on_event] sets them", strings.Join(untold, ", "))
	}
	fits := c.Fits()
	for _, credential := range c.Credentials {
		p.credential(c, credential, fits)
	}
	for _, job := range c.Jobs {
		p.job(c, job)
	}
	for _, clients := range c.Clients {
		p.clients(clients)
	}
}

type printer struct{ io.Writer }

func (p printer) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p printer) remote(c *config.Config) {
	r := c.Remote
	by := "over TLS"
	if r.CertFile == "" {
		by = "in plain HTTP, on this network alone"
	}
	p.line("remote  %s, %s", r.Listen, by)
	for _, c := range c.Callers {
		operations := "every operation"
		if c.Operations != nil {
			operations = strings.Join(c.Operations, ", ")
		}
		may := append(slices.Clone(c.Credentials), c.Clients...)
		p.line("  %s: %s, %s, by %s", c.Name, strings.Join(may, ", "), operations, quota.Count(len(c.Tokens), "token", "tokens"))
	}
}

func (p printer) clients(c *clientlimit.Clients) {
	p.line("\nclients %s", c.Name)
	for _, limit := range c.Limits {
		p.line("  limit %s: %s for each %s", limit.Name, limit.Units.Text(), limit.Describe())
	}
	for _, operation := range slices.Sorted(maps.Keys(c.Operations)) {
		p.line("  %s costs %s", operation, c.Operations[operation].Text())
	}
	outage := "granted"
	if !c.OpenOnOutage {
		outage = "refused"
	}
	p.line("  counted by the algorithm %s; while the ledger cannot be reached, every call is %s", c.Algorithm, outage)
}

func (p printer) credential(c *config.Config, credential *quota.Credential, fits []plan.Fit) {
	p.line("\ncredential %s", credential.Name)
	for _, limit := range credential.Limits {
		stops := ""
		if limit.Reserve > 0 {
			stops = "; jobs stop at " + quota.Thousands(limit.Budget(false))
		}
		p.line("  limit %s: %s %s%s", limit.Name, limit.Units.Text(), limit.Describe(), stops)
		for _, f := range fits {
			if f.Credential == credential.Name && f.Limit == limit.Name && f.Demand > 0 {
				p.line("    the schedule %s: %s", &f, f.ByJob())
			}
		}
	}
	p.operations(credential)
	if outage := c.Outages[credential.Name]; len(outage.Open) > 0 {
		p.line("  while the ledger cannot be reached, up to %s may be granted for %s",
			outage.Units.Text(), strings.Join(slices.Sorted(maps.Keys(outage.Open)), ", "))
	}
	if preset, brought := c.Presets[credential.Name]; brought {
		p.line("  preset %s, checked on %s, knows %s and %s", preset.Name, preset.Checked.Format(time.DateOnly),
			quota.Count(len(preset.LimitNames), "limit", "limits"), quota.Count(preset.Operations, "operation", "operations"))
	}
	for _, target := range c.Targets {
		if target.Credential == credential.Name {
			key := "no key is sent but a job's own"
			if target.Key != nil {
				key = "the key is sent as " + cmp.Or(target.KeyParameter, target.KeyHeader)
			}
			p.line("  through the proxy: %s, by %s; %s", target.Upstream, quota.Count(target.Routes.Len(), "route", "routes"), key)
		}
	}
}

// maxLines is up to how many operations have a line each.
const maxLines = 10

// operations prints the cost of each operation if there are few, else one line for each cost.
func (p printer) operations(c *quota.Credential) {
	alike := map[string][]string{}
	for _, operation := range slices.Sorted(maps.Keys(c.Operations)) {
		var costs []string // "100 of daily and 100 of search"
		for _, limit := range c.Limits {
			if units := c.Operations[operation].In(limit, operation); units > 0 {
				costs = append(costs, fmt.Sprintf("%s of %s", quota.Thousands(units), limit.Name))
			}
		}
		cost := cmp.Or(strings.Join(costs, " and "), "nothing")
		alike[cost] = append(alike[cost], operation)
		if len(c.Operations) <= maxLines {
			p.line("  %s costs %s", operation, cost)
		}
	}
	if len(c.Operations) > maxLines {
		for _, cost := range slices.Sorted(maps.Keys(alike)) {
			p.line("  %s: %s", cost, strings.Join(alike[cost], ", "))
		}
	}
}

func (p printer) job(c *config.Config, job *jobs.Job) {
	start := ""
	if job.RunAtStart {
		start = " and at the start"
	}
	p.line("\njob %s\n  %s%s, %s", job.Name, job.Schedule, start, stagger(job))
	p.line("  runs %s", config.Redacted(strings.Join(job.Command, " ")))
	p.line("  in %s, for at most %s", job.Dir, quota.Brief(job.Timeout))
	if line := lastStart(job); line != "" {
		p.line("  %s", line)
	}
	for _, line := range demand(c, job) {
		p.line("  %s", line)
	}
}

func stagger(job *jobs.Job) string {
	list := quota.Count(len(job.Regions), "region", "regions")
	switch {
	case job.Regions[0] == regions.None:
		return "one pass"
	case len(job.Regions) == 1:
		return list
	case job.Schedule == (jobs.Unscheduled{}):
		return list + " one after the other"
	case job.Stagger == jobs.EvenStagger:
		return list + " spread evenly"
	}
	return fmt.Sprintf("%s, %s apart", list, quota.Brief(job.Stagger))
}

// lastStart says when the last region of a run starts, by the first period of the schedule.
func lastStart(job *jobs.Job) string {
	slot := job.Schedule.Next(time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)) // the meaning of a file does not depend on the time
	next := job.Schedule.Next(slot)
	if slot.IsZero() || next.IsZero() || len(job.Regions) == 1 {
		return ""
	}
	after := time.Duration(len(job.Regions)-1) * job.StaggerWithin(next.Sub(slot), len(job.Regions))
	return fmt.Sprintf("the last region starts %s after the slot; a region that is refused first in 3 runs in a row goes to the back", quota.Brief(after))
}

// demand says what a whole run is expected to spend of each limit.
func demand(c *config.Config, job *jobs.Job) []string {
	i := slices.IndexFunc(c.Credentials, func(c *quota.Credential) bool { return c.Name == job.Credential })
	credential := c.Credentials[i]            // a good file has it
	charges, _ := credential.Sum(job.Calls()) // a good file's expectations are of known operations
	var lines []string
	for _, limit := range credential.Limits {
		units, _ := quota.ChargeIn(charges, limit.Name)
		if units > 0 {
			run, reserve, again := units*quota.Units(len(job.Regions)), "", ""
			if job.UseReserve && limit.Reserve > 0 {
				reserve = " with the reserve"
			}
			if job.Retry > 0 { // forecasts have no failures
				again = fmt.Sprintf("; one in which every region fails and is tried again takes up to %s", quota.Thousands(run*quota.Units(1+job.Retry)))
			}
			lines = append(lines, fmt.Sprintf("a run takes about %s of %s %s, which has %s%s%s",
				run.Text(), job.Credential, limit.Name, quota.Thousands(limit.Budget(job.UseReserve)), reserve, again))
		}
	}
	return lines
}
