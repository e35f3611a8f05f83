package main

import (
	"time"

	"github.com/rs/zerolog"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/notify"
	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/clientlimit"
	"quotad/quota/proxy"
	"quotad/quota/server"
	"quotad/quota/slidinglog"
	"quotad/quota/upstream"
)

// An eventLog writes what happens to the log: a line for each run, each pass and
// each refusal.
type eventLog struct {
	log      zerolog.Logger
	refusals *refusals
}

func newEventLog(log zerolog.Logger) eventLog { return eventLog{log: log, refusals: newRefusals()} }

// record is a sink of events.
func (e eventLog) record(event any) {
	switch event := event.(type) {
	case server.Event:
		e.decided(event)
	case server.Attempt:
		e.forbidden(event)
	case clientlimit.Event:
		e.clientDecided(event)
	case clientlimit.Difference:
		e.differs(event)
	case server.ClientReset:
		by(e.log.Info().Str("clients", event.Clients), event.Caller, event.PID).Msg("client reset")
	case upstream.Outcome:
		e.observed(event)
	case proxy.Exchange:
		e.proxied(event)
	case slidinglog.Event:
		e.outage(event)
	case jobs.RunChanged:
		e.runChanged(event.Run)
	case jobs.PassChanged:
		e.passChanged(event.Run, event.Pass)
	case jobs.Overdue:
		e.overdue(event)
	case jobs.Output:
		e.output(event)
	case jobs.Trouble:
		e.log.Error().Str("job", event.Job).Err(event.Err).Msg("cannot keep what happened: a restart would not know it")
	case notify.Alert:
		e.alerted(event)
	case notify.Result:
		e.commandDone(event)
	case notify.Output:
		e.log.Info().Str("event", string(event.Event)).Str("stream", event.Line.Stream).Msg(event.Line.Text)
	}
}

func (e eventLog) overdue(o jobs.Overdue) {
	if !o.Is {
		e.log.Info().Str("job", o.Job).Msg("job not overdue any more")
		return
	}
	e.log.Warn().Str("job", o.Job).Time("since", o.Since).Stringer("expect_success", o.Expected).Msg("job overdue: no good run")
}

func (e eventLog) runChanged(run jobs.Run) {
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
	switch state {
	case jobs.RunFailed:
		return zerolog.ErrorLevel
	case jobs.RunStopped, jobs.RunSkipped:
		return zerolog.WarnLevel
	}
	return zerolog.InfoLevel
}

func (e eventLog) passChanged(run jobs.Run, pass jobs.Pass) {
	line := e.log.WithLevel(passLevel(pass.Outcome)).Str("job", run.Job).Str("region", string(pass.Region)).Str("run", run.ID)
	if pass.Outcome == jobs.Running {
		line.Msg("pass begins")
		return
	}
	if pass.Attempt > 0 {
		line.Int("attempt", pass.Attempt+1)
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

func (e eventLog) output(o jobs.Output) {
	line := e.log.Info().Str("job", o.Job).Str("region", string(o.Pass.Region)).Str("run", o.Run).Str("stream", o.Line.Stream)
	if o.Line.Cut {
		line.Bool("cut", true)
	}
	line.Msg(o.Line.Text)
}

// decided logs what the API decided; what was granted only for who looks closely.
func (e eventLog) decided(event server.Event) {
	if event.Verb == "acquire" && event.Err == nil {
		e.wouldDeny(event)
	}
	line := e.lineOf(event)
	if line == nil {
		return
	}
	caller, d := event.Request.Caller, event.Decision
	if event.Past != "" {
		line.Str("past", event.Past)
	}
	line.Str("credential", event.Request.Credential)
	by(line, caller, event.PID)
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

// wouldDeny logs what limits that are not enforced would have denied, as refusals are logged.
func (e eventLog) wouldDeny(event server.Event) {
	r, d := event.Request, event.Decision
	for _, short := range d.WouldDeny(r.UseReserve) {
		line := e.refusal(zerolog.WarnLevel, r.Caller, "would deny "+short.Limit)
		if line == nil {
			continue
		}
		by(line.Str("credential", r.Credential), r.Caller, event.PID).Str("operation", r.Operation).Int64("count", int64(r.Count)).
			Str("limit", short.Limit).Int64("units", int64(d.Units)).Int64("missing", int64(short.Missing))
		if !short.Closed.IsZero() {
			line.Time("closed_until", short.Closed.Until)
		}
		line.Msg("acquire would be refused: the limit is not enforced")
	}
}

// clientDecided logs what the ledger could not decide about a client; what else there is, many
// calls a second, for who looks closely.
func (e eventLog) clientDecided(event clientlimit.Event) {
	var line *zerolog.Event
	d, message := event.Decision, "client call granted"
	switch {
	case d.Err != nil:
		line, message = e.refusal(zerolog.ErrorLevel, quota.Caller{UID: -1}, "clients "+event.Clients).Err(d.Err), "client call failed"
	case d.Outage:
		line, message = e.refusal(zerolog.WarnLevel, quota.Caller{UID: -1}, "clients without ledger "+event.Clients), "client call granted without the ledger"
	default:
		line = e.log.Debug()
	}
	if line == nil {
		return
	}
	if d.Reason != "" {
		message = "client call refused"
	}
	line.Str("clients", event.Clients)
	if d.Limit != "" {
		line.Str("limit", d.Limit)
	}
	why(line.Int64("units", int64(d.Units)), jobs.Reason(d.Reason), d.Detail, d.RetryAt).Msg(message)
}

// lineOf begins the line for a decision; nil: there is none.
func (e eventLog) lineOf(event server.Event) *zerolog.Event {
	switch {
	case event.Result() == string(api.Cancelled): // nobody waits for it, and nothing is wrong
		return e.log.Debug().Err(event.Err)
	case event.Err != nil:
		return e.refusal(zerolog.ErrorLevel, event.Request.Caller, event.Result()).Err(event.Err)
	case !event.Decision.Granted():
		return e.refusal(zerolog.WarnLevel, event.Request.Caller, event.Result())
	case event.Past != "":
		return e.log.Warn()
	case event.Verb == "adjust", event.Verb == "lend", event.Verb == "reset", event.Verb == "close", event.Verb == "open": // an operator changed the books
		return e.log.Info()
	}
	return e.log.Debug()
}

// forbidden logs a request that its caller may not make.
func (e eventLog) forbidden(attempt server.Attempt) {
	line := e.refusal(zerolog.WarnLevel, attempt.Caller, attempt.Route)
	by(line, attempt.Caller, attempt.PID)
	if attempt.Route != "" {
		line.Str("route", attempt.Route)
	}
	if attempt.From != "" {
		line.Str("from", attempt.From)
	}
	line.Str("detail", attempt.Detail).Msg("request forbidden")
}

// refusal returns a line for a refusal, or nil if enough like it were logged.
func (e eventLog) refusal(level zerolog.Level, caller quota.Caller, reason string) *zerolog.Event {
	logged, unlogged := e.refusals.admit(kind{caller.By(), reason}, time.Now())
	if !logged {
		return nil
	}
	line := e.log.WithLevel(level)
	if unlogged > 0 {
		line.Int("unlogged", unlogged) // alike, before this one
	}
	return line
}

// by adds who called.
func by(line *zerolog.Event, caller quota.Caller, pid int) *zerolog.Event {
	line.Str("by", caller.By())
	if pid != 0 { // known on a Unix socket alone
		line.Int("pid", pid)
	}
	if caller.Region != "" {
		line.Str("region", caller.Region).Str("run", caller.Run)
	}
	return line
}

func verdict(event server.Event) string {
	switch {
	case event.Err != nil:
		return event.Verb + " failed"
	case event.Past != "":
		return "settle took a pass past what it may spend: its run ends"
	case event.Decision.Granted():
		return event.Verb + " granted"
	default:
		return event.Verb + " refused"
	}
}

// observed writes a line for what an upstream said against a quota, once for each limit
// that it closes, and where our count is far from its own.
func (e eventLog) observed(out upstream.Outcome) {
	switch {
	case out.Changed:
		e.log.Warn().Str("credential", out.Credential).Str("limit", out.Limit).Str("operation", out.Operation).Str("class", string(out.Class)).
			Str("by", out.Closed.By).Time("until", out.Closed.Until).Str("says", out.Says).Msg("limit closed")
	case out.Class == upstream.Config || out.Class == upstream.Unknown && out.Limit == "":
		if line := e.refusal(zerolog.ErrorLevel, quota.Caller{UID: -1}, "upstream "+out.Credential+" "+string(out.Class)); line != nil {
			line.Str("credential", out.Credential).Str("operation", out.Operation).Str("class", string(out.Class)).Str("says", out.Says).Msg("upstream refuses")
		}
	}
	for _, d := range out.Drifts {
		line, message := e.log.Info(), "counts agree again"
		if d.Far {
			line, message = e.log.Warn().Str("detail", d.Cause), "counts differ"
		}
		line.Str("credential", d.Credential).Str("limit", d.Limit).Int64("ours", int64(d.Ours.Units)).Int64("theirs", int64(d.Theirs.Units)).Msg(message)
	}
}

// proxied writes a line for a call through the proxy that went otherwise than asked for:
// above all for units that are debited although the upstream may not have counted them.
func (e eventLog) proxied(x proxy.Exchange) {
	var line *zerolog.Event
	message := "proxy passed a call on"
	switch {
	case x.Err != nil && x.Refused == "":
		line, message = e.refusal(zerolog.WarnLevel, x.Caller, "proxy failed"), "proxy got no answer"
	case x.Sent > 1:
		line, message = e.refusal(zerolog.WarnLevel, x.Caller, "proxy repeated"), "proxy sent a call again"
	case x.Unheard != nil:
		line, message = e.refusal(zerolog.WarnLevel, x.Caller, "proxy unheard"), "cannot record what the upstream says"
	case x.Refused == "":
		line = e.log.Debug()
	}
	if line == nil {
		return
	}
	if x.Err != nil {
		line.Err(x.Err)
	}
	if x.Unheard != nil {
		line.AnErr("unheard", x.Unheard)
	}
	by(line.Str("credential", x.Credential), x.Caller, 0).Str("operation", x.Operation).
		Int("status", x.Status).Int("sent", x.Sent).Int64("took_ms", x.Took.Milliseconds()).Msg(message)
}

// outage writes a line for each edge of a shared ledger's outage.
func (e eventLog) outage(event slidinglog.Event) {
	line := e.log.Warn()
	if event.Kind == slidinglog.Up {
		line = e.log.Info().Int64("took_ms", event.Took.Milliseconds()).Int64("units", int64(event.Units))
	}
	if event.Kind == slidinglog.Restored {
		line.Int("records", event.Records)
	}
	if event.Err != nil {
		line.Err(event.Err)
	}
	line.Str("credential", event.Credential).Msg("ledger " + string(event.Kind))
}

// differs writes a line where other hosts count clients otherwise than this one, and where that ends.
func (e eventLog) differs(d clientlimit.Difference) {
	if d.Mended {
		e.log.Info().Str("was", d.Says).Msg("hosts count clients alike again, or one is gone")
		return
	}
	e.log.Warn().Str("detail", d.Says).Msg("hosts count clients otherwise")
}

// alerted writes a line for a limit that comes near. Of the other alerts another line
// tells more.
func (e eventLog) alerted(a notify.Alert) {
	if a.Event != config.NearLimit {
		return
	}
	e.log.Warn().Str("credential", a.Credential).Str("limit", a.Limit.Name).Int64("percent", int64(a.Percent)).
		Int64("used", int64(a.Limit.Used)).Int64("remaining", int64(a.Limit.Remaining())).Msg("limit near")
}

// commandDone writes a line for the command of an event.
func (e eventLog) commandDone(r notify.Result) {
	level, message := zerolog.ErrorLevel, "event command failed"
	switch r.Outcome {
	case notify.OK:
		level, message = zerolog.InfoLevel, "event command done"
	case notify.Dropped:
		message = "event command dropped"
	}
	line := e.log.WithLevel(level).Str("event", string(r.Event))
	if r.Detail != "" {
		line.Str("detail", r.Detail)
	}
	if r.Outcome != notify.Dropped {
		line.Int64("took_ms", r.Took.Milliseconds())
	}
	line.Msg(message)
}
