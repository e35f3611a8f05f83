package process

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"quotad/jobs"
)

// maxLine is how many bytes of a line are kept.
const maxLine = 64 << 10

// A splitter is an io.Writer that splits what is written into lines.
type splitter struct {
	stream string
	emit   func(jobs.Line)

	line []byte // what has come of the present line
	cut  bool   // the present line is longer, and has been emitted
}

// Write never fails.
func (s *splitter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte{'\n'})
		s.add(part)
		if ended {
			s.end()
		}
		p = rest
	}
	return n, nil
}

// flush emits a last line that has no newline.
func (s *splitter) flush() {
	if len(s.line) > 0 {
		s.end()
	}
}

// add adds a part of a line. One that gets too long is emitted at once, not at
// its end, which may never come.
func (s *splitter) add(part []byte) {
	if s.cut {
		return
	}
	if room := maxLine - len(s.line); len(part) > room {
		s.line = append(s.line, part[:room]...)
		s.send(whole(s.line), true)
		s.cut = true
		return
	}
	s.line = append(s.line, part...)
}

func (s *splitter) end() {
	if !s.cut {
		s.send(bytes.TrimSuffix(s.line, []byte{'\r'}), false)
	}
	s.line, s.cut = s.line[:0], false
}

func (s *splitter) send(line []byte, cut bool) {
	s.emit(jobs.Line{Stream: s.stream, Text: strings.ToValidUTF8(string(line), "\uFFFD"), Cut: cut})
	s.line = s.line[:0]
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
