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

// A clientTurn is what is asked for one subject, and the state of its calls.
type clientTurn struct {
	key      string
	clients  *clientlimit.Clients
	rotation clientlimit.Rotation
	asks     []int // which of those that were asked together
	step     clientStep
	over     bool

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
	sealing  // the record of former, so that no host writes one under that key any more
	swapping // the record of key
)

// turnsOf groups asks by subject, in their order.
func (s *Store) turnsOf(c *clientlimit.Clients, asks []clientlimit.Ask) []*clientTurn {
	var turns []*clientTurn
	of := make(map[clientlimit.Key]*clientTurn, len(asks))
	for i, ask := range asks {
		t := of[ask.Subject]
		if t == nil {
			t = &clientTurn{key: s.clientKey(c, ask.Subject), clients: c, rotation: ask.Rotation}
			of[ask.Subject], turns = t, append(turns, t)
		}
		t.asks = append(t.asks, i)
	}
	return turns
}

// record is the one to decide by.
func (t *clientTurn) record() []byte {
	if len(t.own) > 0 {
		return t.own
	}
	return t.inherited
}

// decide decides by the record as it was read.
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

// callClients sends the next call of each turn that is not over, all at once.
func (s *Store) callClients(ctx context.Context, turns []*clientTurn) {
	for _, t := range turns {
		key := t.key
		if t.step == readingFormer || t.step == sealing {
			key = s.clientKey(t.clients, t.rotation.Former)
		}
		t.args = append(make([]any, 0, 8), "evalsha", s.clients.swap.Hash(), 1, key)
		switch t.step {
		case sealing:
			t.replace(t.inherited, clientlimit.Seal(t.inherited), max(t.rotation.SealMs, t.endsMs), s.clients.patience)
		case swapping:
			t.replace(t.own, t.after, t.endsMs, s.clients.patience)
		default:
			t.args = append(t.args, "", "", 0, 0)
		}
		t.node, t.err = s.clientNode(ctx, key)
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
			t.err = t.readReply()
		}
		if t.err != nil {
			t.over = true
		}
	}
}

// replace has the script replace a record that was read.
func (t *clientTurn) replace(read, next []byte, endsMs int64, patience time.Duration) {
	hash := sha1.Sum(read)
	t.args = append(t.args, hex.EncodeToString(hash[:]), next, endsMs, t.clockMs+patience.Milliseconds())
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
				s.recordNode(t.node, err)
				t.err = failure(t.step == swapping && mayHaveRun(err), err) // the others have debited nothing
			}
		}
	}
}

// readReply reads what the script has answered, and sets the next step.
func (t *clientTurn) readReply() (err error) {
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
	case t.step == reading && len(record) == 0 && t.rotation.Former != "":
		t.undecided, t.step = false, readingFormer
	default:
		t.own, t.step = record, swapping
	}
	return nil
}

var errClientReply = fmt.Errorf("%w: %w", quota.ErrOutcomeUnknown, errReply)
