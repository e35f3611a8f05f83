package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/quota/redisledger"
)

// checkTime bounds the check of Redis, and with it the deadline that it can find to be needed.
const checkTime = 10 * time.Second

// checkRedis warns of what the Redis of a configuration lacks. If it is strict, quotad also writes there, and
// what is lacking is an error.
func checkRedis(c *config.Config, strict bool, stderr io.Writer) error {
	if c.Ledger.Backend != config.OnRedis {
		return nil
	}
	redis := c.Ledger.Redis.Config
	store, err := redisledger.OpenStore(redis)
	if err != nil {
		return err
	}
	defer store.Close()
	ctx, cancel := context.WithTimeout(context.Background(), checkTime)
	defer cancel()
	if err := checkOlderLogs(ctx, store, c); err != nil {
		return err
	}
	lacks, err := store.Check(ctx, strict)
	if err != nil {
		lacks = []string{err.Error()}
	}
	for _, one := range lacks {
		fmt.Fprintf(stderr, "quotad: warning: redis %s: %s\n", redis.Addrs[0], one)
	}
	if strict && len(lacks) > 0 {
		return fmt.Errorf("the Redis that [ledger.redis] names lacks what quotad needs")
	}
	return nil
}
