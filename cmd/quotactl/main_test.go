package main

//ci:norace

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
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

var update = flag.Bool("update", false, "write the screens")

func TestMain(m *testing.M) {
	testscript.Main(processtest.Tests(m.Run), map[string]func(){"quotactl": main})
}

// TestScripts runs the built quotactl against a real API server on a Unix socket. What a user types and sees is a
// screen of a script.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Deadline:            time.Now().Add(6 * time.Minute), // of a script that hangs: then it is told which
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"daemon": startDaemon,
			"halt":   haltDaemon,
			"play":   play,
			"cutter": startCutter,
		},
		Condition: func(name string) (bool, error) {
			return os.Geteuid() == 0, map[string]error{"root": nil}[name]
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("QUOTAD_SOCKET", filepath.Join(env.WorkDir, "q.sock"))
			env.Setenv("LC_ALL", "C.UTF-8")
			env.Setenv("TZ", "UTC")
			// Under -race each quotactl would linger for a second at its end.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Values[daemons{}] = new(sync.Map)
			return nil
		},
	})
}

// play is the script command "play SCREEN": it runs each line of a file that begins with "$ ", and writes the file
// "played": these lines, each with what its command printed and its exit code, which the screen should equal. What is
// another at each time is written as one that it may be.
func play(ts *testscript.TestScript, _ bool, args []string) {
	var played strings.Builder
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		command, found := strings.CutPrefix(line, "$ ")
		if !found {
			continue
		}
		played.WriteString(line)
		err := ts.Exec("sh", "-c", command+"\nexit $?")
		played.WriteString(alike(ts.ReadFile("stdout") + ts.ReadFile("stderr")))
		if exit := new(exec.ExitError); errors.As(err, &exit) {
			fmt.Fprintf(&played, "exit %d\n", exit.ExitCode())
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs("played"), []byte(played.String()), 0o600))
}

var differs = []struct {
	text *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`(youtube|maps|noted):[0-9A-Z]{16,20}`), "$1:P6C7MCXZRIWZH5UK"},
	{regexp.MustCompile(`\b[0-9a-z]{15}\b`), "06f3k9x2a7q4mzt"},
	{regexp.MustCompile(`\b([A-Z][a-z][a-z] )?\d\d:\d\d:\d\d\b`), "09:26:53"},
	{regexp.MustCompile(`\b20\d\d-\d\d-\d\d(T[0-9:.]+Z)?`), "2026-03-14"},
	{regexp.MustCompile(`\b(in|ended|ends) [0-9dhms ]+, at`), "$1 3h, at"},
	{regexp.MustCompile(`(just now|\d+s ago), at`), "1s ago, at"},
	{regexp.MustCompile(`\d+s ago`), "1s ago"},
	{regexp.MustCompile(`\b\d\.\d\ds\b`), "0.10s"},
	{regexp.MustCompile(`about ([A-Z][a-z][a-z] )?\d\d:\d\d`), "about 09:26"},
	{regexp.MustCompile(`/tmp/\S*/`), "/tmp/"},
}

func alike(text string) string {
	for _, one := range differs {
		text = one.text.ReplaceAllString(text, one.by)
	}
	return text
}

// startDaemon is the script command "daemon SOCKET [CREDENTIAL...]": it serves the API for credentials like the one in
// config.toml until the script ends. The ledger of the credential "lost" cannot be reached, and "old" has a daemon that
// knows no plan. Where the script has a file job.sh, a job "trending" runs it for the regions US, GB and DE.
func startDaemon(ts *testscript.TestScript, _ bool, args []string) {
	path, names := ts.MkAbs(args[0]), args[1:]
	if len(names) == 0 {
		names = []string{"youtube"}
	}
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
func haltDaemon(ts *testscript.TestScript, _ bool, args []string) {
	stop, _ := ts.Value(daemons{}).(*sync.Map).Load(ts.MkAbs(args[0]))
	stop.(func())()
}

func newServer(ts *testscript.TestScript, socket string, names []string) (*server.Server, *jobs.Runner) {
	var ledger quota.Ledger = ledgertest.NewModel(time.Now)
	if names[0] == "lost" {
		ledger = lostLedger{ledger}
	}
	credentials := make([]*quota.Credential, len(names))
	for i, name := range names {
		credentials[i] = &quota.Credential{
			Name: name,
			Limits: []quota.Limit{
				{Name: "daily", Units: 1000, Reserve: 100, Window: quota.Sliding(24 * time.Hour)},
				{Name: "search", Units: 400, Window: quota.Sliding(24 * time.Hour), Only: []string{"search.list"}},
			},
			Operations: map[string]quota.Cost{"search.list": {Every: 100}, "videos.list": {Every: 1}},
		}
	}
	service, err := quota.NewService(ledger, credentials, time.Second)
	ts.Check(err)
	var list []*jobs.Job
	if script := ts.MkAbs("job.sh"); os.Chmod(script, 0o755) == nil {
		list = append(list, &jobs.Job{
			Name: "trending", Regions: regions.Ring{"US", "GB", "DE"}, Command: []string{"/bin/sh", script}, Dir: filepath.Dir(script),
			Credential: names[0], Schedule: jobs.Every{Period: 24 * time.Hour}, // far away: what runs was asked to
			Expects: map[string]quota.Units{"videos.list": 4}, Timeout: time.Minute,
		})
	}
	tokens, denials := new(jobs.Tokens), new(server.Denials)
	runner, err := jobs.Open(jobs.Config{
		Jobs: list, Gate: service, Launcher: process.Launcher{}, Tokens: tokens,
		Dir: socket + ".state", Socket: socket, Environ: os.Environ(),
		EndLeftover: process.EndLeftover, Now: time.Now,
	})
	ts.Check(err)
	planner := &plan.Planner{Runner: runner, Service: service}
	config := server.Config{
		Emit: denials.Record, Denials: denials,
		Service: service, Tokens: tokens, Version: api.BuildVersion(), Routes: append(jobsserver.Routes(runner), jobsserver.PlanRoute(planner)),
		Status: map[string]func(context.Context) any{"jobs": jobsserver.Section(runner), "rates": jobsserver.RatesSection(planner)},
	}
	if names[0] == "old" {
		config.Version, config.Routes = "v0.1.0", jobsserver.Routes(runner)
	}
	return server.New(config), runner
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

// startCutter is the script command "cutter SOCKET DAEMON PATH": what is asked at SOCKET is answered by the daemon, but
// if the path ends so the connection is cut before the answer arrives.
func startCutter(ts *testscript.TestScript, _ bool, args []string) {
	listener, err := net.Listen("unix", ts.MkAbs(args[0]))
	ts.Check(err)
	daemon := ts.MkAbs(args[1])
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "quotad"}) },
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", daemon)
		}},
		ModifyResponse: func(r *http.Response) error {
			if strings.HasSuffix(r.Request.URL.Path, args[2]) {
				panic(http.ErrAbortHandler)
			}
			return nil
		},
	}
	cutter := &http.Server{Handler: proxy}
	go cutter.Serve(listener)
	ts.Defer(func() { cutter.Close() })
}
