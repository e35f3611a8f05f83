package notify

import (
	"context"
	"slices"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
	"quotad/quota"
)

// Try runs the command of an event with the values of an example, and returns the result and what it wrote. It returns
// false if the event has none. The end of ctx ends the command.
func (n *Notifier) Try(ctx context.Context, event config.EventName) (result Result, lines []jobs.Line, ok bool) {
	onEvent := n.onEvent.Load()
	if len(onEvent.Commands[event]) == 0 {
		return Result{}, nil, false
	}
	result = n.launch(ctx, onEvent, example(event, time.Now()), func(line jobs.Line) { lines = append(lines, line) })
	return result, lines, true
}

// example is an alert as a command may get it.
func example(event config.EventName, now time.Time) Alert {
	a := Alert{Event: event, At: now, Example: true}
	daily := quota.LimitState{Limit: quota.Limit{Name: "daily", Units: 10_000, Reserve: 500, Window: quota.Sliding(24 * time.Hour)}, Used: 7600}
	switch event {
	case config.NearLimit:
		a.Credential, a.Limit, a.Percent = "youtube", daily, 80
	case config.Exhausted:
		daily.Used = 9500
		a.Credential, a.Limit, a.RetryAt = "youtube", daily, now.Add(time.Hour)
	case config.RunStarted, config.RunEnded, config.JobFailing:
		a.Run = exampleRun(now, event == config.RunStarted)
		a.Next = now.Add(time.Hour)
	}
	for kind, r := range reports {
		if event == r.began || event == r.ended {
			a.Detail = "an example: " + r.says
			a.Change = trouble.Change{Trouble: trouble.Trouble{Kind: kind, Of: r.of, Says: a.Detail, Do: r.do}, Ended: event == r.ended}
		}
	}
	return a
}

func exampleRun(now time.Time, running bool) jobs.Run {
	r := jobs.Run{ID: "06h1jwarqavnpf0", Job: "trending", Trigger: jobs.Scheduled, State: jobs.RunRunning, StartedAt: now}
	if running {
		return r
	}
	r.StartedAt, r.EndedAt, r.State = now.Add(-time.Minute), now, jobs.RunFailed
	r.Passes = []jobs.Pass{
		{Region: "US", Outcome: jobs.OK, Units: 4, Calls: 4, Made: jobs.Made{"videos.list": 4}},
		{Region: "GB", Outcome: jobs.Failed, Detail: "exit status 1", Tail: []string{"an example: no route to host"}},
	}
	return r
}

// Untold returns the events of troubles for which no command runs.
func Untold(onEvent config.OnEvent) (list []string) {
	for _, r := range reports {
		if len(onEvent.Commands[r.began]) == 0 {
			list = append(list, string(r.began))
		}
	}
	slices.Sort(list)
	return list
}
