package redisledger

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
	"quotad/quota/clientlimit"
)

// A clientCall is the call of a script for one ask.
type clientCall struct {
	node  redis.UniversalClient
	args  []any
	reply *redis.Cmd
	err   error
}

// once is a command that go-redis does not repeat either if a connection to a node of a
// Cluster breaks.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

func (s *Store) callClients(ctx context.Context, c *clientlimit.Clients, asks []clientlimit.Ask) []*clientCall {
	script := s.clients.scripts[c.Algorithm]
	calls := make([]*clientCall, len(asks))
	for i, ask := range asks {
		key := s.clientKey(c, ask.Subject)
		calls[i] = &clientCall{args: append([]any{"evalsha", script.hash, 1, key, int64(ask.Units)}, clientArgs(c)...)}
		calls[i].node, calls[i].err = s.clientNode(ctx, key)
	}
	s.sendClients(ctx, calls)
	var unloaded []*clientCall
	for _, call := range calls {
		if redis.HasErrorPrefix(call.err, "NOSCRIPT") {
			call.args[0], call.args[1], call.err = "eval", script.text, nil
			unloaded = append(unloaded, call)
		}
	}
	s.sendClients(ctx, unloaded)
	return calls
}

// clientArgs says of each limit its window, and how much may be used in it.
func clientArgs(c *clientlimit.Clients) []any {
	args := make([]any, 0, 2*len(c.Limits))
	for _, limit := range c.Limits {
		budget := limit.Units
		if limit.Observe {
			budget = quota.MaxUnits
		}
		args = append(args, int64(limit.Window.Length.Seconds()), int64(budget))
	}
	return args
}

// send sends the calls that have not failed.
func (s *Store) sendClients(ctx context.Context, calls []*clientCall) {
	pipe := s.client.Pipeline()
	for _, call := range calls {
		if call.err == nil {
			call.reply = redis.NewCmd(ctx, call.args...)
			pipe.Process(ctx, once{call.reply})
		}
	}
	if pipe.Len() == 0 {
		return
	}
	pipe.Exec(ctx) // its error is that of a call
	for _, call := range calls {
		if call.err == nil {
			if err := call.reply.Err(); err != nil {
				s.noteNode(call.node, err)
				call.err = failure(mayHaveRun(err), err)
			}
		}
	}
}

// A clientResult is what a script answers.
type clientResult struct {
	clockMs int64
	granted bool
	record  []byte              // as it was; of the counter
	counts  []clientlimit.Count // of the log
}

func (call *clientCall) result(c *clientlimit.Clients) (r clientResult, err error) {
	if call.err != nil {
		return r, call.err
	}
	text, err := call.reply.Text()
	at := strings.IndexAny(text, "+-")
	if err != nil || at < 0 {
		return r, errClientReply
	}
	if r.clockMs, err = strconv.ParseInt(text[:at], 10, 64); err != nil {
		return r, errClientReply
	}
	r.granted, text = text[at] == '+', text[at+1:]
	if c.Algorithm == clientlimit.Counter {
		r.record = []byte(text)
		return r, nil
	}
	for ; len(text) >= 32; text = text[32:] {
		r.counts = append(r.counts, clientlimit.Count{
			Used:   quota.Units(unpacked(text)),
			NextMs: unpacked(text[8:]), NextUnits: quota.Units(unpacked(text[16:])),
			FitsMs: unpacked(text[24:]),
		})
	}
	if len(r.counts) != len(c.Limits) || text != "" {
		return r, errClientReply
	}
	return r, nil
}

// decision returns what the script decided.
func (call *clientCall) decision(c *clientlimit.Clients, units quota.Units) (d quota.Decision, err error) {
	r, err := call.result(c)
	if err != nil {
		return d, err
	}
	if c.Algorithm == clientlimit.Counter {
		_, _, d = c.Decide(r.record, r.clockMs, units)
	} else {
		d = c.Decision(units, r.clockMs, r.counts)
	}
	if d.Granted() != r.granted {
		return quota.Decision{}, errClientReply
	}
	return d, nil
}

var errClientReply = fmt.Errorf("%w: %w", quota.ErrOutcomeUnknown, errReply)
