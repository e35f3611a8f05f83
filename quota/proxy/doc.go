// Package proxy meters calls of programs that know nothing of quotad: they change the base
// address of the API, and each of their calls is acquired, sent and settled here.
//
// A request goes this way. [Proxy.ServeHTTP] finds its call (call.go): the pass whose run token is in the path or is
// the API key, the credential's one [Target], and by its [Routes] the operation; what no route matches is refused,
// and so is what several readers may understand differently. An exchange (exchange.go) acquires the units of one
// sending; then httputil.ReverseProxy sends the request with the real key (call.go), and passes the answer on
// unbuffered. Of an error, and where an answer may refuse whatever its status is, the beginning is read first: an
// upstream.Observer sees it before the client does, and the key is overwritten in errors (answer.go). In the end the
// grant is settled to what was sent, less what is free; after a crash in between it stays debited. Refusals are
// worded as the upstream words its own (refusal.go).
//
// The proxy speaks HTTP/1.1 to the upstream: with one request at a time on a connection it is known what was written.
//
// The package writes nothing to disk, and no key to anything but the upstream. A [Key] that ends is asked for again
// by a goroutine of its own (key.go). The lock of an exchange and that of a key are never held over a call, nor one
// with the other; the targets are a snapshot that is replaced as a whole.
package proxy
