// Package page serves one read-only page that shows how a quotad is.
//
// The caller says by Look what is to be shown: a Picture, whose texts are quotactl's own
// words, so that page and terminal say the same. Server.Serve asks for one again and again,
// for all viewers together. Each picture is rendered into sections (render.go), by
// html/template with curves and bars as SVG (curve.go, day.go, axis.go); an axis is in
// per cent of a width, so that text keeps its size on a telephone. A viewer gets the whole
// page once, and then, over a stream of events, the sections that have changed; without
// scripts the page loads itself again. While nothing can be asked, the last picture stays,
// under a line that says since when.
//
// Guard lets nobody in but a browser on this machine that asks for this page by name:
// other methods, other hosts and requests that another site makes are refused.
//
// The package writes nothing to disk. Its one lock is that of Server, which guards the
// latest rendering; nothing is waited for or written while it is held.
package page
