package redisledger

import (
	"context"
	"crypto/rand"
	"sync"

	"github.com/redis/go-redis/v9"
)

// A node is a server, or one of a Cluster: a pool of connections. It declares which server they lead to, for each log:
// before the log is first used there, also of a slot that has arrived, and on each connection that is made later.
type node struct {
	store    *Store
	client   *redis.Client
	declared sync.Map // of each credential whose log was used here: whether the connections that there are declared it
}

// node returns the client of a server.
func (s *Store) node(options *redis.Options) *redis.Client {
	n := &node{store: s}
	options.OnConnect = n.onConnect
	return n.begin(redis.NewClient(options))
}

func (n *node) begin(client *redis.Client) *redis.Client {
	n.client = client
	client.AddHook(n)
	return client
}

// DialHook implements redis.Hook.
func (n *node) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (n *node) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := n.declareFirst(ctx, cmd); err != nil {
			return err
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook. A Cluster's calls come here: a log whose slot is elsewhere by now is
// declared again when it comes back.
func (n *node) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if err := n.declareFirst(ctx, cmd); err != nil {
				for _, cmd := range cmds { // of another node's answer nothing may be left
					cmd.SetErr(err)
				}
				return err
			}
		}
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if call, isCall := cmd.(once); isCall && isAbout(call.Err(), "MOVED") {
				n.declared.Delete(call.log)
			}
		}
		return err
	}
}

// declareFirst declares the log that a call is about, if that was not done here.
func (n *node) declareFirst(ctx context.Context, cmd redis.Cmder) error {
	call, _ := cmd.(once)
	if call.log == "" {
		return nil
	}
	if done, _ := n.declared.LoadOrStore(call.log, false); done.(bool) {
		return nil
	}
	here, err := n.declare(ctx, n.client, call.log)
	if here {
		n.declared.Store(call.log, true)
	}
	return err
}

// onConnect declares which server a new connection leads to, before anything else is asked on it.
func (n *node) onConnect(ctx context.Context, conn *redis.Conn) (err error) {
	n.declared.Range(func(name, _ any) bool {
		here, failed := n.declare(ctx, conn, name.(string))
		if err = failed; !here && err == nil {
			n.declared.Delete(name) // it may come back without a call that met MOVED
		}
		return err == nil
	})
	return err
}

// declare runs declare.lua, and reports whether the log is here: a node of a Cluster that has not its slot has nothing
// to say of it, and a Sentinel has no logs.
func (n *node) declare(ctx context.Context, on redis.Scripter, credential string) (here bool, err error) {
	err = n.store.declare.Run(ctx, on, n.store.keys(credential), rand.Text()).Err()
	isSentinel := n.store.config.MasterName != "" && isAbout(err, "unknown command")
	if isSentinel || isAbout(err, "MOVED") || isAbout(err, "ASK") {
		return false, nil
	}
	if err != nil {
		err = notSent{err} // what was to follow
	}
	return err == nil, err
}
