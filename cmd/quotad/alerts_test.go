package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"quotad/quota/api"
	"quotad/quota/redisledger/redistest"
)

// tellEvents writes what the command of each event finds in its environment.
const tellEvents = `
[on_event]
command = ["./tell"]
kinds = ["trouble", "over", "low"]
`

const withEvents = tellEvents + `
[credentials.api]
limits.daily.units = 110
limits.daily.reserve = 10
limits.daily.warn_below = 20
operations.list = 1
[jobs.fetch]
credential = "api"
regions = ["one"]
cron = "$FAR * * *"
run_at_start = true
command = ["sh", "-c", "exit 3"]
`

// startTelling starts a daemon whose events are told to files in a directory.
func startTelling(t *testing.T, text string) (daemon *child, client *api.Client, dir string) {
	t.Helper()
	dir = shortDir(t)
	script := "#!/bin/sh\nenv | grep '^QUOTAD_' | sort | tr '\\n' ' ' >" + dir + "/$$.told\n"
	must(t, os.WriteFile(filepath.Join(dir, "tell"), []byte(script), 0o700))
	writeConfig(t, dir, text)
	return startIn(t, dir), &api.Client{Socket: filepath.Join(dir, ".quotad/quotad.sock")}, dir
}

// told ends a daemon and returns what its events were told, sorted and without
// their times.
func told(t *testing.T, daemon *child, dir string) []string {
	t.Helper()
	daemon.stop(t)
	files, err := filepath.Glob(filepath.Join(dir, "*.told"))
	must(t, err)
	var all []string
	varying := regexp.MustCompile(`QUOTAD_(AT|SINCE)=\S+ `)
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		if n := len(varying.FindAll(text, -1)); n == 0 {
			t.Errorf("an event without its time: %s", text)
		}
		text = regexp.MustCompile(`since \d\d:\d\d( \(\d times\))?`).ReplaceAll(text, []byte("since HH:MM"))
		all = append(all, strings.TrimSpace(varying.ReplaceAllString(string(text), "")))
	}
	slices.Sort(all)
	return all
}

// Each event is told once per edge, however often it is seen.
func TestEventsAreToldOnce(t *testing.T) {
	t.Parallel()
	daemon, client, dir := startTelling(t, withEvents)
	daemon.logs(t, "^run failed$", "job=fetch")
	for _, count := range []int64{79, 1, 1, 18, 1, 1, 1} {
		if _, err := client.Acquire(context.Background(), api.AcquireRequest{Credential: "api", Operation: "list", Count: count}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		must(t, client.Do(context.Background(), "POST", "/v1/jobs/fetch/run", nil, nil))
		daemon.logs(t, "^run failed$", "job=fetch")
	}
	eventually(t, func() bool { // its command may have run before the last run
		files, _ := filepath.Glob(filepath.Join(dir, "*.told"))
		return len(files) >= 3
	})
	want := []string{
		"QUOTAD_BUDGET=100 QUOTAD_CREDENTIAL=api QUOTAD_DO=quotactl usage api QUOTAD_EVENT=low QUOTAD_LEFT=19 QUOTAD_LIMIT=daily QUOTAD_SAYS=api daily has 19 of 100 units left",
		"QUOTAD_CREDENTIAL=api QUOTAD_DO=quotactl usage api QUOTAD_EVENT=trouble QUOTAD_GRAVE=true QUOTAD_KIND=dry QUOTAD_LIMIT=daily QUOTAD_OF=limit api daily " +
			"QUOTAD_SAYS=api daily is used up, though its jobs have room in it: root spends 100 an hour",
		"QUOTAD_DO=quotactl runs fetch QUOTAD_EVENT=trouble QUOTAD_GRAVE=true QUOTAD_JOB=fetch QUOTAD_KIND=failing QUOTAD_OF=job fetch QUOTAD_SAYS=fetch: one fails since HH:MM: exit status 3",
	}
	if got := told(t, daemon, dir); !slices.Equal(got, want) {
		t.Errorf("told:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// It comes and goes: an outage that begins again within a minute is an event once.
func TestOutageIsToldOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	daemon, client, dir := startTelling(t, tellEvents+fmt.Sprintf(`
[ledger]
backend = "redis"
redis.addrs = [%q]
deadline = "5s"
[credentials.api]
limits.daily.units = 100
operations.list = 1
`, server.Addr))
	if _, err := spend(client); err != nil {
		t.Fatal(err)
	}
	for again := range 2 {
		server.Kill()
		for range 3 {
			if d, err := spend(client); err == nil {
				t.Fatalf("without Redis: %+v", d)
			}
		}
		if again == 0 { // the daemon looks at itself at most once a second
			daemon.logs(t, "^trouble$", "kind=ledger")
		}
		server.Run(t)
		daemon.logs(t, "^ledger up$")
	}
	eventually(t, func() bool { // another server is quiet for two seconds
		_, err := spend(client)
		return err == nil
	})
	got := told(t, daemon, dir)
	began := slices.DeleteFunc(slices.Clone(got), func(event string) bool {
		return !strings.Contains(event, "QUOTAD_KIND=ledger QUOTAD_OF=ledger QUOTAD_SAYS=Redis cannot be reached: ")
	})
	if len(began) != 1 {
		t.Errorf("told:\n%s\nwant once that an outage began, and why", strings.Join(got, "\n"))
	}
}
