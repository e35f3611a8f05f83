package main

import (
	"time"

	"github.com/rs/zerolog"

	"quotad/jobs"
	"quotad/quota/api"
)

// Events writes what happens to the log: a line for each run, each pass and
// each refusal.
type events struct {
	log      zerolog.Logger
	refusals zerolog.Logger // sampled: a caller may hammer
}

var _ jobs.Observer = events{}

// maxRefusals is how many refusals a second are logged.
const maxRefusals = 20

func newEvents(log zerolog.Logger) events {
	return events{log: log, refusals: log.Sample(&zerolog.BurstSampler{Burst: maxRefusals, Period: time.Second})}
}

// RunChanged implements jobs.Observer.
func (e events) RunChanged(run jobs.Run) {
	line := e.log.WithLevel(runLevel(run.State)).Str("job", run.Job).Str("run", run.ID).Str("trigger", string(run.Trigger)).Time("slot", run.Slot)
	switch run.State {
	case jobs.RunRunning:
		line.Int("regions", len(run.Ring)).Msg("run begins")
		return
	case jobs.RunSkipped:
		line.Int("ticks", run.Ticks)
	default:
		var units, served int
		for _, pass := range run.Passes {
			units += int(pass.Units)
			if pass.Outcome == jobs.OK {
				served++
			}
		}
		line.Int("ok", served).Int("regions", len(run.Ring)).Int("units", units).Int64("took_ms", run.EndedAt.Sub(run.StartedAt).Milliseconds())
	}
	why(line, run.Reason, run.Detail, run.RetryAt).Msg("run " + string(run.State))
}

func runLevel(state jobs.RunState) zerolog.Level {
	if state == jobs.RunStopped || state == jobs.RunSkipped {
		return zerolog.WarnLevel
	}
	return zerolog.InfoLevel
}

// PassChanged implements jobs.Observer.
func (e events) PassChanged(run jobs.Run, pass jobs.Pass) {
	line := e.log.WithLevel(passLevel(pass.Outcome)).Str("job", run.Job).Str("region", string(pass.Region)).Str("run", run.ID)
	if pass.Outcome == jobs.Running {
		line.Msg("pass begins")
		return
	}
	line.Str("outcome", string(pass.Outcome))
	if pass.Outcome != jobs.Skipped {
		line.Int64("units", int64(pass.Units)).Int64("calls", pass.Calls).Int64("took_ms", pass.EndedAt.Sub(pass.StartedAt).Milliseconds())
	}
	why(line, pass.Reason, pass.Detail, pass.RetryAt).Msg("pass " + string(pass.Outcome))
}

func passLevel(outcome jobs.Outcome) zerolog.Level {
	switch {
	case outcome == jobs.Running:
		return zerolog.DebugLevel
	case outcome.Failure():
		return zerolog.ErrorLevel
	case outcome == jobs.OK || outcome == jobs.Interrupted:
		return zerolog.InfoLevel
	default:
		return zerolog.WarnLevel
	}
}

// why adds what is known of a reason.
func why(line *zerolog.Event, reason jobs.Reason, detail string, retryAt time.Time) *zerolog.Event {
	if reason != "" {
		line.Str("reason", string(reason))
	}
	if detail != "" {
		line.Str("detail", detail)
	}
	if !retryAt.IsZero() {
		line.Time("retry_at", retryAt)
	}
	return line
}

// Output implements jobs.Observer.
func (e events) Output(job, run string, pass jobs.Pass, line jobs.Line) {
	event := e.log.Info().Str("job", job).Str("region", string(pass.Region)).Str("run", run).Str("stream", line.Stream)
	if line.Cut {
		event.Bool("cut", true)
	}
	event.Msg(line.Text)
}

// Trouble implements jobs.Observer.
func (e events) Trouble(job string, err error) {
	e.log.Error().Str("job", job).Err(err).Msg("cannot keep what happened: a restart would not know it")
}

// decided logs what the API decided; what was granted only for who looks closely.
func (e events) decided(event api.Event) {
	line := e.log.Debug()
	switch {
	case event.Err != nil:
		line = e.refusals.Error().Err(event.Err)
	case !event.Decision.Granted():
		line = e.refusals.Warn()
	case event.Verb == "adjust", event.Verb == "reset": // an operator changed the books
		line = e.log.Info()
	}
	if line == nil || !line.Enabled() {
		return
	}
	caller, d := event.Request.Caller, event.Decision
	line.Str("credential", event.Request.Credential).Str("by", caller.By()).Int("pid", event.PID)
	if caller.Region != "" {
		line.Str("region", caller.Region).Str("run", caller.Run)
	}
	if event.Request.Operation != "" {
		line.Str("operation", event.Request.Operation).Int64("count", int64(event.Request.Count))
	}
	if event.GrantID != "" {
		line.Str("grant", event.GrantID)
	}
	if d.Limit != "" {
		line.Str("limit", d.Limit)
	}
	why(line.Int64("units", int64(d.Units)), jobs.Reason(d.Reason), d.Detail, d.RetryAt).Int64("took_ms", event.Took.Milliseconds())
	line.Msg(verdict(event))
}

func verdict(event api.Event) string {
	switch {
	case event.Err != nil:
		return event.Verb + " failed"
	case event.Decision.Granted():
		return event.Verb + " granted"
	default:
		return event.Verb + " refused"
	}
}
