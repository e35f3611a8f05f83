package trouble

import (
	"cmp"
	"fmt"
	"slices"

	"quotad/jobs"
	"quotad/quota"
)

const (
	shortRuns    = 2 // in a row without units, and a job starves
	manyOverlaps = 3 // in a row, and a job fails: that does not mend itself
	shortRegions = 3 // the same of one region
)

// job judges what is of a job.
func (l *list) job(j *jobs.Status) {
	of := "job " + j.Name
	if j.Aside != "" {
		l.add(Trouble{Kind: Disk, Of: of, Cause: "aside", Says: j.Name + ": " + j.Aside, Do: "quotactl jobs " + j.Name})
	}
	if j.NotKept != "" {
		l.add(Trouble{Kind: Disk, Of: of, Cause: "write", Says: j.Name + ": a restart would not know what happened: " + j.NotKept, Do: "df " + l.State.Disk.Dir, Grave: true})
	}
	if j.Hosts != "" {
		l.add(Trouble{Kind: Hosts, Of: of, Says: j.Name + ": " + j.Hosts, Do: "quotactl jobs " + j.Name, Grave: true})
	}
	l.failing(j, of)
	l.starved(j, of)
	l.uncounted(j, of)
}

// uncounted judges a job that should call, and of which quotad counts no call.
func (l *list) uncounted(j *jobs.Status, of string) {
	runs := l.Idle[j.Name]
	if runs == 0 || j.Expects != nil && len(j.Expects) == 0 {
		return
	}
	cure := "does it ask quotad before each call?"
	if i := slices.IndexFunc(l.Credentials, func(c CredentialState) bool { return c.Name == j.Credential }); i >= 0 && l.Credentials[i].Proxied {
		cure = "does it use $QUOTAD_PROXY?"
	} else if j.Expects == nil {
		return
	}
	l.add(Trouble{Kind: Uncounted, Of: of, Says: fmt.Sprintf("%s: %s ok, no call counted: %s", j.Name, quota.Count(runs, "run", "runs"), cure), Do: "quotactl runs " + j.Name})
}

// failing judges a job of which regions fail, or no run is in time or good.
func (l *list) failing(j *jobs.Status, of string) {
	if j.Overlaps >= manyOverlaps {
		l.add(Trouble{Kind: Failing, Of: of, Cause: "overlaps", Do: "quotactl runs " + j.Name,
			Says: fmt.Sprintf("%s: a run was still under way at %d slots in a row: give it more time between two, or split the regions over two jobs", j.Name, j.Overlaps)})
	}
	if !j.Due.IsZero() && !l.now.Before(j.Due) {
		l.add(Trouble{Kind: Failing, Of: of, Cause: "good", Grave: true, Since: j.Due, Do: "quotactl runs " + j.Name,
			Says: fmt.Sprintf("%s: no run has ended well: one was due %s", j.Name, l.at(j.Due))})
	}
	if len(j.Failing) == 0 {
		return
	}
	first := slices.MinFunc(j.Failing, func(a, b jobs.Failing) int { return a.Since.Compare(b.Since) })
	var names []string
	for _, f := range j.Failing {
		names = append(names, string(f.Region))
	}
	verb, again := "fails", ""
	if len(names) > 1 {
		verb = "fail"
	}
	if first.Times > 1 {
		again = fmt.Sprintf(" (%d times)", first.Times)
	}
	who := j.Name + ": " + named(names)
	if !j.HasRegions() {
		who = j.Name
	}
	says := fmt.Sprintf("%s %s since %s%s", who, verb, l.at(first.Since), again)
	if first.Cause != "" {
		says += ": " + first.Cause
	}
	l.add(Trouble{Kind: Failing, Of: of, Says: says, Do: "quotactl runs " + j.Name, Grave: isAll(j), Since: first.Since})
}

// isAll returns whether all regions of a job fail. Of many, not all are known to.
func isAll(j *jobs.Status) bool {
	if j.Last != nil && j.Last.Outcomes()[jobs.OK] > 0 {
		return false
	}
	return len(j.Failing) == len(j.Regions) || len(j.Failing) >= jobs.MaxFailing
}

// starved judges a job that is short of units. It is none where it should be: at a share or a pace that the schedule asks
// more of than it has.
func (l *list) starved(j *jobs.Status, of string) {
	s := j.Short
	i := slices.IndexFunc(l.Credentials, func(c CredentialState) bool { return c.Name == j.Credential })
	if s == nil || s.Runs < shortRuns && s.Times < shortRegions || i < 0 {
		return
	}
	c, who := &l.Credentials[i], j.Name
	if s.Runs < shortRuns && j.HasRegions() {
		who += ": " + string(s.Region)
	}
	n := slices.IndexFunc(c.Limits, func(limit LimitState) bool { return limit.Name == s.Limit })
	if n < 0 {
		if len(c.Limits) > 0 && s.Limit == "" { // it ended without a denial, or expects more than there ever is
			l.add(Trouble{Kind: Starved, Of: of, Says: fmt.Sprintf("%s is not run for want of units: %s", who, s.Detail), Do: "quotactl jobs " + j.Name, Grave: true, Since: s.Since})
		}
		return
	}
	limit := &c.Limits[n]
	needs, left := cmp.Or(need(c, j, limit.Name), s.Needs), limit.Spendable(j.UseReserve)
	switch {
	case !limit.Closed.IsZero() && !limit.wasSpent(), limit.DryRun: // that is reported, or over
		return
	case needs > 0 && needs <= left, needs == 0 && !s.RetryAt.IsZero() && !l.now.Before(s.RetryAt): // by now it fits
		return
	case c.isPlanned(limit):
		return
	}
	says := fmt.Sprintf("%s: %s left of %s %s", who, quota.Thousands(left), c.Name, limit.Name)
	if needs > 0 {
		says = fmt.Sprintf("%s: %s needed, %s left of %s %s", who, quota.Thousands(needs), quota.Thousands(left), c.Name, limit.Name)
	}
	if s.RetryAt.After(l.now) {
		says += "; fits " + l.at(s.RetryAt)
	}
	l.add(Trouble{Kind: Starved, Of: of, Says: says, Do: "quotactl plan", Grave: true, Since: s.Since})
}

// Starves returns whether a job's last run lacked units of a limit that do not return before the next one: no trouble yet.
func (c *CredentialState) Starves(j *jobs.Status, limit *LimitState) bool {
	s := j.Short
	return s != nil && j.Credential == c.Name && s.Limit == limit.Name && j.Host == "" && !j.Next.IsZero() && s.RetryAt.After(j.Next) &&
		!limit.DryRun && limit.Closed.IsZero() && limit.Spendable(j.UseReserve) < cmp.Or(need(c, j, limit.Name), s.Needs, 1) &&
		(!limit.Window.Restarts() || limit.NextAt.After(j.Next)) // the window may be another one since
}
