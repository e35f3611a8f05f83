package redisledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

// recordField is the one field of each entry of a log. What else stands under the key, such
// as what a version before wrote, has others.
const recordField = "r"

// Append implements slidinglog.Store. All calls go in one pipeline, to each node of a Cluster
// in one of its own at the same time.
func (s *Store) Append(ctx context.Context, calls []slidinglog.Call) []slidinglog.Outcome {
	commands := s.send(ctx, calls, "evalsha", s.script.Hash())
	// A server that does not know the script, as after a restart, learns it by running it.
	var unknown []slidinglog.Call
	for i, command := range commands {
		if redis.HasErrorPrefix(command.Err(), "NOSCRIPT") {
			unknown = append(unknown, calls[i])
		}
	}
	again := s.send(ctx, unknown, "eval", s.source)
	outcomes := make([]slidinglog.Outcome, len(calls))
	for i, command := range commands {
		if redis.HasErrorPrefix(command.Err(), "NOSCRIPT") {
			command, again = again[0], again[1:]
		}
		outcomes[i] = outcome(command)
	}
	return outcomes
}

// send sends a command for each call, and waits for the answers.
func (s *Store) send(ctx context.Context, calls []slidinglog.Call, verb, script string) []*redis.Cmd {
	if len(calls) == 0 {
		return nil
	}
	commands := make([]*redis.Cmd, len(calls))
	pipe := s.client.Pipeline()
	for i, call := range calls {
		commands[i] = redis.NewCmd(ctx, s.arguments(verb, script, call)...)
		pipe.Process(ctx, once{commands[i]})
	}
	if err := ctx.Err(); err != nil {
		for _, command := range commands {
			command.SetErr(notSent{err})
		}
		return commands
	}
	_, err := pipe.Exec(ctx)
	for _, command := range commands { // each has its own error, but where no connection was made
		if err != nil && command.Err() == nil && command.Val() == nil {
			command.SetErr(err)
		}
	}
	return commands
}

// arguments are those of append.lua.
func (s *Store) arguments(verb, script string, call slidinglog.Call) []any {
	at := call.At.ID.String()
	if !call.At.IsZero() {
		at += string(call.At.Tag[:])
	}
	args := append(make([]any, 0, 11), verb, script, 1, s.key(call.Credential),
		at, call.NotBefore, call.NotAfter, call.Keep.Milliseconds(), call.Body)
	how := ""
	switch {
	case call.Wipe:
		how = "wipe"
	case call.Blind:
		how = "blind"
	}
	if how != "" || call.Floor > 0 {
		args = append(args, how, call.Floor)
	}
	return args
}

// A notSent is why a command was not sent.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

// failed returns the outcome of a command without a reply. A server that answers with an
// error has changed nothing: the script's first write fails, if any does.
func failed(err error) slidinglog.Outcome {
	var unsent notSent
	if errors.As(err, &unsent) || !mayHaveRun(err) {
		return slidinglog.Outcome{Status: slidinglog.Failed, Err: failure(false, err)}
	}
	return slidinglog.Outcome{Status: slidinglog.Unknown, Err: failure(true, err)}
}

var statuses = map[string]slidinglog.Status{
	"end": slidinglog.End, "behind": slidinglog.Behind, "lost": slidinglog.Lost,
	"early": slidinglog.Early, "late": slidinglog.Late,
}

// outcome reads what append.lua answers.
func outcome(command *redis.Cmd) slidinglog.Outcome {
	value, err := command.Result()
	if err != nil {
		return failed(err)
	}
	o, ok := parseOutcome(value)
	if !ok {
		return slidinglog.Outcome{Err: fmt.Errorf("%w: %w", quota.ErrOutcomeUnknown, errReply)}
	}
	return o
}

func parseOutcome(value any) (o slidinglog.Outcome, ok bool) {
	if text, isText := value.(string); isText {
		at, err := quota.ParseID(text)
		return slidinglog.Outcome{Status: slidinglog.Done, Clock: at.Ms, At: at}, err == nil
	}
	values, _ := value.([]any)
	if len(values) < 2 {
		return o, false
	}
	word, _ := values[0].(string)
	if o.Status, ok = statuses[word]; !ok {
		return o, false
	}
	if o.Clock, ok = values[1].(int64); !ok || o.Status != slidinglog.Behind {
		return o, ok
	}
	if len(values) < 3 {
		return o, false
	}
	o.Tail, ok = placed(values[2])
	if o.More = len(o.Tail) > slidinglog.PageSize; o.More {
		o.Tail = o.Tail[:slidinglog.PageSize]
	}
	return o, ok
}

// placed reads entries as XRANGE returns them.
func placed(value any) (records []slidinglog.Placed, ok bool) {
	entries, ok := value.([]any)
	for _, value := range entries {
		entry, _ := value.([]any)
		if len(entry) != 2 {
			return nil, false
		}
		id, _ := entry[0].(string)
		at, err := quota.ParseID(id)
		if err != nil {
			return nil, false
		}
		records = append(records, slidinglog.Placed{At: at, Body: body(entry[1])})
	}
	return records, ok
}

// notRecord is the tag of what stands in a log and is no record.
const notRecord = "not a record"

// body returns the record of an entry. An entry with other fields is returned as text behind
// a tag that is never drawn, followed by a colon, which is no version of a record.
func body(fields any) []byte {
	values, _ := fields.([]any)
	if len(values) == 2 && values[0] == recordField {
		text, _ := values[1].(string)
		return []byte(text)
	}
	return fmt.Appendf(nil, "%s: %q", notRecord, values)
}
