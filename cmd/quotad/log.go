package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rs/zerolog"
	"golang.org/x/term"
)

// newLogger returns a logger that people can read on a terminal; elsewhere it
// writes one JSON object a line, which begins with its message.
func newLogger(w io.Writer) zerolog.Logger {
	if isTerminal(w) {
		w = zerolog.ConsoleWriter{
			Out:         w,
			TimeFormat:  time.TimeOnly,
			NoColor:     os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb",
			FieldsOrder: []string{"job", "region", "outcome", "state", "reason", "detail", "units", "calls"},
			// On a terminal the job and the region are enough.
			FieldsExclude: []string{"run", "stream", "slot", "pid"},
			FormatPrepare: cleanMessage,
		}
	} else if _, ok := w.(journald); !ok {
		w = escaped{w}
	}
	return zerolog.New(w).With().Timestamp().Logger()
}

// isTerminal reports whether what is written can be read on a terminal.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
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

// setLevel sets the minimum level of every logger.
func setLevel(level string) {
	parsed, _ := zerolog.ParseLevel(level) // the configuration has only levels that parse
	zerolog.SetGlobalLevel(parsed)
}

// An escaped writer writes lines of JSON that are safe to show on a terminal.
type escaped struct{ io.Writer }

// Write writes one line.
func (e escaped) Write(line []byte) (int, error) {
	_, err := e.Writer.Write(escape(messageFirst(line)))
	return len(line), err
}

// messageFirst moves the message, which zerolog writes last, to the beginning of a line: systemctl
// status cuts a line at the width of the terminal. A quote within a string is escaped, so what is
// found is a member.
func messageFirst(line []byte) []byte {
	const member = `,"message":"`
	at := bytes.LastIndex(line, []byte(member))
	if end := bytes.LastIndexByte(line, '}'); at > 0 && line[0] == '{' && end > at {
		return slices.Concat(line[:1], line[at+1:end], []byte(","), line[1:at], line[end:])
	}
	return line
}

// escape escapes control characters as JSON does, including U+007F to U+009F, which JSON need not escape. With one of
// these, journalctl shows an entry as a number of bytes.
func escape(line []byte) []byte {
	if !bytes.ContainsFunc(line, isControl) {
		return line
	}
	var escaped []byte
	for _, r := range string(line) {
		if isControl(r) {
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		} else {
			escaped = utf8.AppendRune(escaped, r)
		}
	}
	return escaped
}

func isControl(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f
}

// A journald writes to systemd's journal, which reads the level of a line from the number before it, see
// sd-daemon(3). Each line becomes one entry: LineMax of journald.conf(5) is 48 KiB, and what a job writes comes
// in lines of 7.
type journald struct{ io.Writer }

var _ zerolog.LevelWriter = journald{}

// priorities are the numbers of levels in syslog(3).
var priorities = map[zerolog.Level]int{zerolog.DebugLevel: 7, zerolog.InfoLevel: 6, zerolog.WarnLevel: 4, zerolog.ErrorLevel: 3}

// WriteLevel writes one line.
func (j journald) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	_, err := fmt.Fprintf(j.Writer, "<%d>%s", priorities[level], escape(messageFirst(line)))
	return len(line), err
}

// Write writes lines that come from no logger: they say why quotad cannot run.
func (j journald) Write(lines []byte) (int, error) {
	for line := range bytes.Lines(lines) {
		if _, err := j.WriteLevel(zerolog.ErrorLevel, line); err != nil {
			return 0, err
		}
	}
	return len(lines), nil
}

// asJournal returns stderr as a journald if systemd named it as the stream of the journal
// in $JOURNAL_STREAM, see systemd.exec(5).
func asJournal(stderr io.Writer, stream string) io.Writer {
	file, isFile := stderr.(*os.File)
	if !isFile || stream == "" {
		return stderr
	}
	var stat syscall.Stat_t
	if err := syscall.Fstat(int(file.Fd()), &stat); err != nil || stream != fmt.Sprintf("%d:%d", stat.Dev, stat.Ino) {
		return stderr
	}
	return journald{stderr}
}

// Complaints logs the messages of net/http: none of them ends the daemon. Unrequested data of an upstream,
// which net/http quotes, is left out: it may hold the key. A public listener has many connections that come to
// no TLS.
type complaints struct{ log zerolog.Logger }

// Write logs one message.
func (c complaints) Write(message []byte) (int, error) {
	text, _, _ := strings.Cut(string(message), " starting with ")
	level := zerolog.WarnLevel
	if strings.Contains(text, "TLS handshake error") {
		level = zerolog.DebugLevel
	}
	c.log.WithLevel(level).Msg(strings.TrimSpace(text))
	return len(message), nil
}
