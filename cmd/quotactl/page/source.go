package page

import (
	"context"
	"time"

	"quotad/cmd/quotactl/wording"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/quota/api"
)

// A Source asks a daemon for what the page shows: for the status at each look, and for the runs and the logs every ten
// seconds.
type Source struct {
	Client jobsapi.Client
	Host   string              // the name of the daemon's host
	View   func() wording.View // how times are written

	facts Facts
	asked time.Time // when it asked for runs and logs; zero: never
}

const (
	statusTimeout = 3 * time.Second
	logsTimeout   = 20 * time.Second // for all of them, and the runs
	logsEvery     = 10 * time.Second
	maxPages      = 20   // of a log
	maxRuns       = 1000 // the daemon returns no more
)

// Facts are what a picture is made of. What is not known has an error instead.
type Facts struct {
	Host    string
	Status  jobsapi.Status
	Spent   map[string]Spent // by credential
	Runs    []jobs.Run       // the latest first
	RunsErr error
}

// Spent is what a credential's log says of the last day.
type Spent struct {
	Since  time.Time                      // earlier the log was not read
	Limits map[string]map[time.Time]int64 // units by limit and quarter of an hour
	Err    error
}

// Look returns what the page shows now. Its error says why nothing is known.
func (s *Source) Look(ctx context.Context) (Picture, error) {
	limited, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	status, err := s.Client.Status(limited)
	if err != nil {
		return Picture{}, err
	}
	s.facts.Host, s.facts.Status = s.Host, status
	if time.Since(s.asked) >= logsEvery {
		s.askForMore(ctx)
		s.asked = time.Now()
	}
	v := s.View()
	v.Color = false
	return Picture{Facts: s.facts, View: v}, nil
}

func (s *Source) askForMore(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, logsTimeout)
	defer cancel()
	s.facts.Spent = map[string]Spent{}
	for _, c := range s.facts.Status.Credentials {
		s.facts.Spent[c.Name] = s.spent(ctx, c.Name)
	}
	s.facts.Runs, s.facts.RunsErr = s.Client.Runs(ctx, jobsapi.Selection{Most: maxRuns})
}

// spent reads a log from now back to a day ago.
func (s *Source) spent(ctx context.Context, credential string) Spent {
	spent := Spent{Since: time.Now().Add(-chartSpan), Limits: map[string]map[time.Time]int64{}}
	q := api.LogQuery{Credential: credential, Since: spent.Since.Format(time.RFC3339Nano), Newest: true, Most: quota.MaxLogPage}
	oldest := spent.Since
	for range maxPages {
		page, err := s.Client.Log(ctx, q)
		if err != nil {
			return Spent{Err: err}
		}
		for _, e := range page.Entries {
			spent.add(e)
		}
		if q.After = page.Next; q.After == "" {
			return spent
		}
		oldest = page.Entries[len(page.Entries)-1].At
	}
	spent.Since = oldest
	return spent
}

func (s *Spent) add(e api.Entry) {
	for _, charge := range e.Charges {
		if s.Limits[charge.Limit] == nil {
			s.Limits[charge.Limit] = map[time.Time]int64{}
		}
		s.Limits[charge.Limit][e.At.UTC().Truncate(chartStep)] += charge.Units
	}
}
