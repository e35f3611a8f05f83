package redisledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
)

// refusals are the errors that Redis answers. A script and a proxy put words in front of the code.
var refusals = []struct {
	code     string
	unusable bool // until a person changes something: no outage
	cure     string
}{
	{"OOM", false, "raise maxmemory of Redis, or free memory there"},
	{"NOREPLICAS", false, "bring the replicas back, or lower min-replicas-to-write"},
	{"MISCONF", false, "Redis cannot save its data: look at its log and its disk"},
	{"LOADING", false, "wait until Redis has read its data"},
	{"READONLY", false, "the address leads to a replica: name the master, or the Sentinels and master_name"},
	{"MASTERDOWN", false, "the address leads to a replica without a master: name the master"},
	{"CLUSTERDOWN", false, "the Cluster has slots without a master: see CLUSTER INFO"},
	{"TRYAGAIN", false, "wait until the Cluster has moved the slot"},
	{"BUSY", false, "another script runs for too long: SCRIPT KILL ends it"},
	{"NOAUTH", false, "set username and password_file in [ledger.redis], and restart quotad"},
	{"WRONGPASS", false, "set username and password_file in [ledger.redis] as Redis has them, and restart quotad"},
	{"NOPERM", false, noRights},
	{"can't run this command", false, noRights},
	{"can't access at least one", false, noRights},
	{"max number of clients", false, "raise maxclients of Redis, or close clients"},
	{"WRONGTYPE", true, "something else is at the key: rename it in Redis, or set another key_prefix in [ledger.redis]"},
	{"MOVED", true, "this is a Cluster: write host:port of its nodes into addrs"},
	{"unknown command", true, tooOld},
	{"Unknown Redis command", true, tooOld},
	{"unsupported", true, tooOld},
}

const (
	noRights = "give the user of Redis the rights that cmd/quotad/HOSTS.md lists, by ACL SETUSER"
	tooOld   = "quotad needs Redis 6.2 or later, with streams and scripts"
)

// where is what a server appends to the error of a script.
var where = regexp.MustCompile(`\.? script: [0-9a-f]{40}.*$`)

// refused returns the error of a call that Redis answered with an error: nothing was done.
func refused(answer error) error {
	text := where.ReplaceAllString(answer.Error(), "")
	for _, r := range refusals {
		at := strings.Index(text, r.code)
		if at < 0 {
			continue
		}
		if strings.ToUpper(r.code) == r.code {
			text = text[at:]
		}
		kind := quota.ErrUnavailable
		if r.unusable {
			kind = quota.ErrUnusable
		}
		return storeError{fmt.Sprintf("redis refuses: %s: %s", strings.TrimRight(text, "."), r.cure), kind, answer}
	}
	return storeError{"redis refuses: " + text, quota.ErrUnusable, answer}
}

// A storeError is an error of a kind that its text does not repeat.
type storeError struct {
	text        string
	kind, cause error
}

func (e storeError) Error() string   { return e.text }
func (e storeError) Unwrap() []error { return []error{e.kind, e.cause} }

// isAnswer reports whether Redis answered with an error.
func isAnswer(err error) bool { return errors.As(err, new(redis.Error)) }

// isAbout reports whether an answer has a code, in any wording.
func isAbout(err error, code string) bool {
	return isAnswer(err) && strings.Contains(err.Error(), code+" ")
}

// mayHaveRun reports whether a script may have been carried out although its call failed and Redis did not answer: not
// when it was not sent.
func mayHaveRun(err error) bool {
	return !errors.As(err, new(notSent)) && !errors.As(err, new(dialError)) && !errors.Is(err, redis.ErrPoolTimeout)
}

// failure returns the error of a call that changes something, if sent says so, and that failed.
func (s *Store) failure(writes bool, err error) error {
	if isAnswer(err) {
		return refused(err)
	}
	kind := quota.ErrUnavailable
	if writes && mayHaveRun(err) {
		kind = quota.ErrOutcomeUnknown
	}
	text := err.Error()
	switch dial := s.undialed.Load(); {
	case dial != nil && errors.Is(err, context.DeadlineExceeded): // while a connection was being made
		text = (*dial).Error()
	case s.config.TLS == nil && !s.answered.Load() && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
		text += ": it answers nothing: if that port is for TLS, set [ledger.redis.tls]"
	}
	return storeError{"cannot reach redis: " + text, kind, err}
}
