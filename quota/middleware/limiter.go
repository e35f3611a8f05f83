package middleware

import (
	"context"
	"errors"
	"log"
	"sync"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// A limiter has the daemon decide. Requests that arrive while a batch is in flight share the
// next one. A daemon that does not answer is asked again only now and then, so that a frozen
// one does not delay every request.
type limiter struct {
	decider decider
	clients string
	wait    time.Duration // for the batch of a request to begin, and again for its answer
	without string        // what happens to requests while the daemon does not answer
	log     *log.Logger
	batcher quota.Batcher[api.ClientRequest, api.Decision]

	mu     sync.Mutex // guards what follows
	away   bool       // the daemon did not answer when it was asked last
	next   time.Time  // while away: when one request may ask again
	logged map[quota.Reason]time.Time
}

// A decider is the daemon, or Limits.
type decider interface {
	AcquireClients(ctx context.Context, clients string, batch []api.ClientRequest) ([]api.Decision, error)
}

// retryAfter is how long a daemon that did not answer is not asked.
const retryAfter = 250 * time.Millisecond

// errAway says that the daemon was not asked, because it did not answer just before.
var errAway = errors.New("quotad does not answer")

func newLimiter(o Options, logger *log.Logger) *limiter {
	l := &limiter{
		decider: o.Client, clients: o.Clients, wait: o.Timeout, without: "passed on, whatever they cost",
		log: logger, logged: make(map[quota.Reason]time.Time),
	}
	if o.Limits != nil {
		l.decider = o.Limits
	}
	if o.FailClosed {
		l.without = "refused"
	}
	l.batcher.Do, l.batcher.Deadline = l.ask, l.wait
	return l
}

// decide has a request decided, within twice the timeout.
func (l *limiter) decide(ctx context.Context, r api.ClientRequest) (api.Decision, error) {
	if !l.mayAsk(time.Now()) {
		return api.Decision{}, errAway
	}
	ctx, cancel := context.WithTimeout(ctx, l.wait)
	defer cancel()
	return l.batcher.Ask(ctx, r)
}

// mayAsk reports whether a request may ask the daemon: while that is away, one at a time may.
func (l *limiter) mayAsk(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.away {
		return true
	}
	if now.Before(l.next) {
		return false
	}
	l.next = now.Add(l.wait + retryAfter)
	return true
}

// ask asks the daemon for a batch.
func (l *limiter) ask(ctx context.Context, batch []api.ClientRequest) ([]api.Decision, error) {
	decisions, err := l.decider.AcquireClients(ctx, l.clients, batch)
	l.record(err, time.Now())
	return decisions, err
}

// record records whether the daemon answered, and logs when that has changed.
func (l *limiter) record(err error, now time.Time) {
	away := errors.Is(err, api.ErrUnreachable)
	l.mu.Lock()
	was := l.away
	l.away, l.next = away, now.Add(retryAfter)
	l.mu.Unlock()
	switch {
	case away && !was:
		l.log.Printf("clients %s: requests are %s: %v", l.clients, l.without, err)
	case was && !away:
		l.log.Printf("clients %s: quotad answers again", l.clients)
	}
}

// complain logs, once a minute for each reason, what keeps the daemon from deciding, although
// it answers: a person has to correct that.
func (l *limiter) complain(reason quota.Reason, detail, hint string) {
	now := time.Now()
	l.mu.Lock()
	last, again := l.logged[reason]
	if again = again && now.Sub(last) < time.Minute; !again {
		l.logged[reason] = now
	}
	l.mu.Unlock()
	if again {
		return
	}
	if hint != "" {
		detail += " (" + hint + ")"
	}
	l.log.Printf("clients %s: quotad cannot decide: %s: %s", l.clients, reason, detail)
}
