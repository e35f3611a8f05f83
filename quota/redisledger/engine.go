package redisledger

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/redis/go-redis/v9"

	"quotad/quota/slidinglog"
)

// keys are those of a credential's log. Their hash tag is the credential's name.
func (s *Store) keys(credential string) []string {
	tag := s.config.KeyPrefix + "{" + credential + "}"
	return []string{tag + ":entries", tag + ":state"}
}

// Shared implements slidinglog.Engine.
func (s *Store) Shared() bool { return true }

// Run implements slidinglog.Engine.
func (s *Store) Run(ctx context.Context, credential string, which slidinglog.Script, args []any) ([]any, error) {
	call := make([]any, 2, 5+len(args))
	if which == slidinglog.Hosts {
		call = append(call, 1, s.config.KeyPrefix+"{"+credential+"}")
	} else {
		if _, known := s.names.LoadOrStore(credential, true); !known { // the connections that there are have not declared it
			client := s.current()
			if err := s.declareLog(ctx, client, credential); err != nil {
				s.names.Delete(credential)
				s.elsewhere(client, err)
				return nil, s.failure(false, err)
			}
		}
		keys := s.keys(credential)
		call = append(call, 2, keys[0], keys[1])
	}
	value, err := s.run(ctx, s.scripts[which], [][]any{append(call, args...)})[0].Result()
	if err != nil {
		return nil, s.failure(true, err)
	}
	if values, ok := value.([]any); ok {
		return values, nil
	}
	return nil, errReply
}

// onConnect declares which server a new connection leads to, before anything else is asked on it.
func (s *Store) onConnect(ctx context.Context, conn *redis.Conn) (err error) {
	s.names.Range(func(name, _ any) bool {
		err = s.declareLog(ctx, conn, name.(string))
		return err == nil
	})
	return err
}

// declareLog runs declare.lua. In a Cluster each node is asked about its own logs; a Sentinel has none.
func (s *Store) declareLog(ctx context.Context, on redis.Scripter, credential string) error {
	err := s.declare.Run(ctx, on, s.keys(credential), rand.Text()).Err()
	isSentinel := s.config.MasterName != "" && isAbout(err, "unknown command")
	if isSentinel || isAbout(err, "MOVED") || isAbout(err, "ASK") || errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

// Older returns the key of a credential's log if an older version wrote it, else "".
func (s *Store) Older(ctx context.Context, credential string) (string, error) {
	key := s.config.KeyPrefix + "{" + credential + "}:log"
	err := s.ask(func(client redis.UniversalClient) error { return client.Get(ctx, key).Err() })
	switch {
	case errors.Is(err, redis.Nil):
		return "", nil
	case err == nil || isAbout(err, "WRONGTYPE"): // a stream, as those are
		return key, nil
	}
	return "", s.failure(false, err)
}
