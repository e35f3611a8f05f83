// Package page serves one read-only page that shows how a quotad is: what needs a person, the limits and the jobs.
//
// A Source asks a quotad for facts (source.go). A Picture is the facts as of one instant, in the words of package
// wording, so that page and terminal say the same (picture.go, chart.go). A Server renders a picture at each interval,
// for all viewers together (server.go, page.html). A script of the page reads it again every two seconds, and replaces
// what has changed. While quotad does not answer, the last picture stays, under a line that says since when.
//
// The guard refuses every request but that of a browser on this machine that asks for this page by name: other
// methods, other hosts and requests that another site makes.
//
// The package writes nothing to disk. Its one lock is that of Server, which guards the latest page. Nothing waits or
// writes while it is held.
package page
