package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	jobsapi "quotad/jobs/api"
	"quotad/quota/api"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
)

// Whoever answers lives, whatever the answer is; whoever only listens does not.
func TestAnswers(t *testing.T) {
	dir := shortDir(t)
	listen := func(name string) (net.Listener, *api.Client) {
		t.Helper()
		path := filepath.Join(dir, name)
		listener, err := net.Listen("unix", path)
		must(t, err)
		t.Cleanup(func() { listener.Close() })
		return listener, &api.Client{Socket: path}
	}
	serve := func(name string, status int) *api.Client {
		listener, client := listen(name)
		go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		return client
	}
	_, deaf := listen("deaf")
	for _, test := range []struct {
		name   string
		client *api.Client
		within time.Duration
		lives  bool
	}{
		{"it answers", serve("good", http.StatusOK), hangTimeout, true},
		{"it refuses", serve("crowded", http.StatusServiceUnavailable), hangTimeout, true},
		{"it listens only", deaf, 100 * time.Millisecond, false},
		{"nobody is there", &api.Client{Socket: filepath.Join(dir, "nobody")}, 100 * time.Millisecond, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := answers(test.client, test.within); (err == nil) != test.lives {
				t.Errorf("got %v, want that it lives: %v", err, test.lives)
			}
		})
	}
}

// missedAfter is the WatchdogSec of a daemon whose Redis is in trouble.
const missedAfter = 4 * time.Second

// A Redis that is slow, or does not answer at all, is no reason to restart: fifty
// jobs that are shared through it keep no beat from systemd. seedtest.Long says for
// how many seconds each; then no beat may be missed by the clock.
func TestWatchdogNeedsNoRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server)
	text := fmt.Sprintf("[ledger]\nbackend = \"redis\"\nredis.addrs = [%q]\n[credentials.api]\nlimits.daily.units = 100\noperations.list = 1\n", proxy.Addr)
	for i := range 50 {
		text += fmt.Sprintf("[jobs.job-%02d]\ncredential = \"api\"\nregions = [\"one\"]\ncron = \"$FAR * * *\"\ncommand = [\"true\"]\n", i)
	}
	dir := shortDir(t)
	manager, path := notifySocket(t, dir), filepath.Join(dir, "api.sock")
	startConfigured(t, dir, text, path, "LISTEN_FDNAMES=api")
	awaitNotice(t, manager, "READY=1\n(?s:.*)")
	long := time.Duration(seedtest.Long(t, 0)) * time.Second
	beats := func() {
		t.Helper()
		awaitNotice(t, manager, "WATCHDOG=1")
		began := time.Now()
		for n, last := 0, began; n < 5 || time.Since(began) < long; n++ {
			awaitNotice(t, manager, "WATCHDOG=1")
			if gap := time.Since(last); long > 0 && gap >= missedAfter {
				t.Errorf("%v without a beat", gap)
			}
			last = time.Now()
		}
	}
	proxy.Disturb(func([]string) redistest.Fault {
		time.Sleep(200 * time.Millisecond) // what Redis takes for each command
		return redistest.Pass
	})
	client := jobsapi.Client{Client: &api.Client{Socket: path}}
	asked := make(chan error, 1)
	go func() { // somebody looks meanwhile
		_, err := client.Jobs(context.Background())
		asked <- err
	}()
	beats()
	must(t, server.Freeze())
	beats()
	must(t, server.Thaw())
	if err := <-asked; err != nil {
		t.Errorf("the jobs: %v", err)
	}
}
