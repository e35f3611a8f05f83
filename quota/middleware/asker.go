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

// An asker has the daemon decide. Requests that arrive while it is being asked share the
// next question. When it does not answer, it is asked again only now and then, so that a
// frozen daemon does not delay every request.
type asker struct {
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

func newAsker(o Options, logger *log.Logger) *asker {
	a := &asker{client: o.Client, clients: o.Clients, wait: o.Timeout, without: "passed on, whatever they cost", log: logger, told: make(map[quota.Reason]time.Time)}
	if o.FailClosed {
		a.without = "refused"
	}
	a.batcher.Do, a.batcher.Deadline = a.ask, a.wait
	return a
}

// decide has a request decided, within twice the timeout.
func (a *asker) decide(ctx context.Context, r api.ClientRequest) (api.Decision, error) {
	if !a.mayAsk(time.Now()) {
		return api.Decision{}, errAway
	}
	ctx, cancel := context.WithTimeout(ctx, a.wait)
	defer cancel()
	return a.batcher.Ask(ctx, r)
}

// mayAsk tells whether a request may ask the daemon: while that is away, one may at a time.
func (a *asker) mayAsk(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.away {
		return true
	}
	if now.Before(a.next) {
		return false
	}
	a.next = now.Add(a.wait + askAgain)
	return true
}

// ask asks the daemon for a batch.
func (a *asker) ask(ctx context.Context, batch []api.ClientRequest) ([]api.Decision, error) {
	decisions, err := a.client.AcquireClients(ctx, a.clients, batch)
	a.learn(err, time.Now())
	return decisions, err
}

// learn takes in whether the daemon answered, and tells the log when that has changed.
func (a *asker) learn(err error, now time.Time) {
	a.mu.Lock()
	was := a.away
	a.away = errors.Is(err, api.ErrUnreachable)
	a.next = now.Add(askAgain)
	is := a.away
	a.mu.Unlock()
	switch {
	case is && !was:
		a.log.Printf("clients %s: requests are %s: %v", a.clients, a.without, err)
	case was && !is:
		a.log.Printf("clients %s: quotad answers again", a.clients)
	}
}

// complain tells the log, once a minute for each reason, what keeps the daemon from
// deciding, although it answers: somebody has to mend that.
func (a *asker) complain(reason quota.Reason, detail, hint string) {
	if hint != "" {
		detail += " (" + hint + ")"
	}
	now := time.Now()
	a.mu.Lock()
	last, again := a.told[reason]
	again = again && now.Sub(last) < time.Minute
	if !again {
		a.told[reason] = now
	}
	a.mu.Unlock()
	if !again {
		a.log.Printf("clients %s: quotad cannot decide: %s: %s", a.clients, reason, detail)
	}
}
