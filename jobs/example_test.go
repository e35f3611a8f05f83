package jobs_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
	"quotad/regions"
)

// The budget of 250 units is gone at DE. The run ends there, and the next one begins there.
func ExampleRunner() {
	check := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "jobs")
	check(err)
	defer os.RemoveAll(dir)
	credential := &quota.Credential{
		Name:       "youtube",
		Limits:     []quota.Limit{{Name: "daily", Units: 250, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{"search.list": {Every: 100}},
	}
	service, err := quota.NewService(ledgertest.NewModel(time.Now), []*quota.Credential{credential}, time.Second)
	check(err)
	tokens := new(jobs.Tokens)
	runner, err := jobs.Open(jobs.Config{
		Jobs: []*jobs.Job{{
			Name:       "trending",
			Credential: "youtube",
			Regions:    regions.Ring{"US", "GB", "DE", "FR"},
			Schedule:   jobs.Unscheduled{}, // quotactl run; NewEvery and scheduler.ParseCron have slots
			Command:    []string{"/usr/bin/fetch"},
			Timeout:    2 * time.Minute,
		}},
		Gate:     service,
		Launcher: search{service, tokens},
		Tokens:   tokens,
		Dir:      dir,
		Now:      time.Now,
	})
	check(err)
	ctx, stop := context.WithCancel(context.Background())
	runner.Start(ctx)
	run, err := runner.Run("trending", "alice")
	check(err)
	done, err := runner.AwaitRun(ctx, run.ID, len(run.Ring), -1)
	check(err)
	for _, p := range done.Passes {
		fmt.Println(p.Region, p.Outcome, "after", p.Units, "units")
	}
	status, err := runner.Status("trending")
	check(err)
	fmt.Println(done.State, "at", done.Passes[2].Limit+", the next run begins with", status[0].Cursor)
	stop()
	runner.Stop(ctx, ctx)
	// Output:
	// US ok after 100 units
	// GB ok after 100 units
	// DE exhausted after 0 units
	// stopped at daily, the next run begins with DE
}

// A search is a Launcher that makes one call for a region, and no process. A process finds the same token in
// its environment and asks over the socket. process.Launcher starts processes.
type search struct {
	service *quota.Service
	tokens  *jobs.Tokens
}

func (s search) Launch(ask, _ context.Context, c jobs.Command, _ func(jobs.Line)) jobs.Exit {
	token := ""
	for _, variable := range c.Env {
		if value, ok := strings.CutPrefix(variable, "QUOTAD_TOKEN="); ok {
			token = value
		}
	}
	r := quota.Request{Credential: "youtube", Operation: "search.list", Count: 1}
	d, err := server.AcquireByToken(ask, s.service, s.tokens, token, r)
	switch {
	case err != nil:
		return jobs.Exit{Code: 1}
	case !d.Granted():
		return jobs.Exit{Code: jobs.ExitExhausted}
	}
	return jobs.Exit{} // it calls the upstream
}
