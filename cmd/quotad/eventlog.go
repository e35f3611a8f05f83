package main

import (
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/notify"
	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/proxy"
	"quotad/quota/server"
	"quotad/quota/slidinglog"
	"quotad/quota/upstream"
)

// An eventLog is a sink of events that writes a line for each run, each pass and each refusal.
// Lines that report alike refusals are sampled. A line that is not written is a nil
// *zerolog.Event, whose methods do nothing.
type eventLog struct {
	log    zerolog.Logger
	output sync.Mutex // one line of a pass at a time: no other line waits for more of them

	mu    sync.Mutex                     // guards kinds
	kinds map[kind]*zerolog.BurstSampler // of refusals
}

func (e *eventLog) record(event any) {
	switch event := event.(type) {
	case server.Decided:
		e.decided(event)
	case server.Forbidden:
		line := addCaller(e.refusal(zerolog.WarnLevel, event.Caller, event.Route), event.Caller, event.PID)
		addText(addText(line, "route", event.Route), "from", event.From).Str("detail", event.Detail).Msg("request forbidden")
	case server.ClientReset:
		addCaller(e.log.Info().Str("clients", event.Clients), event.Caller, event.PID).Msg("client reset")
	case upstream.Outcome:
		e.observed(event)
	case proxy.Finished:
		e.proxied(event)
	case slidinglog.Event:
		e.ledger(event)
	case jobs.RunChanged:
		e.runChanged(event.Run)
	case jobs.PassChanged:
		e.passChanged(event.Run, event.Pass)
	case jobs.Output:
		line := e.log.Info().Str("job", event.Job).Str("region", string(event.Pass.Region)).Str("run", event.Run).Str("stream", event.Line.Stream)
		if event.Line.Cut {
			line.Bool("cut", true)
		}
		e.output.Lock()
		defer e.output.Unlock()
		line.Msg(event.Line.Text)
	case jobs.Trouble:
		e.log.Error().Str("job", event.Job).Err(event.Err).Msg("trouble with a job")
	case notify.Event:
		e.event(event)
	case notify.Result:
		line, message := e.log.Info(), "event command done"
		if event.Failed != "" {
			line, message = e.log.Error(), "event command failed"
		}
		addText(line.Str("event", event.Event), "detail", event.Failed).Int64("took_ms", event.Took.Milliseconds()).Msg(message)
	case notify.Output:
		e.log.Info().Str("event", event.Event).Str("stream", event.Line.Stream).Msg(event.Line.Text)
	}
}

// event logs little that is left of a limit, and the beginning and the end of a trouble. Runs have a line of their own
// already.
func (e *eventLog) event(n notify.Event) {
	switch n.Event {
	case config.EventLow:
		e.log.Warn().Str("credential", n.Credential).Str("limit", n.Limit).Int64("left", int64(*n.Left)).Msg("low")
	case config.EventTrouble:
		level := zerolog.WarnLevel
		if n.Grave {
			level = zerolog.ErrorLevel
		}
		addText(e.log.WithLevel(level).Str("kind", string(n.Kind)).Str("of", n.Of).Str("says", n.Says), "do", n.Do).Msg("trouble")
	case config.EventOver:
		e.log.Info().Str("kind", string(n.Kind)).Str("of", n.Of).Str("was", n.Says).Msg("trouble over")
	}
}

func (e *eventLog) runChanged(run jobs.Run) {
	level := zerolog.InfoLevel
	switch run.State {
	case jobs.RunFailed:
		level = zerolog.ErrorLevel
	case jobs.RunStopped, jobs.RunSkipped:
		level = zerolog.WarnLevel
	}
	line := e.log.WithLevel(level).Str("job", run.Job).Str("run", run.ID).Str("trigger", string(run.Trigger)).Time("slot", run.Slot)
	switch run.State {
	case jobs.RunRunning:
		line.Int("regions", len(run.Ring)).Msg("run begins")
		return
	case jobs.RunSkipped:
		line.Time("last_slot", run.LastSlot)
	default:
		line.Int("ok", run.Outcomes()[jobs.OK]).Int("regions", len(run.Ring)).Int64("units", int64(run.Spent())).Int64("took_ms", run.EndedAt.Sub(run.StartedAt).Milliseconds())
	}
	addReason(line, string(run.Reason), run.Detail, run.RetryAt).Msg("run " + string(run.State))
}

func (e *eventLog) passChanged(run jobs.Run, pass jobs.Pass) {
	level := zerolog.WarnLevel
	switch {
	case pass.Outcome == jobs.Running:
		level = zerolog.DebugLevel
	case pass.Outcome.Failure():
		level = zerolog.ErrorLevel
	case pass.Outcome == jobs.OK || pass.Outcome == jobs.Interrupted:
		level = zerolog.InfoLevel
	}
	line := e.log.WithLevel(level).Str("job", run.Job).Str("region", string(pass.Region)).Str("run", run.ID)
	if pass.Outcome == jobs.Running {
		line.Msg("pass begins")
		return
	}
	if pass.Attempt > 0 {
		line.Int("attempt", pass.Attempt+1)
	}
	line.Str("outcome", string(pass.Outcome))
	if pass.Outcome != jobs.NotLaunched {
		line.Int64("units", int64(pass.Units)).Int64("calls", pass.Calls).Int64("took_ms", pass.EndedAt.Sub(pass.StartedAt).Milliseconds())
	}
	addReason(line, string(pass.Reason), pass.Detail, pass.RetryAt).Msg("pass " + strings.ReplaceAll(string(pass.Outcome), "_", " "))
}

// decided logs a decision of the API. Grants of calls are logged only at the debug level.
func (e *eventLog) decided(event server.Decided) {
	r, d := event.Request, event.Decision
	if event.Verb == "acquire" && event.Err == nil {
		for _, short := range d.WouldDeny(r.UseReserve) {
			line := addCaller(e.refusal(zerolog.WarnLevel, r.Caller, "would deny "+short.Limit), r.Caller, event.PID)
			line.Str("credential", r.Credential).Str("operation", r.Operation).Int64("count", int64(r.Count)).Str("limit", short.Limit).
				Int64("units", int64(d.Units)).Int64("missing", int64(short.Missing)).Msg("acquire would be refused: the limit is not enforced")
		}
	}
	line, message := e.log.Debug(), event.Verb+" granted"
	switch {
	case event.Result() == string(api.Cancelled): // the caller is gone, and nothing is wrong
		message = event.Verb + " failed"
	case event.Err != nil:
		line, message = e.refusal(zerolog.ErrorLevel, r.Caller, event.Result()), event.Verb+" failed"
	case !d.Granted():
		line, message = e.refusal(zerolog.WarnLevel, r.Caller, event.Result()), event.Verb+" refused"
	case event.Past != "" && r.Caller.Job != "":
		line, message = e.refusal(zerolog.WarnLevel, r.Caller, "past "+event.Past), "settle took a pass past what it may spend: its run ends"
	case event.Past != "":
		line, message = e.refusal(zerolog.WarnLevel, r.Caller, "past "+event.Past), "settle took a limit past its budget"
	case event.Verb == "book", event.Verb == "reset", event.Verb == "close", event.Verb == "open": // an operator changed the books
		line = e.log.Info()
	}
	if line == nil { // most are: do no work for them
		return
	}
	addText(line.Err(event.Err), "past", event.Past)
	addCaller(line.Str("credential", r.Credential), r.Caller, event.PID)
	if r.Operation != "" {
		line.Str("operation", r.Operation).Int64("count", int64(r.Count))
	}
	addText(addText(line, "grant", event.GrantID), "limit", d.Limit)
	addReason(line.Int64("units", int64(d.Units)), string(d.Reason), d.Detail, d.RetryAt).Int64("took_ms", event.Took.Milliseconds()).Msg(message)
}

// observed logs what an upstream says about its quota: each limit that it closes, and what it refuses.
func (e *eventLog) observed(out upstream.Outcome) {
	if out.Before != "" {
		e.log.Warn().Str("credential", out.Credential).Str("booked", out.Before).Msg("the upstream had counted calls before quotad")
	}
	var line *zerolog.Event
	message := "upstream refuses"
	switch {
	case out.Changed:
		line, message = e.log.Warn().Str("limit", out.Limit).Str("by", out.Closed.By).Time("until", out.Closed.Until), "limit closed"
	case out.Class == upstream.Key || out.Class == upstream.Unknown && out.Limit == "":
		line = e.refusal(zerolog.ErrorLevel, unknownCaller, "upstream "+out.Credential+" "+string(out.Class))
	}
	line.Str("credential", out.Credential).Str("operation", out.Operation).Str("class", string(out.Class)).Str("says", out.Says).Msg(message)
}

// proxied logs a call through the proxy that had no answer, was sent again, or whose answer cannot be observed: units may
// be debited that the upstream did not count. Refused calls are logged as decisions.
func (e *eventLog) proxied(x proxy.Finished) {
	message := ""
	switch {
	case x.Err != nil && x.Refused == "":
		message = "proxy got no answer"
	case x.Sent > 1:
		message = "proxy sent a call again"
	case x.ObserveErr != nil:
		message = "cannot record what the upstream says"
	default:
		return
	}
	line := e.refusal(zerolog.WarnLevel, x.Caller, message).Err(x.Err).AnErr("unobserved", x.ObserveErr)
	addCaller(line.Str("credential", x.Credential), x.Caller, 0).Str("operation", x.Operation).
		Int("status", x.Status).Int("sent", x.Sent).Int64("took_ms", x.Took.Milliseconds()).Msg(message)
}

// ledger logs each edge of a shared ledger's outage.
func (e *eventLog) ledger(event slidinglog.Event) {
	line, message := e.log.Warn(), "ledger "+string(event.Kind)
	switch event.Kind {
	case slidinglog.Up:
		line = e.log.Info().Int64("took_ms", event.Took.Milliseconds()).Int64("units", int64(event.Units))
	case slidinglog.Restored:
		line.Int("records", event.Records)
	case slidinglog.Cut:
		message = event.Text
	}
	line.Err(event.Err).Str("credential", event.Credential).Msg(message)
}

// addText adds a text that is not empty.
func addText(line *zerolog.Event, field, text string) *zerolog.Event {
	if text != "" {
		line.Str(field, text)
	}
	return line
}

// addReason adds what is known of a reason.
func addReason(line *zerolog.Event, reason, detail string, retryAt time.Time) *zerolog.Event {
	addText(addText(line, "reason", reason), "detail", detail)
	if !retryAt.IsZero() {
		line.Time("retry_at", retryAt)
	}
	return line
}

// unknownCaller stands for the caller of what has none in its event.
var unknownCaller = quota.Caller{UID: -1}

// addCaller adds the caller.
func addCaller(line *zerolog.Event, caller quota.Caller, pid int) *zerolog.Event {
	line.Str("by", caller.By())
	if pid != 0 { // known on a Unix socket alone
		line.Int("pid", pid)
	}
	if caller.Region != "" {
		line.Str("region", caller.Region).Str("run", caller.Run)
	}
	return line
}

// At most maxAlike alike refusals are logged within alikeTime: a caller that floods the API must
// not hide what others are refused.
const (
	maxAlike  = 5
	alikeTime = 10 * time.Second
	maxKinds  = 1000 // bounds the memory for kinds of refusals
)

// A kind of refusals is those of one caller for one reason.
type kind struct{ by, reason string }

// refusal returns a line for a refusal, or nil if enough alike ones were logged.
func (e *eventLog) refusal(level zerolog.Level, caller quota.Caller, reason string) *zerolog.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := kind{caller.By(), reason}
	if e.kinds[k] == nil {
		if e.kinds == nil || len(e.kinds) >= maxKinds {
			e.kinds = map[kind]*zerolog.BurstSampler{}
		}
		e.kinds[k] = &zerolog.BurstSampler{Burst: maxAlike, Period: alikeTime}
	}
	if !e.kinds[k].Sample(level) {
		return nil
	}
	return e.log.WithLevel(level)
}
