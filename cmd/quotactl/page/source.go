package page

import (
	"context"
	"encoding/json"
	"time"

	"quotad/cmd/quotactl/term"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
)

// A Source asks a daemon for what the page shows. It asks for the status at each look. What
// is expensive, a plan or a log that is read, it asks for when the status has changed and
// each minute, but not again within minPause.
type Source struct {
	Client jobsapi.Client
	Host   string           // the name of the daemon's host
	View   func() term.View // how times are written

	facts  Facts
	asked  time.Time // when it asked for what is expensive; zero: never
	before string    // the signature of the status at that time
}

const (
	statusTimeout    = 3 * time.Second
	expensiveEvery   = time.Minute
	minPause         = 5 * time.Second
	expensiveTimeout = 20 * time.Second // for all that is expensive
)

// Facts are what a picture is made of. What is not known has an error instead.
type Facts struct {
	Host        string
	Status      jobsapi.Status
	Usage       map[string]Usages // by credential
	Plan        plan.Plan
	PlanErr     error
	Runs        []jobs.Run // the latest first
	RunsErr     error
	Refusals    api.Refusals
	RefusalsErr error
}

// Usages are what the windows of a credential's limits hold now, grouped by each dimension.
type Usages map[quota.Dimension]Usage

// A Usage is an answer, or why there is none.
type Usage struct {
	api.Usage
	Err error
}

const (
	hourlyEntries = 20_000 // how many entries of a log a usage reads at most
	maxRuns       = 1000   // how many runs the daemon returns at most
)

// Look returns what the page shows now. Its error says why nothing is known.
func (s *Source) Look(ctx context.Context) (Picture, error) {
	limited, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	status, err := s.Client.Status(limited)
	if err != nil {
		return Picture{}, err
	}
	s.facts.Host, s.facts.Status = s.Host, status
	now := signature(status)
	if since := time.Since(s.asked); since >= expensiveEvery || since >= minPause && now != s.before {
		s.askForMore(ctx)
		s.asked, s.before = time.Now(), now
	}
	v := s.View()
	v.Color = false
	return Picture{Facts: s.facts, View: v}, nil
}

// signature changes when the expensive part may have changed.
func signature(status jobsapi.Status) string {
	text, _ := json.Marshal(struct{ Credentials, Jobs any }{status.Credentials, status.Jobs}) // it was JSON
	return string(text)
}

func (s *Source) askForMore(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, expensiveTimeout)
	defer cancel()
	f := &s.facts
	f.Usage = make(map[string]Usages)
	for _, c := range f.Status.Credentials {
		f.Usage[c.Name] = make(Usages)
		for _, by := range []quota.Dimension{quota.ByHour, quota.ByJob, quota.ByOperation} {
			var u Usage
			u.Usage, u.Err = s.Client.Usage(ctx, c.Name, api.UsageQuery{By: string(by), Most: hourlyEntries})
			f.Usage[c.Name][by] = u
		}
	}
	f.Plan, f.PlanErr = s.Client.Plan(ctx)
	f.Runs, f.RunsErr = s.Client.Runs(ctx, jobsapi.Selection{Most: maxRuns})
	f.Refusals, f.RefusalsErr = s.Client.Refusals(ctx)
}
