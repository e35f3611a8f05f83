// Package trouble decides what needs a person: what is not as configured or planned, and does not mend itself by the
// next slot. It is the only place that judges this. The status, the page, the line of systemctl status, the events and
// the metric follow from its list.
//
// A [State] holds the facts, which the daemon collects; [List] judges them (ledger.go, limits.go, jobs.go). It
// is pure: it reads no clock, and forgets everything. A [Book] knows what there was before, so that each
// trouble is reported once when it begins and once when it ends (book.go).
//
// The package has no files and no locks.
package trouble
