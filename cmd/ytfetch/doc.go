// Command ytfetch is the reference fetch job: it fetches the trending videos of one
// region from the YouTube Data API and asks quotad before every call.
//
// main.go wires one pass together; pass.go goes from page to page. For each it acquires,
// calls upstream, and releases the grant of a call that was never sent (call.go). What
// upstream answers instead of a page is classified by classify.go, and retry.go waits
// where it may. store.go keeps a page, bookmark.go tells quotad where the next pass of the
// region begins, and exit.go says how the process ends. Package upstream is a sample of
// the API, for --sample and for tests.
//
// A pass writes to OUT/REGION/SLOT/page-NNN.jsonl, each page as a whole. There are no
// locks and no goroutines.
package main
