package jobs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// Validate returns what is wrong with the job as FieldErrors, whose paths are the job's keys in the
// configuration file; nil if nothing is. That each value is in the range of its type, such as a
// length that is not below zero, is the reader's to check. Its credential must be one of those given,
// know the operations that the job expects to use, and be able to afford them.
func (j *Job) Validate(credentials []*quota.Credential) []*quota.FieldError {
	v := &validation{job: j}
	if err := quota.CheckName(j.Name); err != nil {
		v.fail(fmt.Sprint(err))
	}
	if err := regions.Check(j.Regions); err != nil {
		v.fail(fmt.Sprint(err), "regions")
	}
	v.schedule()
	if command := j.Command; len(command) == 0 || command[0] == "" {
		v.fail(`a job needs a command: the program and its arguments, ["ytfetch", "trending"]`, "command")
	}
	for _, name := range slices.Sorted(maps.Keys(j.Env)) {
		if strings.HasPrefix(name, contractPrefix) {
			v.fail(fmt.Sprintf("%s: names that begin with %s are set by quotad", name, contractPrefix), "env", name)
		}
	}
	const maxRetries = 10
	if j.Retry < 0 || j.Retry > maxRetries {
		v.fail(fmt.Sprintf("must be from 0 to %d: %d", maxRetries, j.Retry), "retry")
	}
	i := slices.IndexFunc(credentials, func(c *quota.Credential) bool { return c.Name == j.Credential })
	if i < 0 {
		names := make([]string, len(credentials))
		for i, c := range credentials {
			names[i] = c.Name
		}
		v.fail(fmt.Sprintf("credential %q is not configured: %s", j.Credential,
			quota.Meant(j.Credential, names, "add [credentials."+j.Credential+"], or name another")), "credential")
		return v.wrong
	}
	v.expects(credentials[i])
	return v.wrong
}

// A validation collects what is wrong with one job.
type validation struct {
	job   *Job
	wrong []*quota.FieldError
}

func (v *validation) fail(message string, path ...string) {
	v.wrong = append(v.wrong, &quota.FieldError{Path: path, Message: message})
}

// Reference is the instant from which a schedule is judged: what a file means must not depend on when it is read.
var Reference = time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)

func (v *validation) schedule() {
	j := v.job
	if j.Schedule == nil {
		v.fail(`a job needs a schedule: every = "30m", cron = "*/30 * * * *", or schedule = "manual"`, "every")
		return
	}
	if j.Schedule == (Unscheduled{}) {
		if j.RunAtStart {
			v.fail("only a person begins a run of a manual job: remove it", "run_at_start")
		}
		return
	}
	if j.Schedule.Next(Reference).IsZero() {
		v.fail(fmt.Sprintf("%v never happens", j.Schedule), "cron")
		return
	}
	period := shortestPeriod(j.Schedule)
	if j.MaxWait > period {
		v.fail(fmt.Sprintf("%s is longer than the %s between two slots: a run cannot wait beyond the next one",
			quota.Brief(j.MaxWait), quota.Brief(period)), "max_wait")
	}
	if j.RetryAfter >= period {
		v.fail(fmt.Sprintf("%s is not less than the %s between two slots: no region would be served again",
			quota.Brief(j.RetryAfter), quota.Brief(period)), "retry_after")
	}
	if n := len(j.Regions); !j.StaggerFits() {
		v.fail(fmt.Sprintf(`%s, %v apart, do not fit into the %v between two slots: use "even", or less than %v`,
			quota.Count(n, "region", "regions"), j.Stagger, period, period/time.Duration(n-1)), "stagger")
	}
}

// StaggerFits returns whether the last pass of a run starts before the next slot.
func (j *Job) StaggerFits() bool {
	n := len(j.Regions)
	return j.Stagger == EvenStagger || n <= 1 || j.Stagger <= (shortestPeriod(j.Schedule)-1)/time.Duration(n-1)
}

// shortestPeriod returns the shortest time between two of the schedule's first few hundred slots: a year of a daily one.
func shortestPeriod(s Schedule) time.Duration {
	const maxSlots = 400
	shortest := time.Duration(1<<63 - 1)
	slot := s.Next(Reference)
	for range maxSlots {
		next := s.Next(slot)
		if next.IsZero() {
			break
		}
		shortest = min(shortest, next.Sub(slot))
		slot = next
	}
	return shortest
}

// DefaultMaxWait is how long a run waits for a limit by default: a minute, or the shortest time between two slots.
func DefaultMaxWait(s Schedule) time.Duration { return min(shortestPeriod(s), time.Minute) }

// expects checks that one pass could be afforded if nothing else was spent: otherwise the job would never run.
func (v *validation) expects(c *quota.Credential) {
	if len(c.Operations) == 0 { // that is what is wrong
		return
	}
	known := true
	for _, operation := range slices.Sorted(maps.Keys(v.job.Expects)) {
		if err := checkCalls(c, operation, v.job); err != nil {
			v.fail(err.Error(), "expects", operation)
			known = false
		}
	}
	if !known {
		return
	}
	charges, _ := c.Sum(v.job.Calls()) // each operation is known
	for _, charge := range charges {
		limit := c.Limits[c.Index(charge.Limit)]
		// Of a limit without a budget its own reserve is what is wrong.
		budget, held := limit.Budget(v.job.UseReserve), " (units less reserve)"
		if v.job.UseReserve {
			held = ""
		}
		paced := limit.Window.Span() <= v.job.MaxWait
		if budget > 0 && charge.Units > budget && !limit.DryRun && !paced {
			v.fail(fmt.Sprintf("a pass expects %s of limit %q, which never has more than %s%s",
				charge.Units.Text(), limit.Name, quota.Thousands(budget), held), "expects")
		}
	}
}

// checkCalls checks that the calls of an operation which a job expects are ones that a pass can make.
func checkCalls(c *quota.Credential, operation string, j *Job) error {
	count := j.Expects[operation]
	if _, known := c.Operations[operation]; !known {
		return fmt.Errorf("operation %q is not listed for credential %q: %s", operation, c.Name,
			quota.Meant(operation, slices.Sorted(maps.Keys(c.Operations)), "list it under operations"))
	}
	if count < 1 || count > quota.MaxUnits {
		return fmt.Errorf("must be a whole number from 1 to %d: %d", quota.MaxUnits, count)
	}
	_, err := c.Charges(operation, count, j.Name)
	return err
}

// CheckAfter returns what is wrong with the job that this one runs after, or nil. All are the jobs of the host.
func (j *Job) CheckAfter(all []*Job) error {
	path := j.Name
	for one, n := j, 0; one.After != "" && n <= len(all); n++ {
		i := slices.IndexFunc(all, func(other *Job) bool { return other.Name == one.After })
		switch {
		case i < 0 && one == j:
			return fmt.Errorf("job %q is not configured", j.After)
		case i < 0:
			return nil // that job says so
		case one == j && all[i].Host != j.Host:
			return fmt.Errorf("job %q runs on another host: write the same host in both", j.After)
		}
		one = all[i]
		if path += " after " + one.Name; one == j {
			return fmt.Errorf("no job of a circle would ever run: %s", path)
		}
	}
	return nil
}
