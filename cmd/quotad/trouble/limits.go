package trouble

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"quotad/jobs"
	"quotad/quota"
)

// A CredentialState is one with what is known of its limits and its upstream.
type CredentialState struct {
	*quota.Credential
	Limits  []LimitState // none while they are unknown
	Refuses *Refusal     // of its key, quota or bill, which a person has to change; nil: the upstream takes them
	Silent  *Refusal     // the upstream has not answered since its last answer; nil: it answers
	Keyless *Keyless     // nil: its key_command prints one, or it has none
	KeyCure string       // what to do about a key that is refused
	Proxied bool         // jobs may call the upstream through the proxy
}

// A Keyless credential has a key_command that prints no key.
type Keyless struct {
	Since time.Time
	Says  string    // why
	Over  bool      // there is no key any more, so that no call is sent
	Ends  time.Time // of the key before; zero: not known
}

// A Refusal is an upstream that does not serve a credential.
type Refusal struct {
	Since time.Time
	Says  string
}

// A LimitState is a limit as it is now.
type LimitState struct {
	quota.LimitState
	// Fits means that what the schedule asks of the limit has room in it, and Asks that it asks anything.
	Fits, Asks bool
	// GoneAt is when everybody but the schedule uses it up; zero: they do not within a day. Spender is who spends most of
	// that, and Rate how much in an hour.
	GoneAt  time.Time
	Spender string
	Rate    quota.Units

	ClosedAt quota.Units // of one that is closed: what was used then
	ByHand   bool        // an operator closed it

	Size quota.Units // of the limit, as the upstream says; 0: it does not
}

const (
	graveSilence = 5 * time.Minute
	soon         = time.Hour
)

// credential judges what is of a credential.
func (l *list) credential(c *CredentialState) {
	if r := c.Refuses; r != nil {
		one := Trouble{Kind: Key, Of: "credential " + c.Name, Cause: r.Says, Says: c.Name + "'s key is refused: " + r.Says, Do: c.KeyCure, Grave: true, Since: r.Since}
		if strings.Contains(r.Says, "suspended") { // another key of the project is refused as well
			one.Says, one.Do = c.Name+" is refused: "+r.Says, "ask the upstream's provider"
		}
		l.add(one)
	}
	if k := c.Keyless; k != nil {
		one := Trouble{Kind: Key, Of: "credential " + c.Name, Cause: "command", Do: "quotactl reload", Since: k.Since,
			Grave: k.Over || !k.Ends.IsZero() && k.Ends.Sub(l.now) < soon}
		switch {
		case k.Over:
			one.Says = fmt.Sprintf("%s has no key: its key_command fails: %s", c.Name, k.Says)
		case k.Ends.IsZero():
			one.Says = fmt.Sprintf("%s's key_command fails, its last key still serves: %s", c.Name, k.Says)
		default:
			one.Says = fmt.Sprintf("%s's key_command fails, its last key serves until %s: %s", c.Name, l.at(k.Ends), k.Says)
		}
		l.add(one)
	}
	if s := c.Silent; s != nil {
		l.add(Trouble{Kind: Unreachable, Of: "credential " + c.Name, Says: s.Says, Grave: l.now.Sub(s.Since) > graveSilence, Since: s.Since})
	}
	for i := range c.Limits {
		limit := &c.Limits[i]
		name := c.Name + " " + limit.Name
		l.closed(c, limit, name)
		l.dry(c, limit, name)
	}
}

// closed judges a limit that the upstream closed. Where our own count was used up, that was the plan; so it is where
// the limit opens before each of its jobs comes to its next slot.
func (l *list) closed(c *CredentialState, limit *LimitState, name string) {
	k := limit.Closed
	if k.IsZero() || limit.ByHand || limit.wasSpent() {
		return
	}
	long := k.Until.Sub(k.Since) >= time.Hour // a minute's closing mends itself
	waits := func(j *jobs.Status) bool {
		return j.Next.IsZero() && long || !j.Next.IsZero() && j.Next.Before(k.Until)
	}
	spends := l.spends(c, limit.Limit)
	if !slices.ContainsFunc(spends, waits) && (len(spends) > 0 || !long) {
		return
	}
	cause := fmt.Sprintf("at %s of our %s", quota.Thousands(limit.ClosedAt), quota.Thousands(limit.Units))
	if limit.Size > 0 && limit.Size != limit.Units {
		cause += fmt.Sprintf("; the upstream's limit is %s", quota.Thousands(limit.Size))
	}
	says := strings.TrimSuffix(fmt.Sprintf("%s is closed until %s: %s: %s", name, l.at(k.Until), cause, k.Says), ": ")
	l.add(Trouble{Kind: Closed, Of: "limit " + name, Says: says, Do: "quotactl open " + name,
		Grave: len(spends) > 0, Since: k.Since})
}

// wasSpent returns whether our own count of a limit was used up when the upstream closed it.
func (l *LimitState) wasSpent() bool { return !l.ByHand && l.ClosedAt >= l.LimitState.Budget(false) }

// dry judges a limit that is used up within the hour, faster than the schedule explains. It is in the way of a job only if
// the schedule has room in it.
func (l *list) dry(c *CredentialState, limit *LimitState, name string) {
	if limit.GoneAt.IsZero() || limit.GoneAt.Sub(l.now) > soon || !limit.Fits || c.isPlanned(limit) || !limit.Closed.IsZero() {
		return
	}
	comes := func(j *jobs.Status) bool { return !j.Next.IsZero() && j.Pause == nil && j.Name != limit.Spender }
	if !slices.ContainsFunc(l.spends(c, limit.Limit), comes) {
		return
	}
	one := Trouble{Kind: Dry, Of: "limit " + name, Do: "quotactl plan", Grave: true}
	one.Says = fmt.Sprintf("%s is used up at about %s", name, l.at(limit.GoneAt))
	if limit.Remaining() == 0 {
		one.Says = name + " is used up, though its jobs have room in it"
	}
	if limit.Spender != "" && limit.Rate > 0 {
		one.Says += fmt.Sprintf(": %s spends %s", limit.Spender, rate(limit.Rate))
		one.Do = "quotactl usage " + c.Name
	}
	if slices.ContainsFunc(l.Jobs, func(j jobs.Status) bool {
		return j.Name == limit.Spender && j.Last != nil && j.Last.State == jobs.RunRunning
	}) {
		one.Do = "quotactl stop " + limit.Spender
	}
	l.add(one)
}

// rate writes units an hour in the unit that people would.
func rate(perHour quota.Units) string {
	switch {
	case perHour >= 3600:
		return quota.Thousands(perHour/3600) + " a second"
	case perHour >= 600:
		return quota.Thousands(perHour/60) + " a minute"
	}
	return quota.Thousands(perHour) + " an hour"
}

// spends returns the jobs that spend from a limit.
func (l *list) spends(c *CredentialState, limit quota.Limit) (list []*jobs.Status) {
	for i := range l.Jobs {
		if j := &l.Jobs[i]; j.Credential == c.Name && limit.CountsJob(j.Name) && (len(j.Expects) == 0 || need(c, j, limit.Name) > 0) {
			list = append(list, j)
		}
	}
	return list
}

// need returns what a pass of a job needs in a limit, as far as it says so.
func need(c *CredentialState, j *jobs.Status, limit string) quota.Units {
	charges, _ := c.Sum(quota.Calls{Job: j.Name, Count: j.Expects})
	units, _ := quota.ChargeIn(charges, limit)
	return units
}

// isPlanned returns whether it is the plan that a limit is used up: it is a part of the credential's budget, a share or a
// pace, which is shorter than another limit, and no schedule is known that has room in it.
func (c *CredentialState) isPlanned(limit *LimitState) bool {
	longer := func(other LimitState) bool { return !other.DryRun && other.Window.Span() > limit.Window.Span() }
	isPart := limit.IsShare() || slices.ContainsFunc(c.Limits, longer)
	return isPart && !(limit.Fits && limit.Asks)
}
