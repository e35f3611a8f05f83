// Package middleware gives each client of a net/http server a budget of its own, which
// the daemon keeps: on one host in its file, on several in the Redis that they share.
//
// A request goes this way. Handler finds out whose it is (identify.go, address.go) and
// what it costs, and asks the daemon over its socket (limiter.go): whoever finds no question
// under way asks at once, and those who come meanwhile share the next one. What is granted
// is passed on, with the fields RateLimit and RateLimit-Policy set already, so that they
// stand on whatever the handler answers; what is denied is answered with 429, Retry-After
// and problem details (answer.go), which say nothing of who was denied.
//
// Without an answer from the daemon within Options.Timeout requests are passed on, or
// refused with 503 if FailClosed is set. Then one request in a quarter of a second goes on
// asking, so that a daemon that is frozen does not delay each of them.
//
// What clients send is never taken on trust: X-Forwarded-For counts from proxies that are
// configured, and a subject of any length or bytes reaches the daemon as a short one, so
// that nobody gets past the limits by what the daemon would refuse to read.
//
// The package writes no files and starts no goroutines. Its locks are a limiter's mu and
// its batcher's; neither is held while the other is taken, nor while the daemon is asked.
package middleware
