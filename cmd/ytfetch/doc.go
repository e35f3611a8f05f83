// Command ytfetch is the reference fetch job: it fetches the trending videos of one region
// from the YouTube Data API, or those that are new there for a query, asks quotad before
// every call, keeps what it fetched and finds it again.
//
// pass.go wires a pass of trending or discover together, goes from page to page, and waits where
// it may call again. A page of a chart is one call, a page of a query a search and a list of what
// is new. For each call a pass acquires, calls upstream (youtube.go), and releases the grant of a
// call that was never sent (call.go). classify.go classifies what upstream answers instead of a
// page. Pages are kept in SQLite (package store). bookmark.go leaves a bookmark at quotad, and
// begins the next pass of the region there, after what is stored. exit.go says how the process
// ends. Package upstream is a sample of the API: for --sample, for tests, and over HTTP (serve.go).
//
// A page and how far the chart is are one transaction; the bookmark follows. If a pass is
// killed between the two, the next one finds a bookmark that names a stored page, and
// continues after it: the bookmark names the chart too.
//
// search.go finds what is stored, and videos in it.
//
// A pass writes OUT/videos.db, each page as a whole, and at its end removes from it what is too
// old. There are no locks of ours and no goroutines.
package main
