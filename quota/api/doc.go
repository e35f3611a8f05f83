// Package api is the client of the daemon's local API, HTTP/1.1 with JSON over a Unix socket, and
// the requests and answers as they are sent.
//
// The example of [Client] is a job's calls: granted, settled, denied.
//
// Client.Acquire, like the method for each other route, passes a request to exchange (transport.go). That encodes the
// body, sends it, and sends it again if a repetition does no harm. A refusal is a Problem. One table (problem.go) maps
// errors to reasons and statuses: the daemon reads it forwards, the client backwards.
//
// The package writes nothing to disk. Its lock is a Client's once, which makes its transport; it is not
// held while a connection is used. The daemon's side is in quota/server, which no client links.
package api
