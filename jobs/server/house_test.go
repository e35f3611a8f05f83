package server_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/jobs/process"
	"quotad/jobs/process/processtest"
	jobsserver "quotad/jobs/server"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
	"quotad/regions"
)

// asPass makes the test binary a pass instead of a test: what it names is done.
const asPass = "QUOTA_TEST_PASS"

func TestMain(m *testing.M) {
	switch os.Getenv(asPass) {
	case "":
		os.Exit(processtest.Tests(m.Run).Run())
	case "fetch":
		os.Exit(fetch())
	case "wait":
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGTERM)
		fmt.Printf("%x\n", os.Getenv("QUOTAD_TOKEN")) // as it is, it would be masked
		<-ended
		os.Exit(1)
	}
}

// fetch acquires four times, as a job in any language would.
func fetch() int {
	client := api.FromEnv()
	for range 4 {
		d, err := client.Acquire(context.Background(), api.AcquireRequest{Operation: "videos.list"})
		if err != nil {
			fmt.Println(err)
			return 1
		}
		if !d.Granted {
			fmt.Println("denied:", d.Reason)
			return 3 // a script that knows nothing of 75
		}
	}
	fmt.Println("fetched", os.Getenv("QUOTAD_REGION"))
	return 0
}

// A house is a daemon's inside: a ledger, a runner with real processes, and the
// API on a socket of its own, all served by one server.
type house struct {
	jobsapi.Client
	t      *testing.T
	runner *jobs.Runner
	changes
}

// changes is an observer that hands on what changes, for a test to wait for.
type changes struct {
	runs   chan jobs.Run
	passes chan jobs.Pass
	lines  chan string
}

func (c changes) observe(event any) {
	switch e := event.(type) {
	case jobs.RunChanged:
		c.runs <- e.Run
	case jobs.PassChanged:
		c.passes <- e.Pass
	case jobs.Output:
		c.lines <- e.Line.Text
	case jobs.Trouble:
		panic(e.Err)
	}
}

func job(t *testing.T, name, does string) *jobs.Job {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &jobs.Job{
		Name: name, Credential: "youtube", Regions: regions.Ring{"US", "GB", "DE", "FR", "IN", "BR", "AU", "CA"}, Schedule: jobs.Every{Period: 365 * 24 * time.Hour},
		Command: []string{self}, Env: map[string]string{asPass: does, "GORACE": "atexit_sleep_ms=0"},
		Timeout: time.Minute,
	}
}

// open opens a house with a budget of units a day.
func open(t *testing.T, units quota.Units, list ...*jobs.Job) *house {
	t.Helper()
	return openOn(t, ledgertest.NewModel(time.Now), units, list...)
}

// openOn opens a house on a ledger.
func openOn(t *testing.T, ledger quota.Ledger, units quota.Units, list ...*jobs.Job) *house {
	t.Helper()
	h := &house{t: t, changes: changes{make(chan jobs.Run, 100), make(chan jobs.Pass, 100), make(chan string, 100)}}
	service, err := quota.NewService(ledger, []*quota.Credential{{
		Name:       "youtube",
		Limits:     []quota.Limit{{Name: "daily", Units: units, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{"videos.list": {Every: 1}},
	}}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	dir := servertest.ShortDir(t)
	socket := filepath.Join(dir, "quotad.sock")
	tokens := new(jobs.Tokens)
	h.runner, err = jobs.Open(jobs.Config{
		Jobs: list, Gate: service, Launcher: process.Launcher{}, Tokens: tokens, OnEvent: h.changes.observe, Dir: filepath.Join(dir, "jobs"),
		Socket: socket, Environ: os.Environ(), EndLeftover: process.EndLeftover, Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := server.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	planner := &plan.Planner{Runner: h.runner, Service: service}
	servertest.Serve(t, server.Config{
		Service: service, Tokens: tokens, Version: "v1", AdminGroup: servertest.OwnGroup(t), Routes: append(jobsserver.Routes(h.runner), jobsserver.PlanRoute(planner)),
		Status: map[string]func(context.Context) any{"jobs": jobsserver.Section(h.runner), "rates": jobsserver.RatesSection(planner)},
	}, listener)
	t.Cleanup(func() {
		ask, cancel := context.WithCancel(context.Background())
		cancel()
		h.runner.Stop(ask, context.Background())
	})
	h.Client = jobsapi.Client{Client: &api.Client{Socket: socket}}
	return h
}

// ended waits for the end of the next run to end.
func (h *house) ended() jobs.Run {
	h.t.Helper()
	for {
		if run := <-h.runs; run.State != jobs.RunRunning {
			return run
		}
	}
}

// must fails the test if a call was refused.
func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// refused fails the test unless a call was refused with that status.
func (h *house) refused(err error, status int) {
	h.t.Helper()
	p, ok := err.(*api.Problem)
	if !ok || p.Status != status {
		h.t.Errorf("got %v, want a problem of status %d %s", err, status, http.StatusText(status))
	}
}
