// Quotad is the daemon: it runs jobs by a schedule, and decides over a local socket who
// may spend from which budget.
//
// main.go and options.go read the command line; config reads the file, and check.go says
// what would keep quotad from serving. A supervisor (supervisor.go) holds the socket for as
// long as the process lives, and opens a daemon, again and again until one can serve:
// meanwhile every caller is refused with the reason (refuse.go). A daemon (daemon.go) is
// put together by open, in an order that is written down there, set going by live (serve.go),
// and taken apart by stop in the reverse order: no new runs, the passes under way, the API,
// the ledger. A signal stops it, and reload.go reads the
// configuration again on SIGHUP. systemd.go, statusline.go and watchdog.go speak to
// systemd. What happens is one stream of events (events.go), whose sinks are the log
// (eventlog.go, log.go, journald.go), the metrics, the notifications and the status line.
//
// Callers on other hosts are answered by a listener of their own (remote.go), whose certificate
// is read again when its files change (certificate.go).
//
// In the state directory quotad keeps the lock (lock.go), its name among other daemons
// (ledger.go), the ledger or its journal, and what package jobs keeps. Of the
// locks of this package reloads.mu is held while one configuration replaces another,
// refusals.mu for a look-up, and that of a certificate while its two files are read; none is taken under another.
package main
