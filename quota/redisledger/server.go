package redisledger

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"

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
	due := !s.silent && time.Since(s.asked) >= infoTime
	if due {
		s.asked = time.Now() // others do not ask meanwhile
	}
	warnings = s.lacks
	s.mu.Unlock()
	if !due {
		return warnings, nil
	}
	info, err := s.info(ctx)
	warnings = info.lacks()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lacks, s.silent = warnings, err != nil && isAnswer(err)
	return warnings, nil
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
	if replicas, _ := strconv.Atoi(i["connected_slaves"]); replicas > 0 && i["min_slaves_good_slaves"] == "" {
		lacks = append(lacks, "min-replicas-to-write is 0: after a failover two masters may grant the same units, set it to 1, and min-replicas-max-lag to 2")
	}
	return lacks
}

func isAtLeast(version string, major, minor int) bool {
	var x, y int
	fmt.Sscanf(version, "%d.%d", &x, &y)
	return x > major || x == major && y >= minor
}

// checked is the name of what Check writes. No credential and no clients have it.
const checked = "quotad --check"

// Check returns what a server lacks for this configuration, or why it cannot be used at all: it asks how
// the server is set, and how long an answer takes. With write, it also does once all that quotad does in
// Redis, on keys that expire in two seconds.
func (s *Store) Check(ctx context.Context, write bool) (lacks []string, err error) {
	if err := s.current().Ping(ctx).Err(); err != nil {
		return nil, s.failure(false, err)
	}
	trip, err := s.roundTrip(ctx)
	if err == nil && write {
		err = s.writeOnce(ctx)
	}
	if err != nil {
		return nil, err
	}
	info, err := s.info(ctx)
	lacks = info.lacks()
	if err != nil {
		lacks = append(lacks, fmt.Sprintf("it does not say how it persists and replicates: %v", s.failure(false, err)))
	}
	if needed := deadlineFor(trip); needed > s.config.Deadline {
		lacks = append(lacks, fmt.Sprintf("an answer takes %v: set deadline in [ledger] to %v or more", trip.Round(time.Millisecond), needed))
	}
	return lacks, nil
}

// roundTrip returns how long an answer takes on a connection that there is already.
func (s *Store) roundTrip(ctx context.Context) (least time.Duration, err error) {
	for i := range 5 {
		begun := time.Now()
		if err := s.current().Ping(ctx).Err(); err != nil {
			return 0, s.failure(false, err)
		}
		if took := time.Since(begun); i == 0 || took < least {
			least = took
		}
	}
	return least, nil
}

// deadlineFor returns the deadline for a round trip. A decision takes up to two, a lost race or a client's
// record included, and may wait for another decision first, and for a connection, which takes two more.
func deadlineFor(trip time.Duration) time.Duration {
	const step = 50 * time.Millisecond
	return (6*trip + step - 1) / step * step
}

// writeOnce does once all that quotad does in Redis.
func (s *Store) writeOnce(ctx context.Context) error {
	defer s.names.Delete(checked)
	defer s.current().Del(ctx, s.keys(checked)...)
	nobody := []any{"", "", "", "", 0, 1, 0, "e", 0}
	runs := []struct {
		script slidinglog.Script
		args   []any
	}{
		{slidinglog.Restore, []any{"e", "", 1, 0, "check", 1, 1, "\nreset - 0 % % %"}},
		{slidinglog.Acquire, append(nobody, "check", 1, 0, 1, 1, 0)},
		{slidinglog.Correct, []any{"id", "\nreset - 0 % % %", "", "e", 0, 1, 0, "e", 0}},
		{slidinglog.Walk, []any{"check", 0, 1, 1}},
		{slidinglog.Mirror, []any{0, "", 1}},
	}
	for _, run := range runs {
		if _, err := s.Run(ctx, checked, run.script, run.args); err != nil {
			return err
		}
	}
	if _, err := s.Run(ctx, slidinglog.AllHosts, slidinglog.Hosts, []any{"", "", time.Hour.Milliseconds()}); err != nil {
		return err
	}
	c := clientlimit.Call{Algorithm: clientlimit.Log, Limits: []clientlimit.Bound{{WindowMs: 1000, Units: 1}}, Units: 1}
	for _, c.Algorithm = range []clientlimit.Algorithm{clientlimit.Log, clientlimit.Counter} {
		rand.Read(c.Key[:]) // never fails
		if _, err := s.Count(ctx, c); err != nil {
			return err
		}
	}
	return s.Forget(ctx, c)
}
