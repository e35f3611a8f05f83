package redisledger

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
	"quotad/quota/clientlimit"
)

var _ clientlimit.Ledger = (*Store)(nil)

// clients is what the ledger needs for the subjects of client limits. Their records are
// a key each, so that in a Cluster they are spread over its nodes.
type clients struct {
	swap   *redis.Script // client_swap.lua; not called by it, or go-redis would repeat it in a pipeline
	source string        // of swap
	// patience is how long after it was read a record may be replaced: what is granted counts
	// from when it was read.
	patience time.Duration
	away     sync.Map // by node, a redis.UniversalClient: why it is not called, an error
}

// DecideClients implements clientlimit.Ledger: it reads the records, decides, and replaces each
// that no other caller has replaced meanwhile; the others it decides again. All records of a batch
// are read in one pipeline and replaced in one; in a Cluster, one for each node. A replacement that
// was not answered is not repeated: nothing would show whether the first one was carried out. A node
// that did not answer is not called until it does, and asks for its subjects fail at once. The
// record of a subject's former key is read, and sealed, before the subject has one.
func (s *Store) DecideClients(ctx context.Context, c *clientlimit.Clients, asks []clientlimit.Ask) ([]quota.Decision, error) {
	turns := s.turnsOf(c, asks)
	for open := turns; len(open) > 0; {
		if err := ctx.Err(); err != nil {
			for _, t := range open {
				t.err = fmt.Errorf("%w: %w", quota.ErrContended, err)
			}
			break
		}
		s.callClients(ctx, open)
		var again []*clientTurn
		for _, t := range open {
			if t.undecided {
				t.decide(c, asks)
			}
			if !t.over {
				again = append(again, t)
			}
		}
		open = again
	}
	decisions, decided := make([]quota.Decision, len(asks)), len(asks) == 0
	for _, t := range turns {
		for n, i := range t.asks {
			if t.err != nil {
				decisions[i] = quota.Decision{Err: t.err}
			} else {
				decisions[i], decided = t.decisions[n], true
			}
		}
	}
	if !decided {
		return nil, worst(decisions)
	}
	return decisions, nil
}

// worst is the error of asks none of which was decided: unknown if that of one is.
func worst(decisions []quota.Decision) error {
	for _, d := range decisions {
		if errors.Is(d.Err, quota.ErrOutcomeUnknown) {
			return d.Err
		}
	}
	return decisions[0].Err
}

// ClientUsage implements clientlimit.Ledger.
func (s *Store) ClientUsage(ctx context.Context, c *clientlimit.Clients, of clientlimit.Ask) (quota.Usage, error) {
	t := s.turnsOf(c, []clientlimit.Ask{of})[0]
	for !t.over && !t.undecided {
		s.callClients(ctx, []*clientTurn{t})
	}
	if t.err != nil {
		return quota.Usage{}, unavailable(t.err)
	}
	return c.Usage(t.record(), t.clockMs), nil
}

// ResetClient implements clientlimit.Ledger.
func (s *Store) ResetClient(ctx context.Context, c *clientlimit.Clients, of clientlimit.Ask) error {
	return repeat(ctx, func() error {
		if of.Former != "" {
			if err := s.client.Set(ctx, s.clientKey(c, of.Former), clientlimit.Seal(nil), resetSeal).Err(); err != nil {
				return err
			}
		}
		return s.client.Del(ctx, s.clientKey(c, of.Subject)).Err()
	})
}

// resetSeal is how long no host can write a record of a former key whose subject was reset.
const resetSeal = 5 * time.Minute

// ReadHead implements clientlimit.Ledger.
func (s *Store) ReadHead(ctx context.Context) (head []byte, clockMs int64, err error) {
	t := &clientTurn{key: s.headKey()}
	if s.callClients(ctx, []*clientTurn{t}); t.err != nil {
		return nil, 0, unavailable(t.err)
	}
	return t.own, t.clockMs, nil
}

// SwapHead implements clientlimit.Ledger.
func (s *Store) SwapHead(ctx context.Context, read []byte, readMs int64, next []byte, endsMs int64) (swapped bool, err error) {
	t := &clientTurn{key: s.headKey(), step: swapping, own: read, clockMs: readMs, after: next, endsMs: endsMs}
	if s.callClients(ctx, []*clientTurn{t}); t.err != nil {
		return false, t.err
	}
	return t.over, nil
}

func (s *Store) headKey() string { return s.prefix + "clients:hosts" }

// clientKey is short: with the counter, the key is most of what Redis keeps of a subject.
func (s *Store) clientKey(c *clientlimit.Clients, subject clientlimit.Key) string {
	hash := sha256.Sum256([]byte(clientVersion + c.Name + "\x00" + string(c.Algorithm) + "\x00" + string(subject)))
	return s.prefix + "c" + string(hash[:clientKeySize])
}

// pingTime is how long a node that did not answer is left alone, and how long a ping may take.
const pingTime = 250 * time.Millisecond

// clientVersion is the version of a record's form: each has keys of its own.
const clientVersion = "3"

// clientKeySize bytes distinguish 2^48 subjects.
const clientKeySize = 12

// clientNode returns the node that has a key, or why it is not called.
func (s *Store) clientNode(ctx context.Context, key string) (redis.UniversalClient, error) {
	if away, ok := s.clients.away.Load(s.client); ok {
		return nil, away.(error)
	}
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return s.client, nil
	}
	node, err := cluster.MasterForKey(ctx, key)
	if err != nil { // no node says where keys are
		s.recordNode(cluster, err)
		return nil, unavailable(err)
	}
	if away, ok := s.clients.away.Load(node); ok {
		return nil, away.(error)
	}
	return node, nil
}

// recordNode records the result of a call. A node that did not answer is not called until it answers
// a ping.
func (s *Store) recordNode(node redis.UniversalClient, err error) {
	var answered redis.Error
	if err == nil || errors.As(err, &answered) || errors.Is(err, context.Canceled) || s.ctx.Err() != nil {
		return
	}
	if _, known := s.clients.away.LoadOrStore(node, unavailable(err)); known {
		return
	}
	s.pingers.Go(func() {
		for wait(s.ctx, pingTime) {
			ctx, cancel := context.WithTimeout(s.ctx, pingTime)
			err := node.Ping(ctx).Err()
			cancel()
			if err == nil || errors.Is(err, redis.ErrClosed) {
				break
			}
		}
		s.clients.away.Delete(node)
	})
}
