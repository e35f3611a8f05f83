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

// A Limiter decides whether a subject of some clients may make a call: an api.Client asks a daemon, and
// redisledger.OpenClients needs none. A refusal may be an error, too.
type Limiter interface {
	AcquireClient(ctx context.Context, clients string, r api.ClientRequest) (api.Decision, error)
}

// An asker asks a limiter. One that does not answer is asked again only now and then, so that a frozen daemon does not
// delay every request.
type asker struct {
	Limiter
	clients string
	wait    time.Duration // for an answer
	without string        // what happens to requests while there is none
	log     *log.Logger

	mu     sync.Mutex // guards what follows
	away   bool       // there was no answer when it was asked last
	next   time.Time  // while away: when one request may ask again
	logged map[quota.Reason]time.Time
}

// retryAfter is how long a limiter that did not answer is not asked.
const retryAfter = 250 * time.Millisecond

// errAway says that the limiter was not asked, because there was no answer just before.
var errAway = errors.New("quotad does not answer")

func newAsker(l Limiter, o Options) *asker {
	a := &asker{
		Limiter: l, clients: o.Clients, wait: o.Timeout, without: "passed on, whatever they cost",
		log: o.ErrorLog, logged: make(map[quota.Reason]time.Time),
	}
	if o.FailClosed {
		a.without = "refused"
	}
	return a
}

// decide has a request decided within the timeout.
func (a *asker) decide(ctx context.Context, r api.ClientRequest) (api.Decision, error) {
	if !a.mayAsk(time.Now()) {
		return api.Decision{}, errAway
	}
	inTime, cancel := context.WithTimeout(ctx, a.wait)
	defer cancel()
	d, err := a.AcquireClient(inTime, a.clients, r)
	if ctx.Err() == nil { // a caller that went away says nothing of the daemon
		a.record(err, time.Now())
	}
	return d, err
}

// mayAsk reports whether a request may ask: while there is no answer, one at a time may.
func (a *asker) mayAsk(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.away {
		return true
	}
	if now.Before(a.next) {
		return false
	}
	a.next = now.Add(a.wait + retryAfter)
	return true
}

// record records whether there was an answer, and logs when that has changed.
func (a *asker) record(err error, now time.Time) {
	away := errors.Is(err, api.ErrUnreachable)
	a.mu.Lock()
	was := a.away
	a.away, a.next = away, now.Add(retryAfter)
	a.mu.Unlock()
	switch {
	case away && !was:
		a.log.Printf("clients %s: requests are %s: %v", a.clients, a.without, err)
	case was && !away:
		a.log.Printf("clients %s: quotad answers again", a.clients)
	}
}

// complain logs, once a minute for each reason, why a limiter that answers does not decide: a person has to correct
// that.
func (a *asker) complain(reason quota.Reason, detail, hint string) {
	now := time.Now()
	a.mu.Lock()
	last, again := a.logged[reason]
	if again = again && now.Sub(last) < time.Minute; !again {
		a.logged[reason] = now
	}
	a.mu.Unlock()
	if again {
		return
	}
	if hint != "" {
		detail += " (" + hint + ")"
	}
	a.log.Printf("clients %s: quotad cannot decide: %s: %s", a.clients, reason, detail)
}
