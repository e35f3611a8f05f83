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

// leftAlone is for how long a node that did not answer is not called. Then one call tries.
const leftAlone = 250 * time.Millisecond

// A pause of a node has calls fail at once until a time: the last one was not answered.
type pause struct {
	until time.Time
	why   error
}

// onNode calls the node that has a key, within the deadline.
func (s *Store) onNode(ctx context.Context, key string, writes bool, call func(context.Context) error) error {
	inTime, cancel := context.WithTimeout(ctx, s.config.Deadline)
	defer cancel()
	addr := "" // of the one server, or where no node of a Cluster says which ones there are
	if cluster, ok := s.current().(*redis.ClusterClient); ok {
		err := s.unlessPaused(ctx, addr, false, func() error {
			node, err := cluster.MasterForKey(inTime, key)
			if err == nil {
				addr = node.Options().Addr
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return s.unlessPaused(ctx, addr, writes, func() error { return call(inTime) })
}

// unlessPaused does something with a node, and pauses the node if it does not answer.
func (s *Store) unlessPaused(ctx context.Context, addr string, writes bool, do func() error) error {
	paused, _ := s.pauses.Load(addr)
	p, is := paused.(*pause)
	if is {
		next := &pause{time.Now().Add(s.config.Deadline), p.why}
		if time.Now().Before(p.until) || !s.pauses.CompareAndSwap(addr, p, next) {
			return p.why
		}
	}
	err := do()
	switch {
	case err == nil:
		s.pauses.Delete(addr)
		return nil
	case ctx.Err() == nil && !isAnswer(err) && !errors.As(err, new(notSent)):
		until := time.Now() // one call that was late says nothing: the next one tries
		if is {
			until = until.Add(leftAlone)
		}
		s.pauses.Store(addr, &pause{until, s.failure(false, err)})
	}
	return s.failure(writes, err)
}
