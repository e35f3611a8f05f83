package redisledger

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// recordTime is for how long a record is kept after it was written last: longer than a job's year.
const recordTime = 400 * 24 * time.Hour

// ReadRecords reads records in one pipeline, in a Cluster in one to each node. A record is empty where there is
// none. For one that could not be read, the time is zero, and err says why.
func (s *Store) ReadRecords(ctx context.Context, keys []string) (values [][]byte, clocks []time.Time, err error) {
	values, clocks = make([][]byte, len(keys)), make([]time.Time, len(keys))
	calls := make([][]any, len(keys))
	for i, key := range keys {
		calls[i] = append(make([]any, 2, 9), 1, s.config.KeyPrefix+key, "", "", 0, 0, 0)
	}
	for i, command := range s.run(ctx, s.swaps, calls) {
		_, found, clock, problem := s.parseSwap(command, false)
		if problem != nil {
			err = problem
			continue
		}
		values[i], clocks[i] = found, time.UnixMilli(clock).UTC()
	}
	return values, clocks, err
}

// SwapRecord writes values to all keys, which are in one slot of a Cluster, if the first one still has the value
// that was read, and if the server's clock is not past notAfter. Else it returns what the first one has. An error is
// a quota.ErrOutcomeUnknown if the values may be written all the same, or may still be until notAfter.
func (s *Store) SwapRecord(ctx context.Context, keys []string, read []byte, values [][]byte, notAfter time.Time) (swapped bool, found []byte, clock time.Time, err error) {
	args := append(make([]any, 2, 8+2*len(keys)), len(keys))
	for _, key := range keys {
		args = append(args, s.config.KeyPrefix+key)
	}
	hash := sha1.Sum(read)
	args = append(args, hex.EncodeToString(hash[:]), values[0], notAfter.Add(recordTime).UnixMilli(), notAfter.UnixMilli(), 0)
	for _, value := range values[1:] {
		args = append(args, value)
	}
	swapped, found, ms, err := s.parseSwap(s.run(ctx, s.swaps, [][]any{args})[0], true)
	return swapped, found, time.UnixMilli(ms).UTC(), err
}

// parseSwap reads what swap.lua answers to a call, which writes or only reads.
func (s *Store) parseSwap(command *redis.Cmd, writes bool) (swapped bool, found []byte, clockMs int64, err error) {
	if err := command.Err(); err != nil {
		return false, nil, 0, s.failure(writes, err)
	}
	text, _ := command.Val().(string)
	at := strings.IndexAny(text, "+-")
	if at < 0 {
		return false, nil, 0, errReply
	}
	if clockMs, err = strconv.ParseInt(text[:at], 10, 64); err != nil {
		return false, nil, 0, errReply
	}
	return text[at] == '+', []byte(text[at+1:]), clockMs, nil
}
