// Package upstream reads what an upstream's answer says of its quota.
//
// [Classify] takes the status, the headers and the body of one answer and returns a [Verdict]: whether a limit is
// exhausted, which one, until when, in the upstream's own words, and what it says is left. First counts what a
// [Format] says of the reasons in the body, whatever the status is; then Google's envelope (google.go), by the unit
// and the name of the limit before its reasons; then the header; the status last. A refusal for a quota that nothing
// explains is [Unknown]. What an answer does not say stays unknown: an absent header is not zero.
//
// An [Observer] classifies each [Observation], closes the limit that it is about in the ledger (limit.go finds it),
// and compares what the upstream says is left with our count. How often nothing explained a refusal is known to this
// process alone. Its one lock guards what it knows in memory, and is never held over a call.
//
// The package reads no clock and no file.
package upstream
