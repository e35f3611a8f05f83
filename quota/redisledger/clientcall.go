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
	key  string
	asks []int // which of those that were asked together
	over bool

	isRead    bool // what follows is what was read, and what was decided upon it
	record    []byte
	clockMs   int64
	decisions []quota.Decision
	after     []byte
	endsMs    int64

	node  redis.UniversalClient
	args  []any
	reply *redis.Cmd
	err   error
}

// turnsOf puts together what is asked for each subject, in its order.
func (s *Store) turnsOf(c *clientlimit.Clients, asks []clientlimit.Ask) []*clientTurn {
	var turns []*clientTurn
	of := make(map[clientlimit.Key]*clientTurn, len(asks))
	for i, ask := range asks {
		t := of[ask.Subject]
		if t == nil {
			t = &clientTurn{key: s.clientKey(c, ask.Subject)}
			of[ask.Subject], turns = t, append(turns, t)
		}
		t.asks = append(t.asks, i)
	}
	return turns
}

// decide decides upon the record as it was read.
func (t *clientTurn) decide(c *clientlimit.Clients, asks []clientlimit.Ask) {
	t.decisions, t.after = t.decisions[:0], nil
	record := t.record
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

// callClients reads the records of the turns that are not over, or replaces those that were
// read, all at once.
func (s *Store) callClients(ctx context.Context, turns []*clientTurn) {
	for _, t := range turns {
		read, after, ends, until := "", []byte(nil), int64(0), int64(0)
		if t.isRead {
			hash := sha1.Sum(t.record)
			read, after, ends, until = hex.EncodeToString(hash[:]), t.after, t.endsMs, t.clockMs+s.clients.patience.Milliseconds()
		}
		t.args = []any{"evalsha", s.clients.swap.Hash(), 1, t.key, read, after, ends, until}
		t.node, t.err = s.clientNode(ctx, t.key)
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
				t.err = failure(t.isRead && mayHaveRun(err), err) // a read has changed nothing
			}
		}
	}
}

// take takes in what the script has answered.
func (t *clientTurn) take() (err error) {
	text, err := t.reply.Text()
	at := strings.IndexAny(text, "+-")
	if err != nil || at < 0 {
		return errClientReply
	}
	if t.over = text[at] == '+'; t.over {
		return nil
	}
	t.isRead, t.record = true, []byte(text[at+1:])
	if t.clockMs, err = strconv.ParseInt(text[:at], 10, 64); err != nil {
		return errClientReply
	}
	return nil
}

var errClientReply = fmt.Errorf("%w: %w", quota.ErrOutcomeUnknown, errReply)
