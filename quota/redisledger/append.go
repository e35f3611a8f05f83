package redisledger

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

// Append implements slidinglog.Store. All calls go in one pipeline, to each node of a Cluster
// in one of its own at the same time.
func (s *Store) Append(ctx context.Context, calls []slidinglog.Call) []slidinglog.Outcome {
	arguments := make([][]any, len(calls))
	for i, call := range calls {
		arguments[i] = s.arguments(call)
	}
	outcomes := make([]slidinglog.Outcome, len(calls))
	for i, command := range s.run(ctx, s.appends, arguments) {
		outcomes[i] = s.outcome(command)
	}
	return outcomes
}

// arguments are those of append.lua.
func (s *Store) arguments(call slidinglog.Call) []any {
	at := call.At.ID.String()
	if !call.At.IsZero() {
		at += string(call.At.Tag[:])
	}
	keys := []any{1, s.key(call.Credential)}
	if call.Probe {
		keys = []any{2, keys[1], s.key(call.Credential) + ":probe"}
	}
	args := append(make([]any, 2, 12), keys...)
	args = append(args, at, call.NotBefore, call.NotAfter, call.Keep.Milliseconds(), call.Body)
	how := ""
	switch {
	case call.Wipe:
		how = "wipe"
	case call.Blind:
		how = "blind"
	case call.Slack > 0 && len(call.Body) > 0:
		how = strconv.FormatInt(call.Slack, 10)
	}
	if how != "" || call.Floor > 0 {
		args = append(args, how)
	}
	if call.Floor > 0 {
		args = append(args, call.Floor)
	}
	return args
}

var statuses = map[string]slidinglog.Result{
	"end": slidinglog.End, "behind": slidinglog.Behind, "more": slidinglog.Behind, "lost": slidinglog.Lost,
	"early": slidinglog.Early, "late": slidinglog.Late, "after": slidinglog.Done,
}

// outcome reads what append.lua answers. A server that answers with an error has changed nothing: the
// script's first write fails, if any does.
func (s *Store) outcome(command *redis.Cmd) slidinglog.Outcome {
	value, err := command.Result()
	switch {
	case err != nil && mayHaveRun(err):
		return slidinglog.Outcome{Result: slidinglog.Unknown, Err: s.failure(true, err)}
	case err != nil:
		return slidinglog.Outcome{Result: slidinglog.Failed, Err: s.failure(false, err)}
	}
	o, ok := parseOutcome(value)
	if !ok {
		return slidinglog.Outcome{Err: errReply}
	}
	return o
}

func parseOutcome(value any) (o slidinglog.Outcome, ok bool) {
	if text, isText := value.(string); isText {
		at, err := quota.ParseID(text)
		return slidinglog.Outcome{Result: slidinglog.Done, Clock: at.Ms, At: at}, err == nil
	}
	values, _ := value.([]any)
	if len(values) < 2 {
		return o, false
	}
	word, _ := values[0].(string)
	if o.Result, ok = statuses[word]; !ok {
		return o, false
	}
	if o.Clock, ok = values[1].(int64); !ok || o.Result != slidinglog.Behind && o.Result != slidinglog.Done {
		return o, ok
	}
	if len(values) < 3 {
		return o, false
	}
	o.Tail, ok = placed(values[2])
	if o.Result == slidinglog.Done {
		done, known := parseOutcome(values[len(values)-1])
		done.Tail = o.Tail
		return done, ok && known && len(values) == 4
	}
	if o.More = word == "more" || len(o.Tail) > slidinglog.PageSize; o.More {
		o.Tail = o.Tail[:min(len(o.Tail), slidinglog.PageSize)]
	}
	return o, ok
}

// placed reads ids and records, in turn. What stands in a log and is no record comes as a text with a tag that is
// never drawn, and a colon after it, which is no version of a record.
func placed(value any) (records []slidinglog.Placed, ok bool) {
	values, ok := value.([]any)
	if !ok || len(values)%2 > 0 {
		return nil, false
	}
	records = make([]slidinglog.Placed, len(values)/2)
	for i := range records {
		id, _ := values[2*i].(string)
		body, isText := values[2*i+1].(string)
		at, err := quota.ParseID(id)
		if err != nil || !isText {
			return nil, false
		}
		records[i] = slidinglog.Placed{At: at, Body: []byte(body)}
	}
	return records, true
}
