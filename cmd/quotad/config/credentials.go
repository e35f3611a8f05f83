package config

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"quotad/quota"
	"quotad/quota/slidinglog"
	"quotad/quota/upstream"
)

// decode refuses a table of a credential without the name of one.
func (t *credentialTable) decode(n node) {
	name := n.path[len(n.path)-1]
	if slices.Contains(keysOf(reflect.TypeOf(*t)), name) {
		n.fail("is in no credential: give that a name, such as [credentials.youtube.%s]", name)
		return
	}
	n.value = n.withPreset()
	n.intoTable(t)
}

// credentials sets the credentials with what belongs to them, and checks each by itself.
func (c *Config) credentials() {
	c.Outages, c.Profiles = map[string]slidinglog.Policy{}, map[string]upstream.Profile{}
	if len(c.names("credentials")) == 0 && len(c.groups()) == 0 {
		c.fail("credentials", "no credential is configured: add [credentials.NAME.limits.NAME] and [credentials.NAME.operations]")
	}
	for _, name := range c.names("credentials") {
		one := c.fileTable.Credentials[name]
		credential := one.credential(name)
		for _, limit := range one.names("limits") {
			one.Limits[limit].warnBelow(&c.OnEvent, name+" "+limit)
		}
		outage := one.OnOutage.outage(credential)
		if c.Ledger.Backend == Embedded && one.has("on_outage") {
			one.OnOutage.warn(`does nothing with the embedded ledger, which is always there: remove it, or set backend = "redis" in [ledger]`)
			outage = slidinglog.Policy{}
		}
		c.Credentials = append(c.Credentials, credential)
		c.Outages[name] = outage
		c.Profiles[name] = one.profile()
		if one.Proxy != nil {
			target := one.Proxy.target(credential)
			target.RefusedFree, target.ReadsAll = one.Answers.Refused == "free", len(one.Answers.Reason) > 0
			c.Targets = append(c.Targets, target)
		}
		one.check(credential)
	}
}

func (t *credentialTable) credential(name string) *quota.Credential {
	c := t.Credential
	c.Name, c.Operations = name, maps.Clone(t.Operations)
	for _, limit := range t.names("limits") {
		one := t.Limits[limit]
		l := one.Limit
		l.Name, l.Jobs, l.ExceptJobs = limit, sharers(one.Jobs), sharers(one.ExceptJobs)
		c.Limits = append(c.Limits, l)
	}
	t.joinPools(&c)
	return &c
}

// shares checks that the jobs and callers that limits name exist, and spend from the credential.
func (t *fileTable) shares() {
	for credential, one := range t.Credentials {
		for _, l := range one.Limits {
			t.share(credential, l, "jobs", l.Jobs)
			t.share(credential, l, "except_jobs", l.ExceptJobs)
		}
	}
}

func (t *fileTable) share(credential string, l *limitTable, key string, names []string) {
	if l.has(key) && len(names) == 0 {
		l.fail(key, "must name at least one job: leave it out for a limit that counts everybody's calls")
	}
	for _, name := range names {
		job, known := t.Jobs[name]
		caller, isRemote := strings.CutPrefix(name, "@")
		switch one := t.Remote.Callers[caller]; {
		case isRemote && one == nil:
			l.fail(key, "there is no [remote.callers.%s]%s", caller, suggest(caller, t.Remote.names("callers")))
		case isRemote && !slices.Contains(one.Credentials, credential):
			l.fail(key, "caller %q may not spend from this credential: add %q to its credentials", caller, credential)
		case isRemote:
		case !known:
			l.fail(key, "there is no job %q%s", name, suggest(name, t.names("jobs")))
		case job.Credential != "" && job.Credential != credential:
			l.fail(key, "job %q spends from credential %q, not from this one", name, job.Credential)
		}
	}
}

// check records errors.
func (t *credentialTable) check(c *quota.Credential) {
	t.addErrors(c.Validate())
	if longest := c.Longest(); c.Keep > 0 && c.Keep <= longest {
		t.at("keep").warn("does nothing: a limit counts what was granted for %s, and the log keeps that: "+
			"remove it, or write more", quota.Brief(longest))
	}
	t.neverFit(c)
}

// neverFit records costs in the file that never fit a limit. Costs of a preset may: its operations need not be called.
// A share may be too small for operations that its jobs never use. Of a limit that leaves nothing to spend that is the
// error.
func (t *credentialTable) neverFit(c *quota.Credential) {
	for operation, cost := range c.Operations {
		at := t.at("operations", operation)
		if !t.document.isInFile(at.path) {
			continue
		}
		for _, l := range c.Limits {
			units, budget := cost.In(l, operation), l.Budget(false)
			if units > budget && budget > 0 && !l.IsShare() {
				at.fail("costs %s, which can never fit limit %q: %s less a reserve of %s; write more units there, "+
					"have it count other operations only (only = […]), or leave this one out",
					units.Text(), l.Name, l.Units.Text(), quota.Thousands(l.Reserve))
			}
		}
	}
}

// outage applies on_outage, a default and exceptions by operation, to the operations.
func (t *outageTable) outage(c *quota.Credential) slidinglog.Policy {
	o := slidinglog.Policy{Open: map[string]bool{}, Units: t.OpenUnits}
	for operation := range c.Operations {
		if cmp.Or(t.Operations[operation], t.Default) == "open" {
			o.Open[operation] = true
		}
	}
	for name := range t.Operations {
		if _, known := c.Operations[name]; !known {
			t.at(name).fail("unknown operation (give it a cost in [credentials.%s.operations])%s", c.Name,
				suggest(name, slices.Collect(maps.Keys(c.Operations))))
		}
	}
	if len(o.Open) > 0 {
		t.require("open_units", "50, the most that may be granted in any window")
	}
	return o
}
