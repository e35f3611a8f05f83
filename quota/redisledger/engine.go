package redisledger

import (
	"context"
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
	call, log := make([]any, 2, 5+len(args)), credential
	if which == slidinglog.Hosts {
		call, log = append(call, 1, s.config.KeyPrefix+"{"+credential+"}"), ""
	} else {
		keys := s.keys(credential)
		call = append(call, 2, keys[0], keys[1])
	}
	value, err := s.run(ctx, s.scripts[which], log, append(call, args...)).Result()
	if err != nil {
		return nil, s.failure(true, err)
	}
	if values, ok := value.([]any); ok {
		return values, nil
	}
	return nil, errReply
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
