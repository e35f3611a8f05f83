package main

//ci:norace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"quotad/jobs"
	"quotad/jobs/plan"
	"quotad/jobs/process"
	"quotad/jobs/process/processtest"
	jobsserver "quotad/jobs/server"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
	"quotad/regions"
)

func TestMain(m *testing.M) {
	testscript.Main(processtest.Tests(m.Run), map[string]func(){"quotactl": main})
}

// TestScripts runs the built quotactl against a real API server on a Unix
// socket. The scripts are the specification of what a user sees.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Deadline:            time.Now().Add(6 * time.Minute), // of a script that hangs: then it is told which
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"daemon":  startDaemon,
			"halt":    haltDaemon,
			"exits":   exits,
			"capture": capture,
			"await":   await,
			"cutter":  startCutter,
		},
		Condition: func(name string) (bool, error) {
			if name != "root" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return os.Geteuid() == 0, nil
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("QUOTAD_SOCKET", filepath.Join(env.WorkDir, "q.sock"))
			env.Setenv("LC_ALL", "C.UTF-8")
			// Under -race each quotactl would linger for a second at its end.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Values[daemons{}] = new(sync.Map)
			return nil
		},
	})
}

// startDaemon is the script command "daemon SOCKET [CREDENTIAL...]": it serves
// the API for credentials like the one in config.toml until the script ends.
// The credential "lost" has a ledger that nobody reaches, that of a daemon of long
// ago, which knows no plan, is "old", and who reads the usage of "noted" leaves the
// file SOCKET.usage-read. Where the script has a file job.sh, a
// job "trending" runs it for the regions US, GB and DE, and a job "charts" runs a
// charts.sh for JP.
func startDaemon(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: daemon SOCKET [CREDENTIAL...]")
	}
	names := args[1:]
	if len(names) == 0 {
		names = []string{"youtube"}
	}
	path := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(filepath.Dir(path), 0o755))
	listener, err := net.Listen("unix", path)
	ts.Check(err)
	s, runner := newServer(ts, path, names)
	frontend, served := server.NewFrontend(server.FrontendConfig{Handler: s}), make(chan error, 1)
	go func() { served <- frontend.Serve(listener) }()
	stop := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		ask, end := context.WithCancel(ctx)
		end()
		runner.Stop(ask, ctx)
		ts.Check(frontend.Shutdown(ctx))
		ts.Check(<-served)
	})
	ts.Defer(stop)
	ts.Value(daemons{}).(*sync.Map).Store(path, stop)
}

// daemons is the key of what stops the daemons of a script, by socket.
type daemons struct{}

// haltDaemon is the script command "halt SOCKET": the daemon there shuts down.
func haltDaemon(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: halt SOCKET")
	}
	stop, ok := ts.Value(daemons{}).(*sync.Map).Load(ts.MkAbs(args[0]))
	if !ok {
		ts.Fatalf("no daemon was started at %s", args[0])
	}
	stop.(func())()
}

func newServer(ts *testscript.TestScript, socket string, names []string) (*server.Server, *jobs.Runner) {
	var ledger quota.Ledger = ledgertest.NewModel(time.Now)
	credentials := make([]*quota.Credential, len(names))
	for i, name := range names {
		credentials[i] = credential(name)
		switch name {
		case "lost":
			ledger = lostLedger{ledger}
		case "noted":
			ledger = notingLedger{ledger, socket + ".usage-read"}
		}
	}
	service, err := quota.NewService(ledger, credentials, time.Second)
	ts.Check(err)
	tokens := new(jobs.Tokens)
	runner, err := jobs.Open(jobs.Config{
		Jobs: jobsOf(ts, names[0]), Gate: service, Launcher: process.Launcher{}, Tokens: tokens,
		Dir: socket + ".state", Socket: socket, Environ: os.Environ(),
		EndLeftover: process.EndLeftover, Now: time.Now,
	})
	ts.Check(err)
	planner := &plan.Planner{Runner: runner, Service: service}
	denials := new(server.Denials)
	config := server.Config{
		Emit: denials.Record, Denials: denials,
		Service: service, Tokens: tokens, Version: api.BuildVersion(), Routes: append(jobsserver.Routes(runner), jobsserver.PlanRoute(planner)),
		Status: map[string]func(context.Context) any{"jobs": jobsserver.Section(runner), "rates": jobsserver.RatesSection(planner)},
	}
	if names[0] == "old" {
		config.Version, config.Routes = "v0.1.0", jobsserver.Routes(runner)
	}
	s, err := server.New(config)
	ts.Check(err)
	return s, runner
}

// jobsOf returns the jobs of a script: trending where it has a job.sh, and charts
// where it has a charts.sh.
func jobsOf(ts *testscript.TestScript, credential string) []*jobs.Job {
	// Its slots are far away: what runs was asked to.
	var list []*jobs.Job
	for _, job := range []jobs.Job{
		{Name: "trending", Regions: regions.Ring{"US", "GB", "DE"}, Command: []string{"/bin/sh", ts.MkAbs("job.sh")}},
		{Name: "charts", Regions: regions.Ring{"JP"}, Command: []string{"/bin/sh", ts.MkAbs("charts.sh")}},
	} {
		script := job.Command[1]
		if _, err := os.Stat(script); err != nil {
			continue
		}
		job.Credential, job.Schedule, job.Dir = credential, jobs.Every{Period: 24 * time.Hour}, filepath.Dir(script)
		job.Expects = map[string]quota.Units{"videos.list": 4}
		job.Timeout = time.Minute
		list = append(list, &job)
	}
	return list
}

func credential(name string) *quota.Credential {
	if name == "places" {
		return &quota.Credential{Name: name, Limits: []quota.Limit{{Name: "all", Units: 10, Window: quota.Sliding(time.Hour)}},
			Operations: map[string]quota.Cost{"geocode": {Every: 1}}}
	}
	return &quota.Credential{
		Name: name,
		Limits: []quota.Limit{
			{Name: "daily", Units: 1000, Reserve: 100, Window: quota.Sliding(24 * time.Hour)},
			{Name: "search", Units: 400, Window: quota.Sliding(24 * time.Hour), Only: []string{"search.list"}},
		},
		Operations: map[string]quota.Cost{"search.list": {Every: 100}, "videos.list": {Every: 1}},
	}
}

// A lostLedger is one that cannot be reached.
type lostLedger struct{ quota.Ledger }

func (lostLedger) Acquire(context.Context, *quota.Credential, quota.Ask) (quota.Decision, error) {
	return quota.Decision{}, quota.ErrUnavailable
}

func (lostLedger) Usage(context.Context, *quota.Credential) (quota.Usage, error) {
	return quota.Usage{}, quota.ErrUnavailable
}

func (lostLedger) Health(context.Context) quota.Health {
	return quota.Health{Backend: "redis", State: "unreachable"}
}

// A notingLedger leaves a file behind once somebody has read its usage.
type notingLedger struct {
	quota.Ledger
	file string
}

func (l notingLedger) Usage(ctx context.Context, c *quota.Credential) (quota.Usage, error) {
	return quota.Usage{}, errors.Join(os.WriteFile(l.file, nil, 0o600), quota.ErrUnavailable)
}

// exits is the script command "exits CODE PROGRAM [ARG...]": as exec, but it
// also holds the exit code against CODE.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("cannot run %s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// capture is the script command "capture NAME PATTERN": it puts what the
// pattern's group matches in the last stdout into a variable.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: capture NAME PATTERN")
	}
	match := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(match) != 2 {
		ts.Fatalf("%s does not match", args[1])
	}
	ts.Setenv(args[0], match[1])
}

// await is the script command "await FILE PATTERN": it waits until the file is
// there and the pattern matches in it.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await FILE PATTERN")
	}
	file, pattern := ts.MkAbs(args[0]), regexp.MustCompile("(?m)"+args[1])
	tick, deadline := time.NewTicker(5*time.Millisecond), time.After(3*time.Minute)
	defer tick.Stop()
	for {
		text, _ := os.ReadFile(file)
		if pattern.Match(text) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("%s does not match %s:\n%s", args[0], args[1], text)
		}
	}
}
