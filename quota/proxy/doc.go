// Package proxy meters calls of programs that know nothing of quotad: they change the base
// address of the API, and each of their calls is acquired, sent and settled here.
//
// A request goes this way. [Proxy.ServeHTTP] finds its site (site.go): the pass whose run
// token stands in the path or as the API key, the credential's one [Target], and by its
// [Routes] the operation; what no route matches is refused. An exchange (exchange.go)
// acquires the units before anything is sent, and again before the transport sends the
// request once more; then httputil.ReverseProxy sends it with the real key (target.go),
// and passes the answer on unbuffered, with the key overwritten wherever the upstream
// repeats it (secret.go, body.go). What the upstream says in an answer goes to an
// upstream.Observer before the client has all of it (answer.go). In the end what was never
// sent, or is free by the upstream's rule of [Billing], is given back; after a crash in
// between it stays debited. Refusals are worded as the upstream words its own (refusal.go).
//
// To the upstream HTTP/1.1 is spoken: with one request at a time on a connection it is
// known what was written.
//
// What several readers may understand differently is refused rather than changed
// (query.go). Of a proxy that is full, connections without a run token are closed first
// (connections.go).
//
// The package writes nothing to disk, and no key to anything but the upstream: a [secret]
// says which spellings of it are found, and the daemon's README which are not. The lock of
// an exchange is never held over a call, nor that of the listener, and neither is held with
// the other; the targets are a snapshot that is replaced as a whole.
package proxy
