package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
)

// A run takes longer than the time between two slots, and a pass writes down when it begins and ends.
const longRun = `
[ledger]
backend = "redis"
redis.addrs = [%q]
[credentials.api]
limits.daily.units = 1_000_000
operations.list = 1
[jobs.long]
credential = "api"
regions = ["A", "B", "C"]
every = "14s"
stagger = "0s"
command = ["sh", "-c", 'echo begin $QUOTAD_RUN_ID $QUOTAD_REGION >>%[2]s; sleep 5; echo end $QUOTAD_RUN_ID $QUOTAD_REGION >>%[2]s']
`

// Silence of Redis is nobody's silence: after ten seconds of it, whichever host is answered first takes the job from none
// that lives.
func TestAnOutageOvertakesNobody(t *testing.T) {
	outages := seedtest.OnlyLong(t, "outages, of some 40 seconds each")
	server := redistest.Start(t)
	file := filepath.Join(shortDir(t), "passes")
	config := fmt.Sprintf(longRun, server.Addr, file)
	var clients []jobsapi.Client
	for range 2 {
		_, client := startWith(t, config)
		clients = append(clients, jobsapi.Client{Client: client})
	}
	lines := func() []string {
		text, _ := os.ReadFile(file) // none is there at first
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	last := func() string { return lines()[len(lines())-1] }
	for i := range outages {
		before := len(lines())
		eventually(t, func() bool { return strings.HasSuffix(last(), " B") && len(lines()) > before })
		if err := server.Freeze(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Second + time.Duration(100*i)*time.Millisecond)
		if err := server.Thaw(); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() bool { return strings.HasPrefix(last(), "end") && strings.HasSuffix(last(), " C") })
	}
	under, passes := "", 0
	for _, line := range lines() {
		fields := strings.Fields(line)
		switch {
		case fields[0] == "end":
			under = ""
		case under != "":
			t.Errorf("run %s has a pass while run %s has one", fields[1], under)
		default:
			under, passes = fields[1], passes+1
		}
	}
	for _, client := range clients {
		list, err := client.Runs(context.Background(), jobsapi.Selection{Job: "long", Most: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range list {
			if run.Reason == jobs.Died || run.State != jobs.RunSkipped && run.Reason == jobs.Overlap {
				t.Errorf("run %s of %s was taken over: %s", run.ID, run.Host, run.Detail)
			}
		}
	}
	t.Logf("%d outages, %d passes", outages, passes)
}
