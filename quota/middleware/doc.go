// Package middleware gives each client of a net/http server a budget of its own, which
// the daemon keeps: on one host in its file, on several in the Redis that they share.
//
// Without a daemon, Open returns limits that this process decides by itself, on a store such as a Redis, which other
// servers may share (Options.Limits, and the example of Open).
//
// A request goes this way. Handler identifies its subject (identify.go) and
// its cost, and asks the daemon over its socket (limiter.go): a request that finds no batch
// in flight asks at once, and those that come meanwhile share the next one. A granted request
// is passed on, with the fields RateLimit and RateLimit-Policy set already, so that any
// answer of the handler has them; a denied one is answered with 429, Retry-After
// and problem details (answer.go), which do not say who was denied.
//
// Without an answer from the daemon within Options.Timeout requests are passed on, or
// refused with 503 if FailClosed is set. Then one request in a quarter of a second still
// asks, so that a daemon that is frozen does not delay each of them.
//
// What clients send is never trusted: X-Forwarded-For counts from proxies that are
// configured, and a subject of any length or bytes reaches the daemon as a short one, so
// that a client does not avoid the limits by what the daemon would refuse to read.
//
// The package writes no files. Only Open starts a goroutine, which reads what servers share until Close. Its locks are a limiter's mu and
// its batcher's; neither is held while the other is taken, nor while the daemon is asked.
package middleware
