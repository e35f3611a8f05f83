package jobs

import (
	"fmt"
	"slices"
	"time"

	"quotad/quota"
)

// A Daemon is one on the same ledger.
type Daemon struct {
	ID, Name string
	Jobs     []string      // that it schedules
	Ago      time.Duration // since it said that it lives, by the ledger's clock
	Self     bool          // it is this one
}

// livesFor is how long a host that says nothing more counts as one that lives.
const livesFor = 15 * time.Second

// RunsOn returns which host runs a job by its schedule: the one of the name that the job gives, else the
// first by name, of those that live and have the job. Of two of one name it is the last by id: the
// daemon before it was killed. False: there is none.
func RunsOn(job *Job, hosts []Daemon) (first Daemon, found bool) {
	for _, h := range hosts {
		if h.Ago > livesFor || job.Host != "" && h.Name != job.Host || !slices.Contains(h.Jobs, job.Name) {
			continue
		}
		if !found || h.Name < first.Name || h.Name == first.Name && h.ID > first.ID {
			first, found = h, true
		}
	}
	return first, found
}

// hosts returns the hosts that may run a job, this one among them, and how long ago the ledger named them.
// Known is false if it has not yet.
func (r *Runner) hosts(job *Job) (list []Daemon, age time.Duration, known bool) {
	self := Daemon{Name: r.config.Name, Self: true}
	if r.config.Hosts != nil {
		if list, age, known = r.config.Hosts(); !known {
			age = livesFor
		}
	}
	if i := slices.IndexFunc(list, func(h Daemon) bool { return h.Self }); i >= 0 {
		self.ID = list[i].ID
		list = slices.Delete(slices.Clone(list), i, i+1)
	}
	self.Jobs = []string{job.Name} // by this host's configuration as it is now
	return append(list, self), age, known
}

// runsHere returns whether this host runs a slot of a job that is due. If the ledger has not said lately which
// hosts live, it waits for that: a host that was frozen must not go by what it knew before. If the ledger
// cannot be reached, what it said last holds.
func (r *Runner) runsHere(j *jobControl, slot time.Time) bool {
	if r.config.Hosts == nil {
		return true
	}
	const fresh, often = 3 * time.Second, 100 * time.Millisecond
	began, next := time.Now(), j.current().Schedule.Next(r.now())
	for {
		job := j.current()
		list, age, known := r.hosts(job)
		if age <= fresh || known && time.Since(began) >= fresh || job.Host != "" {
			on, _ := RunsOn(job, list)
			if !on.Self { // if this host takes over, it misses nothing
				r.trouble(j.name, j.set(func(s *state) { s.Since = quota.Later(s.Since, slot) }))
			}
			return on.Self
		}
		if !quota.Sleep(r.stopping, often) || !r.now().Before(next) {
			return false // the next slot asks for itself
		}
	}
}

// elsewhere returns the host that runs a job by its schedule, if it is another one, and what is wrong with that.
func (r *Runner) elsewhere(job *Job, now time.Time) (on, wrong string) {
	if r.config.Hosts == nil || job.Schedule == (Unscheduled{}) {
		return "", ""
	}
	list, _, known := r.hosts(job)
	switch first, found := RunsOn(job, list); {
	case !known:
	case job.Host != "" && job.Host != r.config.Name:
		return job.Host, silent(job, list, now)
	case found && !first.Self:
		return first.Name, ""
	}
	return "", ""
}

// silent says that the host which a job names was silent for two slots, or does not have the job; empty: neither.
func silent(job *Job, hosts []Daemon, now time.Time) string {
	const cure = "start quotad there, or give the job another host"
	i := slices.IndexFunc(hosts, func(h Daemon) bool { return h.Name == job.Host })
	if i < 0 {
		var names []string
		for _, h := range hosts {
			if !h.Self {
				names = append(names, h.Name)
			}
		}
		slices.Sort(names)
		return fmt.Sprintf("no daemon is called %q: %s", job.Host, quota.Meant(job.Host, names, cure))
	}
	h := hosts[i]
	second := job.Schedule.Next(job.Schedule.Next(now.Add(-h.Ago)))
	switch {
	case h.Ago > livesFor && !second.IsZero() && !second.After(now):
		return fmt.Sprintf("host %s has been silent for %s: %s", h.Name, quota.Brief(h.Ago.Round(time.Second)), cure)
	case h.Ago <= livesFor && !slices.Contains(h.Jobs, job.Name):
		return fmt.Sprintf("host %s does not schedule it: compare the two files", h.Name)
	}
	return ""
}
