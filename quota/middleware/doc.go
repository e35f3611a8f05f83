// Package middleware gives each client of a net/http server a budget of its own, which a [Limiter] keeps: a daemon, or
// without one a Redis that several servers share (redisledger.OpenClients).
//
// Handler identifies the subject of a request (identify.go) and its cost, and asks the limiter (handler.go). A granted
// request is passed on, with RateLimit and RateLimit-Policy set already, so that any answer has them. A denied one is
// answered with 429, Retry-After and problem details (answer.go), which do not say who was denied. What was granted
// without the ledger has the field Quotad-Mode: outage.
//
// Without an answer within Options.Timeout, requests are passed on, or refused with 503 if FailClosed is set. Then one
// request in a quarter of a second still asks, so that a daemon that is frozen does not delay each of them.
//
// The package writes no files and starts no goroutine. A handler's mu is not held while it asks.
package middleware
