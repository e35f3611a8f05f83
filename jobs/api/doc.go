// Package api is the client of the daemon's jobs and their runs (client.go), built on that of
// quota/api, and the requests and answers as they are sent (wire.go). The handlers are in
// jobs/server. The package has no files and no locks.
package api
