package redisledger

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
	"quotad/quota/clientlimit"
)

var _ clientlimit.Store = (*Store)(nil)

// Swap implements clientlimit.Store. All swaps go in one pipeline, in a Cluster in one to each node. One
// that was not answered is not repeated: nothing would show whether the first one was carried out. A
// node that did not answer is not called until it does, and its swaps fail at once.
func (s *Store) Swap(ctx context.Context, all []*clientlimit.Swap) {
	var sent []*clientlimit.Swap
	var nodes []redis.UniversalClient
	var calls [][]any
	begun := time.Now()
	for _, one := range all {
		key := s.clientKey(one.Place)
		node, err := s.clientNode(ctx, key)
		if err != nil {
			one.Err = err
			continue
		}
		sent, nodes, calls = append(sent, one), append(nodes, node), append(calls, s.swapArguments(key, one))
	}
	for i, command := range s.run(ctx, s.swaps, calls) {
		one := sent[i]
		one.Swapped, one.Found, one.NowMs, one.Err = s.parseSwap(command, one.Writes)
		if err := command.Err(); err != nil {
			if isLate(err) && time.Since(begun) < s.config.Deadline/2 {
				one.Err = fmt.Errorf("%w: %w", quota.ErrContended, one.Err) // others had the time
				continue
			}
			s.recordNode(nodes[i], err)
		}
	}
}

// swapArguments are those of swap.lua.
func (s *Store) swapArguments(key string, one *clientlimit.Swap) []any {
	args := append(make([]any, 2, 9), 1, key)
	if !one.Writes {
		return append(args, "", "", 0, 0, 0)
	}
	hash, notAfterMs := sha1.Sum(one.Read), one.ReadMs+s.patience.Milliseconds()
	if one.NotAfterMs > 0 {
		notAfterMs = min(notAfterMs, one.NotAfterMs)
	}
	return append(args, hex.EncodeToString(hash[:]), one.Next, one.EndsMs, notAfterMs, one.ReadMs)
}

// clientKey is short: with the counter, the key is most of what Redis keeps of a subject.
func (s *Store) clientKey(at clientlimit.Place) string {
	if at == (clientlimit.Place{}) {
		return s.config.KeyPrefix + "clients:salts"
	}
	hash := sha256.Sum256([]byte(clientVersion + at.Group + "\x00" + string(at.Subject)))
	return s.config.KeyPrefix + "c" + string(hash[:clientKeySize])
}

// clientVersion is the version of a record's form: each has keys of its own.
const clientVersion = "4"

// clientKeySize bytes distinguish 2^48 subjects.
const clientKeySize = 12

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
