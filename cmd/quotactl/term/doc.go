// Package term writes text for a terminal: prose that wraps, tables whose columns fit the
// screen, times relative to now, and colours if the terminal knows them.
//
// A [View] describes the output; its methods write text, or draw it over the screen (view.go). A
// [Table] becomes text for a view (table.go). Text from outside passes
// View.Clean, so that nothing a job printed can command the terminal.
package term
