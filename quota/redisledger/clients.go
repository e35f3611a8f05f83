package redisledger

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/lua"
	"quotad/quota"
	"quotad/quota/clientlimit"
)

var _ clientlimit.Ledger = (*Store)(nil)

// clients is what the ledger needs for the subjects of client limits. Their records are
// a key each, so that in a Cluster they are spread over its nodes.
type clients struct {
	scripts map[clientlimit.Algorithm]clientScript
	away    sync.Map // by node, a redis.UniversalClient: why it is asked nothing, an error
}

// A clientScript is called without a redis.Script: go-redis would have a pipeline repeat it.
type clientScript struct{ text, hash string }

func newClientScripts(sources lua.Scripts) map[clientlimit.Algorithm]clientScript {
	script := func(text string) clientScript { return clientScript{text: text, hash: redis.NewScript(text).Hash()} }
	return map[clientlimit.Algorithm]clientScript{clientlimit.Counter: script(sources.ClientCounter), clientlimit.Log: script(sources.ClientLog)}
}

// DecideClients implements clientlimit.Ledger. Each ask is one call of a script, and all
// are sent at once; in a Cluster, to each node its own. No call is repeated: nothing would
// tell whether the first one was carried out. A node that did not answer is asked nothing
// until it does, and its subjects' asks fail at once.
func (s *Store) DecideClients(ctx context.Context, c *clientlimit.Clients, asks []clientlimit.Ask) ([]quota.Decision, error) {
	decisions, decided := make([]quota.Decision, len(asks)), len(asks) == 0
	for i, call := range s.callClients(ctx, c, asks) {
		d, err := call.decision(c, asks[i].Units)
		d.Err = err
		decisions[i], decided = d, decided || err == nil
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
func (s *Store) ClientUsage(ctx context.Context, c *clientlimit.Clients, subject clientlimit.Key) (quota.Usage, error) {
	r, err := s.callClients(ctx, c, []clientlimit.Ask{{Subject: subject}})[0].result(c)
	if err != nil {
		return quota.Usage{}, unavailable(err)
	}
	if c.Algorithm == clientlimit.Counter {
		r.counts = c.Counts(r.record, r.clockMs)
	}
	return c.Usage(r.clockMs, r.counts), nil
}

// ResetClient implements clientlimit.Ledger.
func (s *Store) ResetClient(ctx context.Context, c *clientlimit.Clients, subject clientlimit.Key) error {
	return repeat(ctx, func() error { return s.client.Del(ctx, s.clientKey(c, subject)).Err() })
}

// ClientSecret implements clientlimit.Ledger.
func (s *Store) ClientSecret(ctx context.Context) (secret []byte, err error) {
	key, drawn := s.prefix+"clients:secret", make([]byte, clientlimit.SecretSize)
	rand.Read(drawn)
	err = repeat(ctx, func() error {
		err := s.client.SetArgs(ctx, key, drawn, redis.SetArgs{Mode: "NX"}).Err()
		if err == nil || errors.Is(err, redis.Nil) { // there is one
			secret, err = s.client.Get(ctx, key).Bytes()
		}
		return err
	})
	if err != nil {
		return nil, unavailable(err)
	}
	if len(secret) != clientlimit.SecretSize {
		return nil, fmt.Errorf("%w: the key %s has no secret of %d bytes", quota.ErrUnavailable, key, clientlimit.SecretSize)
	}
	return secret, nil
}

// clientKey is short: with the counter, the key is most of what Redis keeps of a subject.
func (s *Store) clientKey(c *clientlimit.Clients, subject clientlimit.Key) string {
	hash := sha256.Sum256([]byte(c.Name + "\x00" + string(c.Algorithm) + "\x00" + string(subject)))
	return s.prefix + "c" + string(hash[:clientKeySize])
}

// pingTime is how long a node that did not answer is left alone, and how long a ping may take.
const pingTime = 250 * time.Millisecond

// clientKeySize bytes tell 2^48 subjects apart.
const clientKeySize = 12

// clientNode returns the node that has a key, or why it is asked nothing.
func (s *Store) clientNode(ctx context.Context, key string) (redis.UniversalClient, error) {
	if away, ok := s.clients.away.Load(s.client); ok {
		return nil, away.(error)
	}
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return s.client, nil
	}
	node, err := cluster.MasterForKey(ctx, key)
	if err != nil { // no node tells where keys are
		s.noteNode(cluster, err)
		return nil, unavailable(err)
	}
	if away, ok := s.clients.away.Load(node); ok {
		return nil, away.(error)
	}
	return node, nil
}

// noteNode takes in how a call ended. After one that was not answered the node is asked
// nothing until it answers a ping.
func (s *Store) noteNode(node redis.UniversalClient, err error) {
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
