// Package term writes what a command says as a terminal can show it: prose that wraps,
// tables whose columns fit the screen, times relative to now, colours where they are
// understood, ASCII where nothing else is.
//
// A [View] says what the place can show (view.go); its methods write text (text.go,
// caller.go), and a [Table] is rendered for it (table.go). [Draw] and [Keyboard] are
// for a screen that is drawn again and again (screen.go, keyboard.go). Text from outside
// passes View.Clean, so that nothing a job printed becomes a terminal's command.
package term
