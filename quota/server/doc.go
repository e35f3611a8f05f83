// Package server is the daemon's local API: HTTP/1.1 over a Unix socket.
//
// A request goes this way. Door.Serve accepts a connection, which the limiter
// counts by the user at its other end (SO_PEERCRED), or answers 503 where there are
// too many. The Door hands the request to the Server that it leads to: one that is
// Refusing while the daemon cannot serve, else the one that decides. ServeHTTP refuses what a browser sends, and the mux finds the Route.
// Its guard makes a Session of the request: who calls, with which run token, and
// whether the route's Access is for them. The Handler decodes the fields of the body or
// the query into a struct, asks the quota.Service, or for clients the clientlimit.Service,
// and writes JSON. What is refused is
// an api.Problem.
//
// Callers on other hosts come by a Door of their own, over TLS, to the same Server. A Remote
// knows each by its token (identity.go); remoteRoutes is the one table of what they may ask
// for, and a RemoteCaller lists with what (remote.go).
//
// Shutdown accepts nothing more, ends the streams that follow a log, answers every
// request that has arrived, and then closes what is left.
//
// The package writes nothing to disk but the socket that Listen makes. Its locks are
// those of limiter, longReads, refusals, wrongTokens and remoteCounts. None is held while another is taken, nor
// while anything is read, written or waited for.
package server
