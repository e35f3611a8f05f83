package redisledger

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
	"quotad/quota/clientlimit"
)

// swapTime is the patience of clients.
const swapTime = 100 * time.Millisecond

// A clientTurn is what is asked for one subject, and how far that has come.
type clientTurn struct {
	key, former string // former: empty if there is none
	rotation    clientlimit.Rotation
	asks        []int // which of those that were asked together
	step        clientStep
	over        bool

	clockMs   int64  // of the last reply that read something
	own       []byte // what key has
	inherited []byte // what former has, or had when it was sealed
	undecided bool   // since that was read

	decisions []quota.Decision // upon what was read
	after     []byte
	endsMs    int64

	node  redis.UniversalClient
	args  []any
	reply *redis.Cmd
	err   error
}

// A clientStep is what the next call of a turn does.
type clientStep int

const (
	reading clientStep = iota
	readingFormer
	sealing  // the record of former, so that nobody makes one of it any more
	swapping // the record of key
)

// turnsOf puts together what is asked for each subject, in its order.
func (s *Store) turnsOf(c *clientlimit.Clients, asks []clientlimit.Ask) []*clientTurn {
	var turns []*clientTurn
	of := make(map[clientlimit.Key]*clientTurn, len(asks))
	for i, ask := range asks {
		t := of[ask.Subject]
		if t == nil {
			t = &clientTurn{key: s.clientKey(c, ask.Subject), rotation: ask.Rotation}
			if ask.Former != "" {
				t.former = s.clientKey(c, ask.Former)
			}
			of[ask.Subject], turns = t, append(turns, t)
		}
		t.asks = append(t.asks, i)
	}
	return turns
}

// record is what a turn decides upon.
func (t *clientTurn) record() []byte {
	if len(t.own) > 0 {
		return t.own
	}
	return t.inherited
}

// decide decides upon the record as it was read.
func (t *clientTurn) decide(c *clientlimit.Clients, asks []clientlimit.Ask) {
	t.decisions, t.after, t.undecided = t.decisions[:0], nil, false
	record := t.record()
	for _, i := range t.asks {
		after, ends, d := c.Decide(record, t.clockMs, asks[i].Units)
		if after != nil {
			record, t.after, t.endsMs = after, after, ends
		}
		t.decisions = append(t.decisions, d)
	}
	t.over = t.after == nil
}

// once is a command that go-redis does not repeat either if a connection to a node of a
// Cluster breaks.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// callClients has the turns that are not over take their next steps, all at once.
func (s *Store) callClients(ctx context.Context, turns []*clientTurn) {
	for _, t := range turns {
		t.args = append([]any{"evalsha", s.clients.swap.Hash(), 1}, t.call(s.clients.patience)...)
		t.node, t.err = s.clientNode(ctx, t.args[3].(string))
	}
	s.sendClients(ctx, turns)
	var unloaded []*clientTurn
	for _, t := range turns {
		if redis.HasErrorPrefix(t.err, "NOSCRIPT") {
			t.args[0], t.args[1], t.err = "eval", s.clients.source, nil
			unloaded = append(unloaded, t)
		}
	}
	s.sendClients(ctx, unloaded)
	for _, t := range turns {
		if t.err == nil {
			t.err = t.take()
		}
		if t.err != nil {
			t.over = true
		}
	}
}

// sendClients sends the calls that have not failed.
func (s *Store) sendClients(ctx context.Context, turns []*clientTurn) {
	pipe := s.client.Pipeline()
	for _, t := range turns {
		if t.err == nil {
			t.reply = redis.NewCmd(ctx, t.args...)
			pipe.Process(ctx, once{t.reply})
		}
	}
	if pipe.Len() == 0 {
		return
	}
	pipe.Exec(ctx) // its error is that of a call
	for _, t := range turns {
		if t.err == nil {
			if err := t.reply.Err(); err != nil {
				s.noteNode(t.node, err)
				t.err = failure(t.step == swapping && mayHaveRun(err), err) // the others have debited nothing
			}
		}
	}
}

// call returns the key and the arguments of the script for the next step.
func (t *clientTurn) call(patience time.Duration) []any {
	replace := func(key string, read, next []byte, endsMs int64) []any {
		hash := sha1.Sum(read)
		return []any{key, hex.EncodeToString(hash[:]), next, endsMs, t.clockMs + patience.Milliseconds()}
	}
	switch t.step {
	case sealing:
		return replace(t.former, t.inherited, clientlimit.Seal(t.inherited), max(t.rotation.SealMs, t.endsMs))
	case swapping:
		return replace(t.key, t.own, t.after, t.endsMs)
	case readingFormer:
		return []any{t.former, "", "", 0, 0}
	}
	return []any{t.key, "", "", 0, 0}
}

// take records what the script has answered, and finds the next step.
func (t *clientTurn) take() (err error) {
	text, err := t.reply.Text()
	at := strings.IndexAny(text, "+-")
	if err != nil || at < 0 {
		return errClientReply
	}
	if text[at] == '+' {
		t.over = t.step == swapping
		t.step = swapping
		return nil
	}
	if t.clockMs, err = strconv.ParseInt(text[:at], 10, 64); err != nil {
		return errClientReply
	}
	return t.found([]byte(text[at+1:]))
}

// found records what the key of the step has.
func (t *clientTurn) found(text []byte) error {
	record, sealed := clientlimit.Unseal(text)
	ofFormer := t.step == readingFormer || t.step == sealing
	if t.rotation.UntilMs > 0 && t.clockMs > t.rotation.UntilMs || sealed && !ofFormer {
		return clientlimit.ErrMoved
	}
	t.undecided = true
	switch {
	case ofFormer && !sealed && t.clockMs < t.rotation.SealMs:
		t.inherited, t.step = record, sealing
	case ofFormer:
		t.inherited, t.step = record, swapping
	case t.step == reading && len(record) == 0 && t.former != "":
		t.undecided, t.step = false, readingFormer
	default:
		t.own, t.step = record, swapping
	}
	return nil
}

var errClientReply = fmt.Errorf("%w: %w", quota.ErrOutcomeUnknown, errReply)
