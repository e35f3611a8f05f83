package process

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"quotad/jobs"
)

// maxLine is how many bytes of a line are kept.
const maxLine = 64 << 10

// A lineWriter is an io.Writer that splits what is written into lines.
type lineWriter struct {
	stream string
	emit   func(jobs.Line)

	line []byte // what has come of the present line
	cut  bool   // the present line is longer, and has been emitted
}

// Write never fails.
func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte{'\n'})
		w.add(part)
		if ended {
			w.end()
		}
		p = rest
	}
	return n, nil
}

// flush emits a last line that has no newline.
func (w *lineWriter) flush() {
	if len(w.line) > 0 {
		w.end()
	}
}

// add adds a part of a line. One that gets too long is emitted at once, not at
// its end, which may never come.
func (w *lineWriter) add(part []byte) {
	if w.cut {
		return
	}
	if room := maxLine - len(w.line); len(part) > room {
		w.line = append(w.line, part[:room]...)
		w.send(whole(w.line), true)
		w.cut = true
		return
	}
	w.line = append(w.line, part...)
}

func (w *lineWriter) end() {
	if !w.cut {
		w.send(bytes.TrimSuffix(w.line, []byte{'\r'}), false)
	}
	w.line, w.cut = w.line[:0], false
}

func (w *lineWriter) send(line []byte, cut bool) {
	w.emit(jobs.Line{Stream: w.stream, Text: strings.ToValidUTF8(string(line), "\uFFFD"), Cut: cut})
	w.line = w.line[:0]
}

// whole returns a line without the character that was cut through at its end.
func whole(line []byte) []byte {
	for i := len(line) - 1; i >= max(0, len(line)-utf8.UTFMax); i-- {
		if utf8.RuneStart(line[i]) {
			if !utf8.FullRune(line[i:]) {
				return line[:i]
			}
			break
		}
	}
	return line
}
