package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/proxy"
)

// summarize says what a configuration means.
func summarize(w io.Writer, c *config.Config) {
	fmt.Fprintf(w, "%s is good.\n\n", c.File)
	fmt.Fprintf(w, "state   %s\nsocket  %s\nledger  %s\n", c.StateDir, c.Socket, ledgerPlace(c))
	if c.Metrics != "" {
		fmt.Fprintf(w, "metrics http://%s/metrics\n", c.Metrics)
	}
	if c.Proxy != "" {
		fmt.Fprintf(w, "proxy   http://%s, for passes that call the address in $%s\n", c.Proxy, proxy.AddressEnv)
	}
	summarizeRemote(w, c.Remote)
	for _, event := range slices.Sorted(maps.Keys(c.OnEvent.Commands)) {
		fmt.Fprintf(w, "on %s: %s\n", event, strings.Join(c.OnEvent.Commands[event], " "))
	}
	fits := c.Fits()
	for _, credential := range c.Credentials {
		summarizeCredential(w, credential, c.Outages[credential.Name], fits)
		if preset, brought := c.Presets[credential.Name]; brought {
			fmt.Fprintf(w, "  preset %s, checked on %s, knows %s and %s\n", preset.Name, preset.Checked.Format(time.DateOnly),
				quota.Count(preset.Limits, "limit", "limits"), quota.Count(preset.Operations, "operation", "operations"))
		}
		summarizeTarget(w, c, credential.Name)
	}
	for _, job := range c.Jobs {
		summarizeJob(w, c, job)
	}
	for _, clients := range c.Clients {
		summarizeClients(w, clients)
	}
}

func summarizeRemote(w io.Writer, r config.Remote) {
	if r.Listen == "" {
		return
	}
	by := "over TLS"
	if r.CertFile == "" {
		by = "behind the proxy at " + r.Behind.String()
	}
	fmt.Fprintf(w, "remote  %s, %s\n", r.Listen, by)
	for _, c := range r.Callers {
		operations := "every operation"
		if c.Operations != nil {
			operations = strings.Join(c.Operations, ", ")
		}
		may := append(slices.Clone(c.Credentials), c.Clients...)
		fmt.Fprintf(w, "  %s: %s, %s, by %s\n", c.Name, strings.Join(may, ", "), operations, quota.Count(len(c.Tokens), "token", "tokens"))
	}
}

func summarizeClients(w io.Writer, c *clientlimit.Clients) {
	fmt.Fprintf(w, "\nclients %s\n", c.Name)
	for _, limit := range c.Limits {
		fmt.Fprintf(w, "  limit %s: %s for each %s\n", limit.Name, limit.Units.Text(), limit.Describe())
	}
	for _, operation := range slices.Sorted(maps.Keys(c.Operations)) {
		fmt.Fprintf(w, "  %s costs %s\n", operation, c.Operations[operation].Text())
	}
	outage := "granted"
	if !c.OpenOnOutage {
		outage = "refused"
	}
	fmt.Fprintf(w, "  counted by the algorithm %s; while the ledger cannot be reached, every call is %s\n", c.Algorithm, outage)
}

// summarizeTarget says where calls of a credential go that come through the proxy.
func summarizeTarget(w io.Writer, c *config.Config, credential string) {
	for _, target := range c.Targets {
		if target.Credential == credential {
			fmt.Fprintf(w, "  through the proxy: %s, by %s; the key is sent as %s\n",
				target.Upstream, quota.Count(target.Routes.Len(), "route", "routes"), target.KeyHeader)
		}
	}
}

func ledgerPlace(c *config.Config) string {
	if c.Ledger.Backend == config.OnRedis {
		return "Redis at " + strings.Join(c.Ledger.Redis.Addrs, ", ")
	}
	return "embedded, in the state directory"
}

func summarizeCredential(w io.Writer, c *quota.Credential, outage config.Outage, fits []plan.Fit) {
	fmt.Fprintf(w, "\ncredential %s\n", c.Name)
	for _, limit := range c.Limits {
		fmt.Fprintf(w, "  limit %s: %s %s", limit.Name, limit.Units.Text(), limit.Describe())
		if limit.Reserve > 0 {
			fmt.Fprintf(w, "; jobs stop at %s", quota.Thousands(limit.Budget(false)))
		}
		fmt.Fprintln(w)
		summarizeDemand(w, c.Name, limit.Name, fits)
	}
	summarizeOperations(w, c)
	if len(outage.Open) > 0 {
		fmt.Fprintf(w, "  while the ledger cannot be reached, up to %s may be granted for %s\n",
			outage.Units.Text(), strings.Join(slices.Sorted(maps.Keys(outage.Open)), ", "))
	}
}

// few is how many operations have a line each.
const few = 10

// summarizeOperations says what operations cost: one by one where they are few, else
// those together that cost the same.
func summarizeOperations(w io.Writer, c *quota.Credential) {
	alike := map[string][]string{}
	for _, operation := range slices.Sorted(maps.Keys(c.Operations)) {
		if len(c.Operations) <= few {
			fmt.Fprintf(w, "  %s costs %s\n", operation, costs(c, operation))
		}
		alike[costs(c, operation)] = append(alike[costs(c, operation)], operation)
	}
	if len(c.Operations) <= few {
		return
	}
	for _, cost := range slices.Sorted(maps.Keys(alike)) {
		fmt.Fprintf(w, "  %s: %s\n", cost, strings.Join(alike[cost], ", "))
	}
}

// summarizeDemand says what the jobs ask of a limit, if they do.
func summarizeDemand(w io.Writer, credential, limit string, fits []plan.Fit) {
	for _, f := range fits {
		if f.Credential == credential && f.Limit == limit && f.Demand > 0 {
			late := ""
			if f.AtWorst > f.Demand {
				late = fmt.Sprintf(", and for %s when passes are late", quota.Thousands(f.AtWorst))
			}
			fmt.Fprintf(w, "    the jobs ask for %s in one window%s\n", quota.Thousands(f.Demand), late)
		}
	}
}

// costs lists what one call costs: "100 of daily and 100 of search".
func costs(c *quota.Credential, operation string) string {
	var parts []string
	for _, limit := range c.Limits {
		if units := c.Operations[operation].In(limit, operation); units > 0 {
			parts = append(parts, fmt.Sprintf("%s of %s", quota.Thousands(units), limit.Name))
		}
	}
	return strings.Join(parts, " and ")
}

func summarizeJob(w io.Writer, c *config.Config, job *jobs.Job) {
	fmt.Fprintf(w, "\njob %s\n  %s%s, %s\n  runs %s\n", job.Name, job.Schedule, atStart(job), stagger(job), strings.Join(job.Command, " "))
	fmt.Fprintf(w, "  in %s, for at most %s\n", job.Dir, quota.Brief(job.Timeout))
	if line := lastStart(job); line != "" {
		fmt.Fprintf(w, "  %s\n", line)
	}
	for _, line := range demand(c, job) {
		fmt.Fprintf(w, "  %s\n", line)
	}
}

func atStart(job *jobs.Job) string {
	if job.RunAtStart {
		return " and at the start"
	}
	return ""
}

func stagger(job *jobs.Job) string {
	list := quota.Count(len(job.Regions), "region", "regions")
	if job.Schedule == (jobs.Unscheduled{}) {
		return list + " one after the other"
	}
	if job.Stagger == jobs.EvenStagger {
		return list + " spread evenly"
	}
	return fmt.Sprintf("%s, %s apart", list, quota.Brief(job.Stagger))
}

// lastStart says when the last region of a run starts, by the first period of the schedule.
func lastStart(job *jobs.Job) string {
	slot := job.Schedule.Next(time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)) // what a file means does not depend on when it is read
	next := job.Schedule.Next(slot)
	if slot.IsZero() || next.IsZero() || len(job.Regions) == 1 {
		return ""
	}
	after := time.Duration(len(job.Regions)-1) * job.StaggerWithin(next.Sub(slot), len(job.Regions))
	return fmt.Sprintf("the last region starts %s after the slot; one that runs dry at the head of three runs in a row yields its turn", quota.Brief(after))
}

// demand says what a whole run is expected to take of each limit.
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
			if job.Retry > 0 { // failures are no part of any forecast
				again = fmt.Sprintf("; one in which every region fails and is tried again takes up to %s", quota.Thousands(run*quota.Units(1+job.Retry)))
			}
			lines = append(lines, fmt.Sprintf("a run takes about %s of %s %s, which has %s%s%s",
				run.Text(), job.Credential, limit.Name, quota.Thousands(limit.Budget(job.UseReserve)), reserve, again))
		}
	}
	lines = append(lines, config.Counts(credential, job.Name, job.UseReserve)...)
	if job.UnitsPerRun > 0 {
		lines = append(lines, fmt.Sprintf("a run that has spent %s ends, and the next one begins there%s", job.UnitsPerRun.Text(), afterHowMany(credential, job)))
	}
	return lines
}

// afterHowMany says for how many regions the units of a run are enough, where they are not for all.
func afterHowMany(c *quota.Credential, job *jobs.Job) string {
	cost := c.Cost(job.Calls())
	if cost == 0 || job.UnitsPerRun/cost >= quota.Units(len(job.Regions)) {
		return ""
	}
	return fmt.Sprintf(": after %s of %d", quota.Count(job.UnitsPerRun/cost, "region", "regions"), len(job.Regions))
}
