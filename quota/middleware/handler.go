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
// redisledger.OpenClients needs none. The Decision is a grant, or a denial of reason limit_exceeded or
// cost_exceeds_limit. Other refusals are an api.Problem; api.ErrUnreachable is that there was no answer.
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
	again  time.Time  // when one request may ask again, as there was no answer last; zero: there was
	logged time.Time  // when it was logged last why nothing is decided
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	operation, count := h.Cost(r)
	if count < 1 || count > int64(quota.MaxUnits) { // the limiter would reject it as malformed
		refuse(w, quota.BadRequest, "the number of calls of this request cannot be counted", 0)
		return
	}
	d, err := h.decide(r, operation, count)
	switch {
	case err == nil && d.Granted:
		// Set before the handler runs: so any answer has them, and nothing has to wrap the ResponseWriter.
		addRateLimit(w.Header(), d)
		h.next.ServeHTTP(w, r)
	case err == nil:
		deny(w, d)
	case h.FailClosed || r.Context().Err() != nil || errors.Is(err, api.ErrLedgerUnavailable):
		refuse(w, api.LedgerUnavailable, "it is not known now whether there is room for this request", jittered(time.Second))
	default:
		h.next.ServeHTTP(w, r)
	}
}

// decide has a request decided within the timeout.
func (h *handler) decide(r *http.Request, operation string, count int64) (d api.Decision, err error) {
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
	may := !now.Before(h.again)
	if may && !h.again.IsZero() {
		h.again = now.Add(h.Timeout + retryAfter)
	}
	return may
}

// record records whether there was an answer. It logs when that has changed, and once a minute why nothing was decided:
// a person has to correct that.
func (h *handler) record(d api.Decision, err error, now time.Time) {
	line, away := undecided(d, err), errors.Is(err, api.ErrUnreachable)
	h.mu.Lock()
	was := !h.again.IsZero()
	h.again = time.Time{}
	if away {
		h.again = now.Add(retryAfter)
	}
	switch {
	case away && !was && h.FailClosed:
		line = "requests are refused: " + err.Error()
	case away && !was:
		line = "requests are passed on, whatever they cost: " + err.Error()
	case was && !away:
		line = "quotad answers again"
	case away || now.Sub(h.logged) < time.Minute:
		line = ""
	case line != "":
		h.logged = now
	}
	h.mu.Unlock()
	if line != "" {
		h.ErrorLog.Printf("clients %s: %s", h.Clients, line)
	}
}

// undecided returns why the ledger did not decide; "" if it did.
func undecided(d api.Decision, err error) string {
	switch {
	case err != nil:
		p := api.ProblemFrom(err)
		return strings.TrimSuffix(fmt.Sprintf("nothing is decided: %s: %s (%s)", p.Reason, p.Detail, p.Hint), " ()")
	case d.Mode != "":
		return "calls are granted without the ledger"
	}
	return ""
}
