// Package page serves one read-only page that shows how a quotad is.
//
// A Source asks a quotad for facts (source.go). A Picture is the facts as of one instant. Its
// methods say them in the words of package wording, so that page and terminal say the same
// (picture.go, day.go).
//
// Server.Serve asks a Look, such as Source.Look, for a picture at each interval, for all
// viewers together (server.go). It renders each picture into sections, by html/template
// (render.go, page.html), with curves and bars as SVG (curve.go, day.go, axis.go).
// An axis is in per cent of a width, so that text keeps its size on a telephone. A viewer
// gets the whole page once, and then, over a stream of events, the sections that have
// changed. Without scripts the page reloads itself. While quotad does not answer, the last
// picture stays, under a line that says since when.
//
// The guard refuses every request but that of a browser on this machine that asks for this
// page by name: other methods, other hosts and requests that another site makes.
//
// The package writes nothing to disk. Its one lock is that of Server, which guards the
// latest rendering. Nothing waits or writes while it is held.
package page
