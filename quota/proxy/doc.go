// Package proxy meters calls of programs that know nothing of quotad: they change the base
// address of the API, and each of their calls is acquired, sent and settled here.
//
// A request goes this way. [Proxy.ServeHTTP] finds its call (call.go): the pass whose run
// token is in the path or is the API key, the credential's one [Target], and by its
// [Routes] the operation; what no route matches is refused. An exchange (exchange.go)
// acquires the units before anything is sent, and again before the transport sends the
// request once more; then httputil.ReverseProxy sends it with the real key (call.go),
// and passes the answer on unbuffered (answer.go), with the key overwritten wherever the
// upstream repeats it (secret.go). An upstream.Observer sees what the upstream answered before
// the client has all of it. In the end the exchange releases what was never sent, or is free
// by the upstream's rule of [Billing]; after a crash in between it stays debited. Refusals are
// worded as the upstream words its own (refusal.go).
//
// The proxy speaks HTTP/1.1 to the upstream: with one request at a time on a connection it
// is known what was written.
//
// What several readers may understand differently is refused rather than changed
// (call.go). Of a proxy that is full, connections without a run token are closed first, and
// a slow client costs one connection, for a bounded time (connections.go).
//
// The package writes nothing to disk, and no key to anything but the upstream: a [secret]
// says which spellings of it are found, and cmd/quotad/PROXY.md which are not. A [Key]
// that ends is asked for again by its own goroutine (key.go). The lock of an exchange is never held
// over a call, nor those of the limiter and of a key, and none is held with another; the targets are
// a snapshot that is replaced as a whole.
package proxy
