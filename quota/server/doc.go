// Package server is the daemon's local API: HTTP/1.1 over a Unix socket.
//
// A request takes this path. A Frontend accepts a connection if there is a place for it, in all and for the user at its
// other end (SO_PEERCRED); root and the admin group have some of their own. Else the connection is closed.
// Server.ServeHTTP refuses what a browser sends, and the mux finds the Route. Its guard makes a Session of the request:
// who calls, with which run token, and whether the route's Access allows it. The Handler decodes the fields of the body
// or the query into a struct (decode.go), asks the quota.Service, or for clients the clientlimit.Service, and writes
// JSON (answer.go). A refusal is an api.Problem.
//
// Callers on other hosts come through a Frontend of their own to the same Server. A Remote knows each by its token;
// remoteRoutes is the one table of what they may ask for, and a RemoteCaller lists with what.
//
// The example serves the API from a program of one's own.
//
// Shutdown accepts nothing more, gives connections that have not asked yet a moment for it, answers every
// request that has arrived, and then closes what is left.
//
// The package writes the socket that Listen makes. Its locks are those of Frontend and Denials. None
// is held while another is taken, nor during I/O or a wait.
package server
