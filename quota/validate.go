package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A FieldError says which part of a credential is wrong. Path names it as the
// configuration file does: ["limits", "daily", "reserve"].
type FieldError struct {
	Path    []string
	Message string
}

func (e *FieldError) Error() string { return e.Message }

// Validate returns everything that is wrong with the credential as FieldErrors, or nil: names, ranges, windows,
// limits that a cost names and that are not defined, operations that no limit counts, and limits that count nothing.
func (c *Credential) Validate() []*FieldError {
	v := &validation{Credential: c}
	if err := CheckName(c.Name); err != nil {
		v.fail(nil, "%v", err)
	}
	if len(c.Limits) == 0 {
		v.fail([]string{"limits"}, "a credential needs at least one limit")
	}
	if len(c.Operations) == 0 {
		v.fail([]string{"operations"}, "a credential needs at least one operation: one that is not listed is refused")
	}
	if c.Keep != 0 && (c.Keep < leastKeep || c.Keep > LongestWindow) {
		v.fail([]string{"keep"}, "must be from %s to %s: %s; leave it out to keep what the limits count",
			Brief(leastKeep), Brief(LongestWindow), Brief(c.Keep))
	}
	for _, limit := range c.Limits {
		v.limit(limit)
	}
	for operation, cost := range c.Operations {
		v.cost(operation, cost)
	}
	if v.wrong == nil { // it may count what was meant
		v.counting()
	}
	return v.wrong
}

// A validation collects what is wrong with a credential.
type validation struct {
	*Credential
	wrong []*FieldError
}

func (v *validation) fail(path []string, format string, args ...any) {
	v.wrong = append(v.wrong, &FieldError{Path: path, Message: fmt.Sprintf(format, args...)})
}

func (v *validation) limit(l Limit) {
	fail := func(key, format string, args ...any) { v.fail([]string{"limits", l.Name, key}, format, args...) }
	if err := CheckName(l.Name); err != nil {
		v.fail([]string{"limits", l.Name}, "%v", err)
	}
	switch {
	case l.Units < 1 || l.Units > MaxUnits:
		fail("units", "must be from 1 to %d: %d", MaxUnits, l.Units)
	case l.Reserve < 0 || l.Reserve >= l.Units:
		fail("reserve", "must be at least 0 and less than units (%d): %d", l.Units, l.Reserve)
	}
	if err := l.Window.validate(); err != nil {
		fail("window", "%v", err)
	}
	for _, operation := range l.Only {
		if _, known := v.Operations[operation]; !known && len(v.Operations) > 0 {
			fail("only", "unknown operation %q: %s", operation, Meant(operation, slices.Sorted(maps.Keys(v.Operations)), "list it under operations"))
		}
	}
	if len(l.Jobs) > 0 && len(l.ExceptJobs) > 0 {
		fail("except_jobs", "cannot be combined with jobs: remove one of them")
	}
	v.jobs(l, "jobs", l.Jobs)
	v.jobs(l, "except_jobs", l.ExceptJobs)
}

// jobs checks the jobs of a share, and its remote callers.
func (v *validation) jobs(l Limit, key string, names []string) {
	for i, name := range names {
		kind := "job"
		caller, isRemote := strings.CutPrefix(name, RemotePrefix)
		if isRemote {
			kind = "caller"
		}
		if err := CheckName(caller); err != nil {
			v.fail([]string{"limits", l.Name, key}, "%v", err)
		} else if slices.Contains(names[:i], name) {
			v.fail([]string{"limits", l.Name, key}, "%s %q is listed twice: remove one", kind, caller)
		}
	}
}

func (v *validation) cost(operation string, cost Cost) {
	fail := func(format string, args ...any) { v.fail([]string{"operations", operation}, format, args...) }
	if err := CheckOperation(operation); err != nil {
		fail("%v", err)
	}
	unknown := false
	for name, units := range cost.Per {
		limit, known := v.Limit(name)
		switch {
		case !known:
			unknown = true
			fail("unknown limit %q: %s", name, Meant(name, v.LimitNames(), "add it under limits"))
		case units < 0 || units > MaxUnits:
			fail("the cost in limit %q must be from 0 to %d: %d", name, MaxUnits, units)
		case units > 0 && !limit.Counts(operation):
			fail("limit %q does not count this operation: add it to the limit's only, or leave the limit out here", name)
		}
	}
	if cost.Every < 0 || cost.Every > MaxUnits {
		fail("the cost must be from 0 to %d: %d", MaxUnits, cost.Every)
		return
	}
	if cost.greatest() == 0 && (cost.Per == nil || len(cost.Per) > 0) {
		return // free on purpose, as are the calls of those that only a limit with a cost of 0 counts
	}
	counting := slices.DeleteFunc(slices.Clone(v.Limits), func(l Limit) bool {
		_, named := cost.Per[l.Name]
		return !named && (cost.Per != nil || cost.Every > 0 && !l.Counts(operation))
	})
	switch job, free := uncounted(counting); {
	case len(counting) == 0 && unknown: // that is why
	case len(counting) == 0:
		fail("no limit counts this operation, so it would be free: name it in a limit's only, or give it a cost in one; a cost of 0 is free")
	case free && job == "":
		fail("only limits with jobs of their own count this operation, so it would be free for everybody else: let a limit without jobs count it")
	case free:
		fail("no limit counts this operation for job %q, so it would be free: let a limit without except_jobs count it", job)
	}
}

// uncounted finds a job whose calls none of the limits counts: one that a limit names, or "" for everybody else.
func uncounted(limits []Limit) (job string, found bool) {
	jobs := []string{""}
	for _, limit := range limits {
		jobs = slices.Concat(jobs, limit.Jobs, limit.ExceptJobs)
	}
	i := slices.IndexFunc(jobs, func(job string) bool {
		return !slices.ContainsFunc(limits, func(l Limit) bool { return l.CountsJob(job) })
	})
	if i < 0 {
		return "", false
	}
	return jobs[i], true
}

// counting finds the limits in which no operation costs anything.
func (v *validation) counting() {
	for _, l := range v.Limits {
		isCounted := false
		for operation, cost := range v.Operations {
			isCounted = isCounted || cost.In(l, operation) > 0
		}
		if !isCounted {
			v.fail([]string{"limits", l.Name}, "no operation costs anything in it, so it would deny nothing: "+
				"name it in the operations that it should count")
		}
	}
}
