package middleware

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/netip"
	"strings"
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

// Options say for whom a Handler asks, and what it does without an answer.
type Options struct {
	// Clients names the [clients.NAME] that says what each subject may spend.
	Clients string

	// Identify names the subject whose budget a request spends: the first of these that knows decides. Where none does,
	// it is the budget of the address.
	Identify []Identify
	// TrustedProxies are the addresses whose X-Forwarded-For is trusted; empty: none. A peer on a Unix socket is one as
	// soon as there are any. No other field is read (Forwarded, X-Real-IP): anyone may send what a proxy does not
	// overwrite.
	TrustedProxies []netip.Prefix

	// Cost returns which operation a request is and how many of it, at least 1; "" is the call that costs 1. nil: each
	// request is one of those. A count below 1 is answered with 400.
	Cost func(*http.Request) (operation string, count int64)

	// FailClosed has requests answered with 503 when the limiter does not answer, or does not know the clients or the
	// operation; otherwise they are passed on. If it answers that its ledger is unavailable, its on_outage is "closed",
	// and the answer is 503 either way.
	FailClosed bool
	// Timeout is how long to wait for an answer; 0 or less means 100 ms. When Redis stops answering, the daemon waits
	// for it as long as its ledger.deadline says: with a shorter timeout, the first requests of an outage count as not
	// answered.
	Timeout time.Duration

	// ErrorLog gets a line when the limiter stops or begins to answer, and once a minute why it cannot decide; nil: the
	// standard logger. It never names subjects.
	ErrorLog *log.Logger
}

const (
	defaultTimeout = 100 * time.Millisecond
	// retryAfter is how long a limiter that did not answer is not asked.
	retryAfter = 250 * time.Millisecond
)

// Handler passes on to next what the limiter grants, and answers the rest. It panics if the options make no sense.
func Handler(limiter Limiter, next http.Handler, o Options) http.Handler {
	if err := quota.CheckName(o.Clients); err != nil {
		panic(fmt.Sprintf("middleware: no clients: %v", err))
	}
	for _, p := range o.TrustedProxies {
		if !p.IsValid() || p.Addr().Is4In6() {
			panic(fmt.Sprintf("middleware: trusted proxy %v is not a network of IPv4 or IPv6 addresses", p))
		}
	}
	if o.Cost == nil {
		o.Cost = func(*http.Request) (string, int64) { return "", 1 }
	}
	o.Timeout = cmp.Or(max(0, o.Timeout), defaultTimeout)
	o.ErrorLog = cmp.Or(o.ErrorLog, log.Default())
	return &handler{Options: o, limiter: limiter, next: next}
}

type handler struct {
	Options
	limiter Limiter
	next    http.Handler

	mu     sync.Mutex // guards what follows
	away   bool       // there was no answer when the limiter was asked last
	again  time.Time  // while away: when one request may ask again
	logged time.Time  // when it was logged last why nothing is decided
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d, err := h.decide(r)
	switch reason := quota.Reason(d.Reason); {
	case err == nil && d.Granted:
		// Set before the handler runs: so any answer has them, and nothing has to wrap the ResponseWriter.
		addRateLimit(w.Header(), d)
		h.next.ServeHTTP(w, r)
	case reason == quota.LimitExceeded || reason == quota.CostExceedsLimit:
		deny(w, d)
	case reason == quota.BadRequest:
		refuse(w, quota.BadRequest, "the number of calls of this request cannot be counted", 0)
	case h.FailClosed || r.Context().Err() != nil || reason == api.LedgerUnavailable || errors.Is(err, api.ErrLedgerUnavailable):
		refuse(w, api.LedgerUnavailable, "it is not known now whether there is room for this request", jittered(time.Second))
	default:
		h.next.ServeHTTP(w, r)
	}
}

// decide has a request decided within the timeout, unless it would be rejected as malformed.
func (h *handler) decide(r *http.Request) (d api.Decision, err error) {
	operation, count := h.Cost(r)
	if count < 1 || count > int64(quota.MaxUnits) {
		return api.Decision{Reason: string(quota.BadRequest)}, nil
	}
	if !h.mayAsk(time.Now()) {
		return d, api.ErrUnreachable
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.Timeout)
	defer cancel()
	d, err = h.limiter.AcquireClient(ctx, h.Clients, api.ClientRequest{Subject: h.subject(r), Operation: operation, Count: count})
	if r.Context().Err() == nil { // a caller that went away says nothing of the limiter
		h.record(d, err, time.Now())
	}
	return d, err
}

// mayAsk reports whether a request may ask: while there is no answer, one at a time may.
func (h *handler) mayAsk(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.away {
		return true
	}
	if now.Before(h.again) {
		return false
	}
	h.again = now.Add(h.Timeout + retryAfter)
	return true
}

// record records whether there was an answer. It logs when that has changed, and once a minute why nothing was decided:
// a person has to correct that.
func (h *handler) record(d api.Decision, err error, now time.Time) {
	line, why := "", undecided(d, err)
	h.mu.Lock()
	was := h.away
	h.away, h.again = errors.Is(err, api.ErrUnreachable), now.Add(retryAfter)
	switch {
	case h.away && !was && h.FailClosed:
		line = "requests are refused: " + err.Error()
	case h.away && !was:
		line = "requests are passed on, whatever they cost: " + err.Error()
	case was && !h.away:
		line = "quotad answers again"
	case !h.away && why != "" && now.Sub(h.logged) >= time.Minute:
		line, h.logged = why, now
	}
	h.mu.Unlock()
	if line != "" {
		h.ErrorLog.Printf("clients %s: %s", h.Clients, line)
	}
}

// undecided returns why the ledger did not decide; "" if it did.
func undecided(d api.Decision, err error) string {
	reason, detail, hint := quota.Reason(d.Reason), d.Detail, d.Hint
	switch {
	case d.Mode != "":
		return "calls are granted without the ledger"
	case d.Granted, reason == quota.LimitExceeded, reason == quota.CostExceedsLimit, reason == quota.BadRequest:
		return ""
	case err != nil:
		p := api.ProblemFrom(err)
		reason, detail, hint = p.Reason, p.Detail, p.Hint
	}
	return strings.TrimSuffix(fmt.Sprintf("nothing is decided: %s: %s (%s)", reason, detail, hint), " ()")
}
