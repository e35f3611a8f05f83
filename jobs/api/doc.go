// Package api asks the daemon for its jobs and their runs: the answers as they are sent
// (wire.go), and the client (client.go), on that of quota/api. The handlers are in
// jobs/server. There are no files and no locks.
package api
