// Package upstream reads what an upstream's answer says of its quota.
//
// [Classify] takes the status, the headers and the body of one answer and returns a
// [Verdict]: whether a limit is exhausted, which one, until when, in the upstream's
// own words, and what it says is left. It decides by structure: by the unit of the
// quota ("1/d/{project}"), then by the limit's name, then by the limit that the
// message names. Then a reason decides that means one thing, such as a suspended key; then the
// words, because one reason means a rate with one upstream and a day with another; then any other
// reason, and the status last. The size of a number decides nothing: a wait of ten hours does not
// make a day of a minute.
//
// What an answer does not say stays unknown: an absent header is not zero. A reset
// that cannot be right is an error, not a time; a Retry-After that cannot be right is as if it were
// absent. A refusal that nothing explains closes a limit for a minute.
//
// An [Observer] classifies each [Observation], closes the limit that it is about in the
// ledger, at most until that limit's own window is over, and compares what the upstream says
// is left with our count (a [Drift]). Its one lock guards what it knows in memory, and is
// never held over a call.
//
// verdict.go decides the class, by what body.go and header.go read and by the tables of reasons.go
// and words.go; observer.go closes, and drift.go compares.
//
// The package reads no clock and no file. A [Format] says what is particular to one
// upstream; its zero value reads the forms that several of them share.
package upstream
