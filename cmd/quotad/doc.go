// Quotad is the daemon: it runs jobs by a schedule, and decides over a local socket which call
// may spend from which budget.
//
// main.go and options.go read the command line. Package config reads the file. check.go reports
// what would keep quotad from serving.
//
// A daemon (daemon.go) is put together by open (start.go), in an order that is written down there: what can
// keep quotad from starting fails there, and ends it. start begins its work, and stop takes it apart in the
// reverse order: no new runs, the passes under way, the API, the ledger. Its parts are the state directory
// (lock.go), the ledger and the counts of clients (ledger.go), the runner of the jobs with what passes need
// (passes.go), the proxy and its keys (proxy.go), and a listener for callers on other hosts, whose certificate
// is read again while it is used (remote.go). A signal stops it, and reload.go reads the configuration again on
// SIGHUP. systemd.go reads what systemd passes, and reports to it. watch.go looks at the daemon now and then:
// it collects its state, of which package trouble lists what needs a person. facts.go keeps what only events
// say.
//
// The daemon has one stream of events (emit). Its sinks are the log (eventlog.go, and log.go for its format),
// the metrics, the refusals that the API lists, the facts, the watch for events, and the notifier that runs the
// command for them.
//
// In the state directory quotad keeps the lock (lock.go), the journals and the counts of clients (ledger.go),
// and what package jobs keeps. Of the locks of this package daemon.reloading is held while one configuration
// replaces another, facts.mu and eventLog.mu for a look-up, and that of a certificate while its two files are
// read. None is taken under another.
package main
