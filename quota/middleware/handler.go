package middleware

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/netip"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// Options say for whom a Handler asks, and what it does without an answer.
type Options struct {
	// Clients names the [clients.NAME] of the daemon's configuration, which says what each
	// subject may spend.
	Clients string

	// Identify names the subject whose budget a request spends: the first of these that knows
	// decides. Where none does, it is the budget of the address.
	Identify []Identify
	// TrustedProxies are the addresses whose X-Forwarded-For is trusted; empty: none.
	// A peer on a Unix socket is one as soon as there are any. No other field is read
	// (Forwarded, X-Real-IP): anyone may send what a proxy does not overwrite.
	TrustedProxies []netip.Prefix

	// Skip reports whether a request is passed on without a decision; nil: none is.
	Skip func(*http.Request) bool
	// Cost returns which operation a request is and how many of it, at least 1; "" is the
	// call that costs 1. nil: each request is one of those. A count below 1 is answered
	// with 400.
	Cost func(*http.Request) (operation string, count int64)

	// FailClosed has requests answered with 503 when the daemon does not answer, or does
	// not know the clients or the operation; otherwise they are passed on. Where the daemon
	// answers that its ledger is unavailable, its on_outage was "closed", and the answer is
	// 503 either way.
	FailClosed bool
	// Timeout is how long to wait for an answer of the daemon; 0 means 100 ms.
	// When Redis stops answering, the daemon waits for it as long as its ledger.deadline says:
	// with a shorter timeout, the first requests of an outage count as not answered.
	Timeout time.Duration
	// Jitter is the fraction of itself by which a Retry-After is lengthened at most, at random,
	// so that clients that were refused together do not return together; 0 means 0.1, and less
	// than 0 none.
	Jitter float64

	// OnDecision, unless it is nil, receives each decision, or why there is none, before
	// the request is passed on or answered.
	OnDecision func(*http.Request, api.Decision, error)
	// ErrorLog gets a line when the daemon stops or begins to answer, and once a minute why it
	// cannot decide; nil: the standard logger. It never names subjects.
	ErrorLog *log.Logger
}

const (
	defaultTimeout = 100 * time.Millisecond
	defaultJitter  = 0.1
)

// Handler passes on to next what the limiter grants, and answers the rest. It panics if the options make no sense.
func Handler(limiter Limiter, next http.Handler, o Options) http.Handler {
	if err := o.check(); err != nil {
		panic("middleware: " + err.Error())
	}
	if o.Cost == nil {
		o.Cost = func(*http.Request) (string, int64) { return "", 1 }
	}
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.Jitter = max(0, cmp.Or(o.Jitter, defaultJitter))
	o.ErrorLog = cmp.Or(o.ErrorLog, log.Default())
	return &handler{Options: o, next: next, addresses: o.TrustedProxies, asker: newAsker(limiter, o)}
}

func (o Options) check() error {
	if err := quota.CheckName(o.Clients); err != nil {
		return fmt.Errorf("no clients: %w", err)
	}
	for _, p := range o.TrustedProxies {
		if !p.IsValid() || p.Addr().Is4In6() {
			return fmt.Errorf("trusted proxy %v is not a network of IPv4 or IPv6 addresses", p)
		}
	}
	if o.Timeout < 0 {
		return fmt.Errorf("the timeout is below zero: %v", o.Timeout)
	}
	return nil
}

type handler struct {
	Options
	next      http.Handler
	addresses addresses
	asker     *asker
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.Skip != nil && h.Skip(r) {
		h.next.ServeHTTP(w, r)
		return
	}
	d, err := h.decide(r)
	if h.OnDecision != nil {
		h.OnDecision(r, d, err)
	}
	switch reason := quota.Reason(d.Reason); {
	case err == nil && d.Granted:
		// Set before the handler runs: so any answer has them, and nothing has to wrap the
		// ResponseWriter.
		addRateLimit(w.Header(), d)
		h.next.ServeHTTP(w, r)
	case reason == quota.LimitExceeded || reason == quota.CostExceedsLimit:
		h.deny(w, d)
	case reason == quota.BadRequest:
		refuse(w, quota.BadRequest, "the number of calls of this request cannot be counted", 0)
	case r.Context().Err() != nil || reason == api.LedgerUnavailable || errors.Is(err, api.ErrLedgerUnavailable):
		refuse(w, api.LedgerUnavailable, unknown, h.jittered(time.Second))
	default:
		h.undecided(w, r, d, err)
	}
}

// unknown is the detail of a refusal where nothing was decided.
const unknown = "it is not known now whether there is room for this request"

// undecided passes on or refuses a request about which the daemon did not decide.
func (h *handler) undecided(w http.ResponseWriter, r *http.Request, d api.Decision, err error) {
	if err == nil {
		h.asker.complain(quota.Reason(d.Reason), d.Detail, d.Hint)
	} else if !isSilence(err) {
		p := api.ProblemFrom(err)
		h.asker.complain(p.Reason, p.Detail, p.Hint)
	}
	if h.FailClosed {
		refuse(w, api.LedgerUnavailable, unknown, h.jittered(time.Second))
		return
	}
	h.next.ServeHTTP(w, r)
}

// isSilence reports whether an error is that the daemon did not answer, or not in time.
func isSilence(err error) bool {
	return errors.Is(err, errAway) || errors.Is(err, api.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded)
}

// decide asks about a request, unless it would be rejected as malformed.
func (h *handler) decide(r *http.Request) (api.Decision, error) {
	operation, count := h.Cost(r)
	if count < 1 || count > int64(quota.MaxUnits) {
		return api.Decision{Reason: string(quota.BadRequest)}, nil
	}
	if operation != "" {
		if err := quota.CheckOperation(operation); err != nil {
			return api.Decision{Reason: string(quota.UnknownOperation), Detail: err.Error()}, nil
		}
	}
	return h.asker.decide(r.Context(), api.ClientRequest{Subject: h.subject(r), Operation: operation, Count: count})
}

func (h *handler) subject(r *http.Request) string {
	for _, identify := range h.Identify {
		if subject := identify(r); subject != "" {
			return bounded(subject)
		}
	}
	return h.addresses.subject(r)
}
