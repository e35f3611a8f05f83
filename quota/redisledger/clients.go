package redisledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/clientlimit"
)

var _ clientlimit.Store = (*Store)(nil)

// Clients are client limits that this process decides by itself, without a daemon, in a Redis that it shares with
// others: with other servers, and with daemons that have the same [clients.NAME]. They are a middleware.Limiter.
type Clients struct {
	store   *Store
	service *clientlimit.Service
	watch   sync.WaitGroup
}

// OpenClients returns limits that Redis decides. A Redis that is down delays nothing: calls are decided by each Clients'
// OpenOnOutage. An empty secret is the one in Redis.
func OpenClients(config Config, secret string, all ...*clientlimit.Clients) (*Clients, error) {
	store, err := OpenStore(config)
	if err != nil {
		return nil, err
	}
	c := &Clients{store: store, service: clientlimit.NewService(nil)}
	if err := c.service.SetClients(store, secret, all); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	c.watch.Go(func() { c.service.Watch(store.ctx) })
	return c, nil
}

// Close closes the connections.
func (c *Clients) Close() error {
	c.store.stop()
	c.watch.Wait()
	return c.store.Close()
}

// AcquireClient decides as a daemon does: a refusal that is no denial is an api.Problem.
func (c *Clients) AcquireClient(ctx context.Context, clients string, r api.ClientRequest) (api.Decision, error) {
	request := clientlimit.Request{Subject: r.Subject, Operation: r.Operation, Count: max(1, quota.Units(r.Count))}
	d, err := c.service.Acquire(ctx, clients, request)
	switch {
	case err != nil:
		return api.Decision{}, api.ProblemFrom(err)
	case d.Granted() || d.Denied() || d.Reason == quota.CostExceedsLimit:
		return api.DecisionOf(d, false), nil
	}
	return api.Decision{}, api.ProblemOf(d)
}

// Count implements clientlimit.Store. A call that was not answered is not repeated: nothing would show whether the
// first one was carried out.
func (s *Store) Count(ctx context.Context, c clientlimit.Call) (n clientlimit.Count, err error) {
	key, script := s.clientKey(c), s.scripts["client_log"]
	if c.Clients.Algorithm == clientlimit.Counter {
		script = s.scripts["client_counter"]
	}
	limits := c.Clients.Limits
	args := append(make([]any, 2, 5+2*len(limits)), 1, key, int64(c.Units))
	for _, l := range limits {
		most := l.Units
		if l.DryRun {
			most = 0
		}
		args = append(args, l.Window.Length.Milliseconds(), int64(most))
	}
	var values []int64
	err = s.onNode(ctx, key, c.Units > 0, func(ctx context.Context) error {
		values, err = s.run(ctx, script, "", args).Int64Slice()
		return err
	})
	if err != nil {
		return n, err
	}
	if len(values) != 2+4*len(limits) {
		return n, errReply
	}
	n = clientlimit.Count{NowMs: values[0], Granted: values[1] == 1, Limits: make([]clientlimit.Use, len(limits))}
	for i := range n.Limits {
		use := values[2+4*i:]
		n.Limits[i] = clientlimit.Use{
			Used: quota.Units(use[0]), NextMs: use[1], NextUnits: quota.Units(use[2]), FitsMs: use[3],
		}
	}
	return n, nil
}

// Forget implements clientlimit.Store.
func (s *Store) Forget(ctx context.Context, c clientlimit.Call) error {
	key := s.clientKey(c)
	return s.onNode(ctx, key, true, func(ctx context.Context) error {
		return s.ask(func(client redis.UniversalClient) error { return client.Del(ctx, key).Err() })
	})
}

// Secret implements clientlimit.Store.
func (s *Store) Secret(ctx context.Context, ours string) (secret string, err error) {
	key := s.config.KeyPrefix + "clients:secret"
	err = s.onNode(ctx, key, false, func(ctx context.Context) error {
		return s.ask(func(client redis.UniversalClient) error {
			err := client.SetArgs(ctx, key, ours, redis.SetArgs{Mode: "NX"}).Err() // by SET, as the counter
			if err == nil || errors.Is(err, redis.Nil) {
				secret, err = client.Get(ctx, key).Result()
			}
			return err
		})
	})
	if err == nil && len(secret) < clientlimit.LeastSecret {
		err = fmt.Errorf("%w: the secret at %s in redis is shorter than %d bytes: delete it there", quota.ErrUnusable, key, clientlimit.LeastSecret)
	}
	return secret, err
}

func (s *Store) clientKey(c clientlimit.Call) string {
	return s.config.KeyPrefix + "c:" + c.Key.String()
}

// onNode calls the node that has a key, within the deadline, unless it is away.
func (s *Store) onNode(ctx context.Context, key string, writes bool, call func(context.Context) error) error {
	node, err := s.clientNode(ctx, key)
	if err != nil {
		return err
	}
	inTime, cancel := context.WithTimeout(ctx, s.config.Deadline)
	defer cancel()
	if err = call(inTime); err == nil {
		return nil
	}
	if ctx.Err() == nil {
		s.recordNode(node, err)
	}
	return s.failure(writes, err)
}

// clientNode returns the node that has a key, or why it is not called.
func (s *Store) clientNode(ctx context.Context, key string) (redis.UniversalClient, error) {
	client := s.current()
	if err := s.unreachable(client); err != nil {
		return nil, err
	}
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return client, nil
	}
	node, err := cluster.MasterForKey(ctx, key)
	if err != nil { // no node says where keys are
		s.recordNode(cluster, err)
		return nil, s.failure(false, err)
	}
	return node, s.unreachable(node)
}

// unreachable returns why a node cannot be reached; nil if it can.
func (s *Store) unreachable(node redis.UniversalClient) error {
	why, _ := s.doubted.Load(node)
	err, _ := why.(error)
	return err
}

// pingTime is how long a node that is away is left alone.
const pingTime = 250 * time.Millisecond

// recordNode records why a call failed. A node that cannot be reached, or leaves a ping unanswered for a
// deadline, too, is away: it is not called until it answers one. One call that was late says nothing: the
// node may be far away, and the call may have waited for others or for a connection.
func (s *Store) recordNode(node redis.UniversalClient, err error) {
	if isAnswer(err) || errors.As(err, new(notSent)) || errors.Is(err, context.Canceled) || s.ctx.Err() != nil {
		return
	}
	late, why := isLate(err), s.failure(false, err)
	var away error
	if !late {
		away = why
	}
	if _, asked := s.doubted.LoadOrStore(node, away); asked {
		return
	}
	s.background.Go(func() {
		defer s.doubted.Delete(node)
		if late && s.answers(node, s.config.Deadline) {
			return
		}
		s.doubted.Store(node, why)
		for quota.Sleep(s.ctx, pingTime) && !s.answers(node, connectTime) { // with the handshake of a connection
		}
	})
}

// answers reports whether a node answers a ping in time, or is closed.
func (s *Store) answers(node redis.UniversalClient, timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	err := node.Ping(ctx).Err()
	return err == nil || errors.Is(err, redis.ErrClosed)
}

// isLate reports whether there was no answer in time.
func isLate(err error) bool {
	var late interface{ Timeout() bool } // a connection's error, or a context's
	return errors.As(err, &late) && late.Timeout()
}
