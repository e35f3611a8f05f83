package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	jobsapi "quotad/jobs/api"
	"quotad/quota/redisledger/redistest"
)

// Each pass notes for which slot it is, and of which daemon.
const everySecond = `
[ledger]
backend = "redis"
redis.addrs = [%q]
deadline = "5s"
[credentials.api]
limits.daily.units = 100
operations.list = 1
[jobs.fetch]
credential = "api"
regions = ["one", "two"]
every = "1s"
stagger = "0s"
command = ["sh", "-c", 'echo $QUOTAD_SCHEDULED_AT $QUOTAD_REGION $QUOTAD_SOCKET >>%s']
`

// TwoDaemons are daemons on one Redis that run one job.
type twoDaemons struct {
	t       *testing.T
	file    string // of the passes
	daemons map[string]*child
	clients map[string]jobsapi.Client
}

func TestTwoDaemonsShareAJob(t *testing.T) {
	t.Parallel()
	h := &twoDaemons{
		t: t, file: filepath.Join(shortDir(t), "passes"), daemons: map[string]*child{}, clients: map[string]jobsapi.Client{},
	}
	server := redistest.Start(t)
	for _, name := range []string{"a", "b"} {
		daemon, client := startWith(t, fmt.Sprintf(everySecond, server.Addr, h.file))
		h.daemons[name], h.clients[name] = daemon, jobsapi.Client{Client: client}
	}
	h.await(8)
	h.daemons["a"].kill()
	h.await(14) // b goes on alone

	// What is known to one is known to the other, and outlives both.
	b := h.clients["b"]
	if _, err := b.Pause(context.Background(), "fetch", jobsapi.PauseRequest{Note: "the key is being changed"}); err != nil {
		t.Fatal(err)
	}
	daemon, client := startWith(t, fmt.Sprintf(everySecond, server.Addr, h.file))
	defer daemon.kill()
	c := jobsapi.Client{Client: client}
	job, err := c.Job(context.Background(), "fetch")
	must(t, err)
	if job.Pause == nil || job.Pause.Note != "the key is being changed" || job.Elsewhere == nil || job.Elsewhere.OK != 2 {
		t.Errorf("a new daemon shows %+v", job)
	}
	for _, command := range []string{"runs", "jobs", "why"} {
		shown, err := exec.Command("quotactl", "--socket", client.Socket, command, "fetch").CombinedOutput()
		if err != nil || !regexp.MustCompile(`last run on \S+: done .*, 2 of 2, 0 units`).Match(shown) {
			t.Errorf("quotactl %s fetch shows nothing of the run elsewhere: %v\n%s", command, err, shown)
		}
	}
	h.check()
}

// passes are the lines that the passes have written.
func (h *twoDaemons) passes() []string {
	text, err := os.ReadFile(h.file)
	if err != nil && !os.IsNotExist(err) {
		h.t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func (h *twoDaemons) await(passes int) {
	h.t.Helper()
	eventually(h.t, func() bool { return len(h.passes()) >= passes })
}

// check holds that no slot was run by two daemons, nor a region of it twice.
func (h *twoDaemons) check() {
	by, all := map[string]string{}, h.passes()
	for i, pass := range all {
		fields := strings.Fields(pass)
		slot, daemon := fields[0], fields[2]
		if by[slot] == "" {
			by[slot] = daemon
		}
		if by[slot] != daemon || slices.Contains(all[:i], pass) {
			h.t.Errorf("slot %s was run twice:\n%s", slot, strings.Join(all, "\n"))
		}
	}
	h.t.Logf("%d passes in %d slots", len(all), len(by))
}
