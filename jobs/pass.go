package jobs

import (
	"context"
	"fmt"
	"os"

	"quotad/quota"
	"quotad/regions"
)

// pass launches one region's command and records what became of it.
func (w *walk) pass(ctx context.Context, region regions.Region) {
	caller := quota.Caller{Job: w.job.Name, Region: string(region), Run: w.id, UID: -1}
	token := w.runner.config.Tokens.Issue(caller, w.job.Credential)
	p := Pass{Region: region, Outcome: Running, StartedAt: w.runner.now(), Process: w.unstarted(region)}
	command := w.command(p, token)
	w.record(p, nil)

	var tail tail
	command.Started = func(id Identity) { w.started(region, id) }
	exit := w.launch(ctx, command, func(line Line) {
		tail.add(line.Text)
		w.runner.config.Observer.Output(w.job.Name, w.id, p, line)
	})

	record := w.runner.config.Tokens.Revoke(token)
	p.EndedAt, p.Process = w.runner.now(), nil
	p.Units, p.Calls, p.Tail = record.Units, record.Calls, tail.lines()
	p.Denied = record.Denied
	p.Outcome, p.Detail = w.job.judge(exit, record.Denied)
	w.record(p, w.consequence(&p, exit, record))
}

// unstarted is all that can be known of a pass's process before it is started:
// where to look for it if the daemon is killed right then.
func (w *walk) unstarted(region regions.Region) *Identity {
	return &Identity{
		BootID: w.runner.config.BootID,
		Marks:  []string{"QUOTAD_RUN_ID=" + w.id, "QUOTAD_REGION=" + string(region)},
	}
}

// started keeps which process a pass is, for the next daemon to end it if this
// one is killed.
func (w *walk) started(region regions.Region, id Identity) {
	d := w.desk
	d.mu.Lock()
	w.run.pass(region).Process = &id
	err := d.keep()
	d.mu.Unlock()
	w.runner.trouble(d.name, err)
}

// consequence returns why the run launches nothing more after the pass, nil if
// it goes on, and completes the pass with the reason.
func (w *walk) consequence(p *Pass, exit Exit, record Record) error {
	switch p.Outcome {
	case Exhausted:
		p.RetryAt = record.RetryAt
		if record.Denied {
			p.Detail = fmt.Sprintf("denied by limit %q", record.Limit)
		}
		return &stop{reason: BudgetGone, detail: p.Detail, retryAt: p.RetryAt}
	case Interrupted:
		p.Reason = reasonOf(exit.Cause)
		return exit.Cause
	}
	if p.Outcome.Failure() && w.job.StopOnFailure {
		return &stop{reason: PassFailed, detail: fmt.Sprintf("%s: %s", p.Region, p.Detail)}
	}
	return nil
}

// launch runs the command of a pass in its working directory.
func (w *walk) launch(ctx context.Context, c Command, output func(Line)) Exit {
	if c.Dir != "" {
		if err := os.MkdirAll(c.Dir, 0o750); err != nil {
			return Exit{Err: fmt.Errorf("cannot make the working directory: %w", err), Code: -1}
		}
	}
	return w.runner.config.Launcher.Launch(ctx, c, output)
}

func (w *walk) command(p Pass, token string) Command {
	return Command{
		Args: w.job.Command,
		Dir:  w.job.Dir,
		Env: environ(w.runner.config.Environ, w.job, contract{
			socket:      w.runner.config.Socket,
			token:       token,
			region:      p.Region,
			runID:       w.id,
			scheduledAt: w.slot,
			deadline:    p.StartedAt.Add(w.job.Timeout),
		}),
		Secrets:   w.job.Secrets,
		Timeout:   w.job.Timeout,
		KillGrace: w.job.KillGrace,
	}
}

// skip records that a region's pass was not launched, and stops the run there.
func (w *walk) skip(region regions.Region, why *stop) {
	now := w.runner.now()
	w.record(Pass{
		Region: region, Outcome: Skipped, Reason: why.reason, Detail: why.detail, RetryAt: why.retryAt,
		StartedAt: now, EndedAt: now,
	}, why)
}

// record keeps what is known of a pass. The cursor follows; if halt is not nil,
// the run launches nothing more.
func (w *walk) record(p Pass, halt error) {
	if halt != nil {
		w.halt(halt)
	}
	d := w.desk
	d.mu.Lock()
	if w.turns {
		p.Yields = d.memory.yields(p, w.ring)
	}
	w.run.put(p)
	if w.turns {
		d.memory.Cursor = w.ring.Advance(w.run.hadTurn)
	}
	err := d.keep(w.unfiled)
	w.unfiled = nil
	run := w.run.clone()
	d.mu.Unlock()
	w.lease.tell()
	w.runner.trouble(d.name, err)
	w.runner.config.Observer.PassChanged(run, p)
}
