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

// A limiter has the daemon decide. Requests that arrive while it is being asked share the
// next question. When it does not answer, it is asked again only now and then, so that a
// frozen daemon does not delay every request.
type limiter struct {
	client  *api.Client
	clients string
	wait    time.Duration // for the turn of a request, and again for its answer
	without string        // what becomes of requests while the daemon does not answer
	log     *log.Logger
	batcher quota.Batcher[api.ClientRequest, api.Decision]

	mu   sync.Mutex // guards what follows
	away bool       // the daemon did not answer when it was asked last
	next time.Time  // while away: when one request may ask again
	told map[quota.Reason]time.Time
}

// askAgain is how long nobody asks a daemon that did not answer.
const askAgain = 250 * time.Millisecond

// errAway says that the daemon was not asked, because it did not answer just before.
var errAway = errors.New("quotad does not answer")

func newLimiter(o Options, logger *log.Logger) *limiter {
	l := &limiter{client: o.Client, clients: o.Clients, wait: o.Timeout, without: "passed on, whatever they cost", log: logger, told: make(map[quota.Reason]time.Time)}
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

// mayAsk tells whether a request may ask the daemon: while that is away, one may at a time.
func (l *limiter) mayAsk(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.away {
		return true
	}
	if now.Before(l.next) {
		return false
	}
	l.next = now.Add(l.wait + askAgain)
	return true
}

// ask asks the daemon for a batch.
func (l *limiter) ask(ctx context.Context, batch []api.ClientRequest) ([]api.Decision, error) {
	decisions, err := l.client.AcquireClients(ctx, l.clients, batch)
	l.learn(err, time.Now())
	return decisions, err
}

// learn takes in whether the daemon answered, and tells the log when that has changed.
func (l *limiter) learn(err error, now time.Time) {
	l.mu.Lock()
	was := l.away
	l.away = errors.Is(err, api.ErrUnreachable)
	l.next = now.Add(askAgain)
	is := l.away
	l.mu.Unlock()
	switch {
	case is && !was:
		l.log.Printf("clients %s: requests are %s: %v", l.clients, l.without, err)
	case was && !is:
		l.log.Printf("clients %s: quotad answers again", l.clients)
	}
}

// complain tells the log, once a minute for each reason, what keeps the daemon from
// deciding, although it answers: somebody has to mend that.
func (l *limiter) complain(reason quota.Reason, detail, hint string) {
	if hint != "" {
		detail += " (" + hint + ")"
	}
	now := time.Now()
	l.mu.Lock()
	last, again := l.told[reason]
	again = again && now.Sub(last) < time.Minute
	if !again {
		l.told[reason] = now
	}
	l.mu.Unlock()
	if !again {
		l.log.Printf("clients %s: quotad cannot decide: %s: %s", l.clients, reason, detail)
	}
}
