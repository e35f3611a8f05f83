package redisledger

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"quotad/lua"
	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/slidinglog"
)

// infoTime is for how long what the server said of itself counts.
const infoTime = time.Minute

// Health implements slidinglog.Engine.
func (s *Store) Health(ctx context.Context) (warnings []string, err error) {
	if err := s.current().Ping(ctx).Err(); err != nil {
		return nil, s.failure(false, err)
	}
	s.mu.Lock()
	due := time.Since(s.asked) >= infoTime
	if due {
		s.asked = time.Now() // others do not ask meanwhile
	}
	warnings = s.lacks
	s.mu.Unlock()
	if !due {
		return warnings, nil
	}
	info, err := s.info(ctx)
	if err != nil {
		return warnings, nil // as it was when it last said so
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lacks = info.lacks()
	return s.lacks, nil
}

// Info is what a server says of itself, by name.
type info map[string]string

func (s *Store) info(ctx context.Context) (info, error) {
	text, err := s.current().Info(ctx).Result()
	i := make(info)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		i[name] = value
	}
	return i, err
}

// lacks names what a server lacks to keep records without anybody's mistake. What it does not say counts
// as good.
func (i info) lacks() (lacks []string) {
	if version := i["redis_version"]; version != "" && !isAtLeast(version, 6, 2) {
		lacks = append(lacks, fmt.Sprintf("it is Redis %s: %s", version, tooOld))
	}
	if policy := i["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		lacks = append(lacks, fmt.Sprintf("maxmemory-policy is %s: Redis may evict the log, set it to noeviction", policy))
	}
	if i["aof_enabled"] == "0" {
		lacks = append(lacks, "appendonly is no: a crash of Redis loses the grants since its last snapshot, set it to yes")
	}
	switch replicas, _ := strconv.Atoi(i["connected_slaves"]); {
	case replicas == 0:
	case !isAtLeast(cmp.Or(i["redis_version"], "7.0"), 6, 2, 7):
		lacks = append(lacks, "before Redis 6.2.7 min-replicas-to-write does not hold for scripts: after a failover two masters may grant the same units")
	case i["min_slaves_good_slaves"] == "":
		lacks = append(lacks, "min-replicas-to-write is 0: after a failover two masters may grant the same units, set it to 1, and min-replicas-max-lag to 2")
	}
	return lacks
}

func isAtLeast(version string, least ...int) bool {
	is := make([]int, 3)
	fmt.Sscanf(version, "%d.%d.%d", &is[0], &is[1], &is[2])
	return slices.Compare(is, least) >= 0
}

// checked is the name of what Check writes. No credential and no clients have it.
const checked = "quotad --check"

// Check returns what a server lacks, or why it cannot be used at all: it asks how the server is set. With write, it also
// does once all that quotad does in Redis, on keys that it deletes.
func (s *Store) Check(ctx context.Context, write bool) (lacks []string, err error) {
	if err := s.current().Ping(ctx).Err(); err != nil {
		return nil, s.failure(false, err)
	}
	if write {
		if err := s.writeOnce(ctx); err != nil {
			return nil, err
		}
	}
	info, err := s.info(ctx)
	lacks = info.lacks()
	if err != nil {
		lacks = append(lacks, fmt.Sprintf("it does not say how it persists and replicates: %v", s.failure(false, err)))
	}
	return lacks, nil
}

// writeOnce does once all that quotad does in Redis, so that each command that a user may not give is met.
func (s *Store) writeOnce(ctx context.Context) error {
	bounds := lua.Usual()
	bounds.QuietMicros = 0 // there is nothing to put back
	s, err := openStore(s.config, lua.All(bounds))
	if err != nil {
		return err
	}
	defer s.Close()
	defer s.current().Del(ctx, s.keys(checked)...)
	const entry = " check=1\ngrant list 1 % % %"
	now, hour := time.Now().UnixMicro(), time.Hour.Microseconds()
	acquire := func(id string, keep int64, max int) []any {
		return []any{id, entry, "", "epoch", 0, keep, 0, "drawn", 0, "check", hour, 0, max, 1, 0}
	}
	correct := func(id, text string) []any { return []any{id, text, "", "epoch", 0, hour, 0, "drawn", 0} }
	for _, run := range []struct {
		script slidinglog.Script
		args   []any
	}{
		{slidinglog.Restore, []any{"epoch", "", hour, 0, "old", now - hour/2, 0, entry, "new", now, 1, entry}},
		{slidinglog.Restore, []any{"epoch", "epoch", hour, 0, "settled", now, 0, "\nsettle new 3 % % %"}},
		{slidinglog.Acquire, acquire("first", hour/4, 100)}, // it drops the old one
		{slidinglog.Acquire, acquire("more", hour, 1)},      // which is denied
		{slidinglog.Correct, correct("settles", "\nsettle first 7 % % %")},
		{slidinglog.Correct, correct("closes", fmt.Sprintf("\nclose check %d %% %% %%", now+hour))},
		{slidinglog.Correct, correct("resets", "\nreset - 0 % % %")},
		{slidinglog.Walk, []any{"check", 0, 1, hour}},
		{slidinglog.Mirror, []any{0, now + 2*hour, 10}},
		{slidinglog.Mirror, []any{0, "", 10, "first"}},
		{slidinglog.Hosts, []any{checked, "{}", time.Hour.Milliseconds()}},
		{slidinglog.Hosts, []any{checked, "", time.Hour.Milliseconds()}},
	} {
		if _, err := s.Run(ctx, checked, run.script, run.args); err != nil {
			return err
		}
	}
	clients := clientlimit.Clients{Limits: []quota.Limit{{Units: 1, Window: quota.Sliding(time.Second)}}}
	c := clientlimit.Call{Clients: &clients, Units: 1}
	for _, clients.Algorithm = range []clientlimit.Algorithm{clientlimit.Log, clientlimit.Counter} {
		rand.Read(c.Key[:]) // never fails
		if _, err := s.Count(ctx, c); err != nil {
			return err
		}
	}
	return s.Forget(ctx, c)
}
