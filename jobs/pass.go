package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// A Launcher runs processes.
type Launcher interface {
	// Launch runs one command to its end and passes on its output, one line at a time: the command waits for it. When
	// Launch returns, no process of the command is left. The end of ask ends the command: TERM to all its processes, KILL
	// after the grace, or as soon as force ends, which is not before ask; the cause of ask is in the Exit.
	Launch(ask, force context.Context, command Command, output func(Line)) Exit
}

// A Command is what a Launcher executes.
type Command struct {
	Args      []string // the program as a path, and its arguments
	Dir       string
	Env       []string      // "NAME=value", complete
	Stdin     []byte        // what it reads on its standard input
	Secrets   []string      // removed from all output; none is empty
	Timeout   time.Duration // more than 0
	KillGrace time.Duration // from TERM to KILL, more than 0

	// Started, if set, is called as soon as the command runs, before any of its output is passed on.
	Started func(Identity)
}

// A Line is one line of a command's output, without its newline.
type Line struct {
	Stream string // "stdout" or "stderr"
	Text   string // valid UTF-8
	Cut    bool   // the rest of the line comes in the next one
}

// An Exit says how a command ended. The exit code of a command that we ended means nothing.
type Exit struct {
	Err    error  // it could not be started, and why; nothing ran
	Cause  error  // we ended it: ErrTimeout, or the cause of the cancelled context
	Code   int    // its exit code; -1 if it was killed by a signal or not started
	Signal string // the signal that killed it, "SIGSEGV"; empty if none
	Took   time.Duration

	Swept int // processes it had started and left running; they were ended
	Left  int // of these, how many live on: not ours to signal, or stuck in the kernel
}

// The causes for which we end a pass, to be found by errors.Is in an Exit.
var (
	// ErrTimeout means that the pass ran for as long as its job allows.
	ErrTimeout = errors.New("the pass reached its timeout")
	// ErrShutdown means that the daemon stops.
	ErrShutdown = errors.New("the daemon is stopping")
	// errDenied means that the pass was denied what does not return before its timeout.
	errDenied = errors.New("the pass was denied, and went on")
	// ErrOperator means that an operator stopped the run.
	ErrOperator = errors.New("an operator stopped the run")
)

// An Identity identifies a process, even if another one gets the same number later.
type Identity struct {
	BootID string // the kernel's boot during which it was started
	PID    int    // its number, and that of its group
	Start  uint64 // when it was started, in the kernel's clock ticks since boot
	Cgroup string // the directory of the cgroup made for it; empty: none
}

// admit asks the gate whether a pass can be afforded: until its token is revoked, what it is expected to spend is
// reserved. If it cannot be afforded, but could soon, the run waits, to serve its region then. Otherwise, or if the gate
// fails, the pass is recorded as not launched, and the run launches nothing more: units are the next tick's business.
func (e *executor) admit(p Pass) (ok bool, halt error) {
	if len(e.job.Expects) == 0 {
		return true, nil
	}
	d, spokenFor, err := e.askGate(p.token)
	switch {
	case e.launching.Err() != nil:
		return false, context.Cause(e.launching)
	case err == nil && d.Granted():
		return true, nil
	case err == nil && d.Denied() && e.waitsFor(d.Limit, e.runner.now().Add(d.RetryAfter)):
		return false, nil
	case err == nil:
		e.runner.config.OnEvent(GateRefused{e.job.Credential, d})
	}
	p.Outcome, p.Stop, p.StartedAt, p.token = NotLaunched, refusal(d, spokenFor, err), e.runner.now(), ""
	p.EndedAt = p.StartedAt
	halt = halted{p.Stop}
	e.record(p, halt)
	return false, halt
}

// askGate asks the gate whether a pass can be afforded, on top of what others are expected to spend
// still; spokenFor returns whether they are. One pass of this host is at the gate at a time: so it
// counts those that came before. When two hosts launch for the last units, the ledger denies one.
func (e *executor) askGate(token string) (d quota.Decision, spokenFor bool, err error) {
	select {
	case e.runner.gate <- struct{}{}:
		defer func() { <-e.runner.gate }()
	case <-e.launching.Done():
		return d, false, e.launching.Err()
	}
	others := e.runner.config.Tokens.reserve(token, e.job.Calls())
	d, err = e.runner.config.Gate.Peek(e.launching, e.job.Credential, e.job.Calls(), others, e.job.UseReserve)
	return d, len(others) > 0, err
}

// refusal returns why the gate refused a pass, or could not be asked; spokenFor says that it counted what others are
// expected to spend.
func refusal(d quota.Decision, spokenFor bool, err error) Stop {
	stop := Stop{Reason: Reason(d.Reason), Detail: d.Detail, Limit: d.Limit, RetryAt: d.RetryAt}
	switch {
	case err != nil:
		return Stop{Reason: LedgerUnavailable, Detail: err.Error()}
	case d.Reason == quota.LimitClosed:
		stop.Reason = Closed
	case d.Reason == quota.LimitExceeded:
		stop.Reason = DoesNotFit
		if spokenFor {
			stop.Detail += ", with the passes under way"
		}
	case d.Reason == quota.CostExceedsLimit:
		stop.Reason = DoesNotFit
		if spokenFor {
			stop.Detail = fmt.Sprintf("a pass with those under way expects %s, more than limit %s ever has: "+
				"it fits when they are over", d.Units.Text(), d.Limit)
		}
	}
	return stop
}

// pass launches a region's command, if the gate admits it, and records what became of it. It returns why the run launches
// nothing more, nil if it continues.
func (e *executor) pass(region regions.Region) (halt error) {
	tokens := e.runner.config.Tokens
	e.control.mu.Lock()
	p := Pass{Region: region, Attempt: len(e.run.of(region))}
	e.control.mu.Unlock()
	p.token = tokens.issue(quota.Bearer{
		Caller:     quota.Caller{Job: e.job.Name, Region: string(region), Run: e.run.ID, Attempt: p.Attempt, UID: -1},
		Credential: e.job.Credential, UseReserve: e.job.UseReserve, MaxWait: e.job.MaxWait,
	})
	if ok, halt := e.admit(p); !ok {
		tokens.revoke(p.token)
		return halt
	}
	began := time.Now()
	p.Outcome, p.StartedAt = Running, e.runner.now()
	p.from, p.Deadline = e.output.count(), p.StartedAt.Add(e.job.Timeout)
	command := e.command(p)
	e.record(p, nil)

	command.Started = func(id Identity) { e.started(p, id) }
	ask, end := context.WithCancelCause(e.ask)
	defer end(nil)
	tokens.began(p.token, p.Deadline, func() { end(errDenied) })
	exit := e.launch(ask, command, func(line Line) {
		e.output.add(p.Region, line)
		e.runner.config.OnEvent(Output{e.job.Name, e.run.ID, p, line})
	})

	spent := tokens.revoke(p.token)
	p.EndedAt, p.Process, p.Deadline, p.token = p.StartedAt.Add(time.Since(began)), nil, time.Time{}, ""
	p.Spent = spent.Spent
	p.Outcome, p.Detail = judge(exit, spent)
	if p.Tail, p.Said = e.output.tail(p.from); !p.Outcome.Failure() || spent.Refuses != "" || spent.unserved() {
		p.Said = ""
	}
	halt = e.consequence(&p, exit, spent)
	e.record(p, halt)
	return halt
}

// command returns what a pass executes, with the environment that it is promised.
func (e *executor) command(p Pass) Command {
	config := &e.runner.config
	contract := map[string]string{
		"QUOTAD_SOCKET":       config.Socket,
		"QUOTAD_TOKEN":        p.token,
		"QUOTAD_JOB":          e.job.Name,
		"QUOTAD_RUN_ID":       e.run.ID,
		"QUOTAD_CREDENTIAL":   e.job.Credential,
		"QUOTAD_JOB_DIR":      e.job.Files,
		"QUOTAD_SCHEDULED_AT": e.run.Slot.UTC().Format(time.RFC3339), // not the launch
		"QUOTAD_DEADLINE":     p.Deadline.UTC().Format(time.RFC3339),
	}
	if p.Region != regions.None {
		contract["QUOTAD_REGION"] = string(p.Region)
	}
	if config.Proxy != nil {
		if proxy := config.Proxy(e.job.Credential, p.token); proxy != "" {
			contract["QUOTAD_PROXY"] = proxy
		}
	}
	return Command{
		Args: e.job.Command, Dir: e.job.Dir, Env: environ(config.Environ, e.job, contract),
		Timeout: e.job.Timeout, KillGrace: KillGrace,
		Secrets: append(slices.Clone(e.job.Secrets), p.token), // it stands in the address of the proxy, which errors show
	}
}

// contractPrefix begins the names of the variables that quotad sets for a pass.
const contractPrefix = "QUOTAD_"

// Inherited returns the part of a daemon's environment that the programs it runs inherit. Variables
// from systemd (NOTIFY_SOCKET, LISTEN_FDS, CREDENTIALS_DIRECTORY …) are not for its children.
func Inherited(environ []string) []string {
	names := []string{"PATH", "HOME", "LANG", "TZ", "TMPDIR"}
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, found := strings.Cut(entry, "=")
		return !found || !slices.Contains(names, name) && !strings.HasPrefix(name, "LC_")
	})
}

// environ returns the complete environment of a pass: the allowed part of the daemon's own, over
// it the job's, over that what quotad sets for the pass.
func environ(own []string, job *Job, contract map[string]string) (env []string) {
	vars := map[string]string{}
	for _, entry := range Inherited(own) {
		name, value, _ := strings.Cut(entry, "=")
		vars[name] = value
	}
	maps.Copy(vars, job.Env)
	maps.Copy(vars, contract)
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env
}

// launch runs the command of a pass. The directory of its job is there.
func (e *executor) launch(ask context.Context, c Command, output func(Line)) Exit {
	if err := os.MkdirAll(e.job.Files, 0o750); err != nil && e.job.Files != "" {
		return Exit{Err: fmt.Errorf("cannot make the directory of the job: %w", err), Code: -1}
	}
	return e.runner.config.Launcher.Launch(ask, e.runner.forced, c, output)
}

// started records which process a pass is, for the next daemon to end it if this one is killed.
func (e *executor) started(p Pass, id Identity) {
	p.Process = &id
	e.control.mu.Lock()
	e.run.put(p)
	e.control.mu.Unlock()
	e.runner.trouble(e.job.Name, e.control.save())
}

// record records what is known of a pass: in the run, in the files of the job, and as an event. One that
// begins is on disk on return, and so is what one that is over means for the next run. If halt is not nil, the run
// launches nothing more; its last pass may yield its region's turn.
func (e *executor) record(p Pass, halt error) {
	j := e.control
	j.mu.Lock()
	if halt != nil && !e.run.Chosen {
		p.Yields = e.run.yields(p, e.dry)
	}
	known := p
	if p.Outcome == OK {
		known.Tail = nil // the file has it
	}
	e.run.put(known)
	if p.Outcome != Running {
		j.state.pass(e.run, &p, e.dry)
		j.endedPasses = append(j.endedPasses, runsLine{Of: e.run.ID, Pass: &p})
	}
	run := e.run.head()
	j.mu.Unlock()
	e.runner.trouble(j.name, j.save())
	e.runner.config.OnEvent(PassChanged{run, p, e.job.Credential})
}
