// Package upstream is a metered video API in one process: it answers videos.list as the
// YouTube Data API documents it and charges every request against a true daily quota of
// its own. ytfetch answers samples from it; tests serve it and compare what it charged
// with what quotad debited.
//
// An Upstream is an http.Handler (upstream.go) and, without a network, an
// http.RoundTripper (transport.go). chart.go makes up the pages, videos.go what stands on
// them, errors.go the answers to what is refused. Inject puts a fault before the next
// calls. One mutex guards what was charged and which faults come.
package upstream
