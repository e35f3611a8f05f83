package main

import (
	"cmp"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/rs/zerolog"
	"golang.org/x/term"
)

// newLogger returns a logger that people can read on a terminal; elsewhere it
// writes one JSON object a line.
func newLogger(w io.Writer, level string) zerolog.Logger {
	// The only knob that zerolog has for it: seconds are too coarse to tell in
	// which order things happened.
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		w = zerolog.ConsoleWriter{
			Out:         file,
			TimeFormat:  time.TimeOnly,
			NoColor:     os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb",
			FieldsOrder: []string{"job", "region", "outcome", "state", "reason", "detail", "units", "calls"},
			// Here the job and the region say enough.
			FieldsExclude: []string{"run", "stream", "slot", "pid"},
			FormatPrepare: cleanMessage,
		}
	} else if _, ok := w.(journal); !ok {
		w = escaped{w}
	}
	setLevel(level)
	return zerolog.New(w).With().Timestamp().Logger()
}

// cleanMessage keeps the control characters of a message from a terminal: most
// messages are what a job prints. The other fields are quoted.
func cleanMessage(event map[string]any) error {
	if message, ok := event[zerolog.MessageFieldName].(string); ok {
		event[zerolog.MessageFieldName] = strings.Map(func(r rune) rune {
			if unicode.IsPrint(r) || r == '\t' {
				return r
			}
			return '?'
		}, message)
	}
	return nil
}

// setLevel has every logger write what is of a level, and above, from now on.
// Empty means info.
func setLevel(level string) {
	parsed, err := zerolog.ParseLevel(cmp.Or(level, "info"))
	if err != nil {
		parsed = zerolog.InfoLevel // the configuration knows only levels that parse
	}
	zerolog.SetGlobalLevel(parsed)
}
