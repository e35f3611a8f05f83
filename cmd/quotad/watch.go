package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/notify"
	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/server"
)

// state collects what is known of the daemon. A ledger that does not answer costs its deadline.
func (d *daemon) state(ctx context.Context, rates []plan.Rate) trouble.State {
	c, file, asked := d.inForce.Load(), d.file.Load(), time.Now()
	s := trouble.State{
		Ledger: trouble.LedgerState{Health: d.service.Health(ctx)},
		Disk:   trouble.DiskState{Dir: c.StateDir},
		File:   trouble.FileState{Name: file.File, Error: firstLine(file.Error), FailedAt: file.FailedAt},
		Idle:   map[string]int{},
	}
	if info, err := os.Stat(file.File); err == nil && info.ModTime().After(file.ReadAt) && info.ModTime().After(file.FailedAt) {
		s.File.ChangedAt = info.ModTime()
	}
	s.Disk.Free, s.Disk.Size = d.diskOf(c.StateDir)
	s.Jobs, _ = d.runner.Status("") // of all jobs it cannot fail
	for _, job := range s.Jobs {
		s.Idle[job.Name] = d.facts.idleOf(job.Name, d.runner.Runs)
	}
	for _, credential := range d.service.Credentials() {
		s.Ledger.IsOpen = s.Ledger.IsOpen || len(c.Outages[credential.Name].Open) > 0
		s.Credentials = append(s.Credentials, d.credentialState(ctx, c, credential, rates))
	}
	d.facts.complete(&s, asked)
	return s
}

// diskOf returns what the disk of a directory has, in bytes; no size: it is not known.
func diskOf(dir string) (free, size uint64) {
	var disk unix.Statfs_t
	if unix.Statfs(dir, &disk) != nil {
		return 0, 0
	}
	return disk.Bavail * uint64(disk.Bsize), disk.Blocks * uint64(disk.Bsize)
}

func (d *daemon) credentialState(ctx context.Context, c *config.Config, credential *quota.Credential, rates []plan.Rate) trouble.CredentialState {
	one := trouble.CredentialState{Credential: credential, KeyCure: c.KeyCure(credential.Name), Keyless: d.keyless(credential.Name)}
	one.Proxied = d.proxy != nil && d.proxy.Target(credential.Name) != nil
	usage, err := d.service.Usage(ctx, credential.Name)
	if err != nil || !usage.AsOf.IsZero() { // the state of the ledger says so
		return one
	}
	for _, l := range usage.Limits {
		rate := plan.RateOf(rates, credential.Name, l.Name)
		limit := trouble.LimitState{LimitState: l, GoneAt: rate.GoneAt, Spender: callerName(rate.Spender), Rate: rate.Beyond}
		var fit plan.Fit
		if i := slices.IndexFunc(c.Fits(), func(f plan.Fit) bool { return f.Credential == credential.Name && f.Limit == l.Name }); i >= 0 {
			fit = c.Fits()[i]
		}
		limit.Fits, limit.Asks = fit.Fits || fit.Holds && !l.IsShare(), fit.Demand > 0
		limit.Size = d.observer.Count(credential.Name, l.Name).Size.Units
		one.Limits = append(one.Limits, limit)
	}
	return one
}

// troubles returns the state of the daemon, and what needs a person.
func (d *daemon) troubles(ctx context.Context) (trouble.State, []trouble.Trouble) {
	rates, _ := d.planner.Rates(ctx) // if the ledger does not answer, the list says so
	s, now := d.state(ctx, rates), time.Now()
	return s, d.facts.dated(trouble.List(s, now), now)
}

// triage is what a status says of troubles.
func (d *daemon) triage(ctx context.Context) jobsapi.Triage {
	s, list := d.troubles(ctx)
	notes, scarce := d.notes(s, list, time.Now())
	t := jobsapi.Triage{Says: trouble.First(list), Troubles: []jobsapi.Trouble{}, Notes: notes}
	if len(list) == 0 && scarce {
		t.Says = trouble.Scarce
	}
	for _, one := range list {
		t.Troubles = append(t.Troubles, jobsapi.Trouble{Kind: string(one.Kind), Of: one.Of, Says: one.Says, Do: one.Do, Grave: one.Grave, Since: one.Since})
	}
	return t
}

// statusPause is the minimum time between two looks, lookTime the maximum between two that report troubles.
const statusPause, lookTime = time.Second, 10 * time.Second

// watch looks at the daemon each ten seconds, and soon after something has changed, until ctx ends. It reports what
// began and what is over, and sends the service manager a line if that differs from the last one.
func (d *daemon) watch(ctx context.Context) {
	var sent string
	var reported time.Time
	for ctx.Err() == nil {
		now := time.Now()
		d.facts.tick(now)
		urgent := d.urgent.Swap(false) // what is urgent from here on is for the next look
		s, list := d.troubles(ctx)
		if ctx.Err() != nil {
			return
		}
		if line := statusLine(list, s.Jobs, now); line != sent {
			d.notifySystemd("STATUS=" + line)
			sent = line
		}
		if urgent || now.Sub(reported).Abs() >= lookTime {
			d.report(list, now)
			reported = now
		}
		quota.Sleep(ctx, statusPause)
		quota.Await(ctx, lookTime-time.Since(now), d.changed)
	}
}

// report emits what began and what is over since the last time.
func (d *daemon) report(list []trouble.Trouble, now time.Time) {
	for _, c := range d.facts.update(list, now) {
		d.emit(notify.Changed(c, now))
	}
}

// statusLine is what systemctl status shows: the first trouble, else the next run.
func statusLine(list []trouble.Trouble, all []jobs.Status, now time.Time) string {
	if len(list) > 0 {
		return strings.ReplaceAll(list[0].Says, "\n", " ") // systemd takes a line for an assignment
	}
	line, soonest := trouble.Nothing, time.Time{}
	for _, s := range all {
		if s.Pause == nil && !s.Next.IsZero() && (soonest.IsZero() || s.Next.Before(soonest)) {
			soonest = s.Next
			line = fmt.Sprintf("next %s %s", s.Name, trouble.At(soonest, now))
		}
	}
	return line
}

// recordFacts is a sink of events.
func (d *daemon) recordFacts(event any) {
	if d.facts.record(event) {
		d.urgent.Store(true)
		d.lookSoon()
	}
}

// tryTime is how long a command that is tried may take.
const tryTime = 30 * time.Second

// notifyRoute returns the route by which an operator tries the command of an event.
func (d *daemon) notifyRoute() server.Route {
	handle := server.Handle(d.tryEvent)
	return server.Route{
		Method: http.MethodPost, Path: "/v1/notify", Access: server.Operate, Does: "run the command of an event with the values of an example; event",
		Handle: func(w http.ResponseWriter, r *http.Request, c *server.Session) error {
			control, until := http.NewResponseController(w), time.Now().Add(api.CommandTimeout)
			if err := errors.Join(control.SetReadDeadline(until), control.SetWriteDeadline(until)); err != nil {
				return err
			}
			return handle(w, r, c)
		},
	}
}

func (d *daemon) tryEvent(ctx context.Context, _ *server.Session, in api.EventTest) (api.EventTested, error) {
	if known := config.Events(); !slices.Contains(known, in.Event) {
		return api.EventTested{}, api.NewProblem(quota.BadRequest, "there is no event %.80q", in.Event).WithHint(quota.DidYouMean(in.Event, known, "events"))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, tryTime, jobs.ErrTimeout)
	defer cancel()
	result, lines, ok := d.notifier.Try(ctx, in.Event)
	if !ok {
		return api.EventTested{}, api.NewProblem(api.NotFound, "no command runs on events").WithHint("set command in [on_event], then quotactl reload")
	}
	answer := api.EventTested{Event: in.Event, Outcome: "ok", Detail: result.Failed, TookMS: result.Took.Milliseconds(), Output: []string{}}
	if result.Failed != "" {
		answer.Outcome = "failed"
	}
	for _, line := range lines {
		answer.Output = append(answer.Output, line.Text)
	}
	return answer, nil
}

// notes need no person: what the schedule lacks, which may be meant so, an operator closed, or a dry run would refuse.
func (d *daemon) notes(s trouble.State, list []trouble.Trouble, now time.Time) (notes []jobsapi.Trouble, scarce bool) {
	add := func(of, do, says string) {
		notes = append(notes, jobsapi.Trouble{Of: of, Says: quota.Clipped(says, 300), Do: do})
	}
	for _, f := range d.inForce.Load().Fits() {
		if f.Over() > 0 {
			scarce = true
			add("limit "+f.Credential+" "+f.Limit, "quotactl plan", f.Shortage())
		}
	}
	for _, c := range s.Credentials {
		for _, l := range c.Limits {
			name := c.Name + " " + l.Name
			for _, j := range s.Jobs {
				named := func(t trouble.Trouble) bool { return t.Of == "job "+j.Name }
				if c.Starves(&j, &l) && !slices.ContainsFunc(list, named) {
					scarce = true
					add("job "+j.Name, "quotactl runs "+j.Name, fmt.Sprintf("%s: too little of %s for the next run", j.Name, name))
				}
			}
			if calls := d.metrics.WouldDeny(c.Name, l.Name); l.DryRun && calls > 0 {
				add("limit "+name, "quotactl usage "+c.Name, fmt.Sprintf("%s would have refused %s since %s, if it were enforced",
					name, quota.Count(calls, "call", "calls"), trouble.At(d.facts.book.Began, now)))
			}
			if l.ByHand {
				says := fmt.Sprintf("%s is closed until %s by %s: %s", name, trouble.At(l.Closed.Until, now), callerName(l.Closed.By), l.Closed.Says)
				add("limit "+name, "quotactl open "+name, strings.TrimSuffix(says, ": "))
			}
		}
	}
	return notes, scarce
}

// callerName returns the name of a caller in a log; a user has the name that this host knows.
func callerName(by string) string {
	if uid, isUser := strings.CutPrefix(by, "@"); isUser {
		if u, err := user.LookupId(uid); err == nil {
			return u.Username
		}
	}
	return by
}
