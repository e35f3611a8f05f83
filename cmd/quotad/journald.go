package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/rs/zerolog"
)

// A journald writes to systemd's, which takes the level of a line from the number
// ahead of it, see sd-daemon(3). Each line becomes one entry.
type journald struct{ io.Writer }

var _ zerolog.LevelWriter = journald{}

// longestEntry is how long a line may be. A longer one than LineMax, journald.conf(5),
// becomes several entries, and what stands where the next one begins may name
// another level.
const longestEntry = 48<<10 - len("<6>") - 1

// WriteLevel writes one line.
func (j journald) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	text := fmt.Appendf(nil, "<%d>%s", priority(level), shorten(escape(line), longestEntry))
	if _, err := j.Writer.Write(text); err != nil {
		return 0, err
	}
	return len(line), nil
}

// Write writes lines that come from no logger: they tell why quotad cannot run.
func (j journald) Write(lines []byte) (int, error) {
	for line := range bytes.Lines(lines) {
		if _, err := j.WriteLevel(zerolog.ErrorLevel, line); err != nil {
			return 0, err
		}
	}
	return len(lines), nil
}

// priority is what syslog(3) calls a level.
func priority(level zerolog.Level) int {
	switch level {
	case zerolog.TraceLevel, zerolog.DebugLevel:
		return 7
	case zerolog.WarnLevel:
		return 4
	case zerolog.ErrorLevel:
		return 3
	case zerolog.FatalLevel, zerolog.PanicLevel:
		return 2
	default:
		return 6
	}
}

// asJournal returns stderr as what it is: the journal, if it is the stream that
// systemd named as that in $JOURNAL_STREAM, see systemd.exec(5).
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

// Complaints logs what net/http has to say: none of it ends the daemon. What an upstream
// sends unasked, which net/http quotes, is left out: it may hold the key.
type complaints struct{ log zerolog.Logger }

// Write logs one message.
func (c complaints) Write(message []byte) (int, error) {
	text, _, _ := strings.Cut(string(message), " starting with ")
	c.log.Warn().Msg(strings.TrimSpace(text))
	return len(message), nil
}
