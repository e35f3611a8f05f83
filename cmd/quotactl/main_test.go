package main

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
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/ledgertest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"quotactl": main})
}

// TestScripts runs the built quotactl against a real API server on a Unix
// socket. The scripts are the specification of what a user sees.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"daemon":  startDaemon,
			"exits":   exits,
			"capture": capture,
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
			return nil
		},
	})
}

// startDaemon is the script command "daemon SOCKET [CREDENTIAL...]": it serves
// the API for credentials like the one in config.toml until the script ends.
// The credential "lost" has a ledger that nobody reaches.
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
	server := newServer(ts, names)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	ts.Defer(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		ts.Check(server.Shutdown(ctx))
		ts.Check(<-served)
	})
}

func newServer(ts *testscript.TestScript, names []string) *api.Server {
	var ledger quota.Ledger = ledgertest.NewModel(time.Now)
	credentials := make([]*quota.Credential, len(names))
	for i, name := range names {
		credentials[i] = credential(name)
		if name == "lost" {
			ledger = lostLedger{ledger}
		}
	}
	keeper, err := quota.NewKeeper(ledger, credentials, time.Second)
	ts.Check(err)
	server, err := api.NewServer(api.Config{Keeper: keeper, Version: version()})
	ts.Check(err)
	return server
}

func credential(name string) *quota.Credential {
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

func (lostLedger) Acquire(context.Context, *quota.Credential, []quota.Ask) ([]quota.Decision, error) {
	return nil, quota.ErrUnavailable
}

func (lostLedger) Usage(context.Context, *quota.Credential) (quota.Usage, error) {
	return quota.Usage{}, quota.ErrUnavailable
}

func (lostLedger) Health(context.Context) quota.Health {
	return quota.Health{Backend: "redis", State: "unreachable"}
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
