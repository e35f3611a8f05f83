// Package middleware gives each client of a net/http server a budget of its own, which a [Limiter] keeps: a daemon, or
// without one a Redis that several servers share (redisledger.OpenClients).
//
// A request goes this way. Handler identifies its subject (identify.go) and its cost, and asks the limiter
// (limiter.go). A granted request is passed on, with the fields RateLimit and RateLimit-Policy set already, so that any
// answer of the handler has them; a denied one is answered with 429, Retry-After and problem details (answer.go), which
// do not say who was denied. What was granted without the ledger has the field Quotad-Mode: outage.
//
// Without an answer of the daemon within Options.Timeout, requests are passed on, or refused with 503 if FailClosed is
// set. Then one request in a quarter of a second still asks, so that a daemon that is frozen does not delay each of them.
//
// What clients send is never trusted: X-Forwarded-For counts from proxies that are configured, and a subject of any
// length or bytes reaches the limiter as a short one.
//
// The package writes no files and starts no goroutine. Its lock is an asker's mu, which is not held while it asks.
package middleware
