// Package api is how a program asks the daemon: the requests and answers of its local
// API as they are sent, HTTP/1.1 with JSON over a Unix socket, and the Client.
//
// A call goes this way. Client.Acquire, or another method for each route, hands a
// request to exchange, which encodes the body, sends it, and sends it again where a
// repetition can do no harm. What is refused is a Problem. One table binds errors,
// reasons and statuses: the daemon reads it forwards, the client backwards.
//
// Nothing is written to disk. The only lock is a Client's once, which makes its
// transport. The daemon's side is in quota/server, which no client links.
package api
