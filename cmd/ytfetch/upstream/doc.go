// Package upstream is a metered video API in one process: it answers videos.list and
// search.list as the YouTube Data API documents them and charges every request, 1 unit or
// 100, against a true daily quota of its own. ytfetch answers samples from it. Tests serve it
// and compare what it charged with what quotad debited.
//
// An Upstream (upstream.go) is an http.Handler and, without a network, an
// http.RoundTripper. videos.go invents the videos of a chart, and those that a search finds;
// lists.go answers both operations with pages of them, and errors.go refuses. Inject puts a
// fault before the next calls. One mutex guards what was charged and which faults come.
package upstream
