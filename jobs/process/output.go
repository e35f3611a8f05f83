package process

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"quotad/jobs"
)

const (
	// drainTimeout is how long a pipe is still read after the end of the command and of all that it started, if
	// another process holds it open: a server that was passed it, or a process that could not be ended.
	drainTimeout = time.Second

	maxLine = 7 << 10  // bytes of a line; a longer one is split. With its fields it is one entry of the journal.
	invalid = "\uFFFD" // stands for what is not UTF-8
	mask    = "***"    // replaces a secret
)

// An output is what a command writes: two pipes. A line that is not taken keeps the command waiting, once its pipe is
// full.
type output struct {
	pipes   [2]*pipe // stdout, stderr
	reading sync.WaitGroup
}

// A pipe is what a command writes to, and the reader of it.
type pipe struct {
	stream      string
	read, write *os.File
}

func openOutput() (o *output, err error) {
	o = &output{pipes: [2]*pipe{{stream: "stdout"}, {stream: "stderr"}}}
	for _, p := range o.pipes {
		var wrong error
		p.read, p.write, wrong = os.Pipe()
		err = errors.Join(err, wrong)
	}
	if err != nil {
		o.close()
	}
	return o, err
}

// read begins to emit what the command writes, which must have been started: now only it, and what inherits from it,
// can write. One line is emitted at a time.
func (o *output) read(secrets []string, emit func(jobs.Line)) {
	var one sync.Mutex
	for _, p := range o.pipes {
		p.write.Close()
		o.reading.Go(func() {
			newLines(secrets, func(text string, cut bool) {
				one.Lock()
				defer one.Unlock()
				emit(jobs.Line{Stream: p.stream, Text: text, Cut: cut})
			}).read(p)
		})
	}
}

// close returns when everything that was written has been emitted.
func (o *output) close() {
	deadline := time.Now().Add(drainTimeout)
	for _, p := range o.pipes {
		_ = p.read.SetReadDeadline(deadline)
	}
	o.reading.Wait()
	for _, p := range o.pipes {
		p.close()
	}
}

// Read implements io.Reader. Past the deadline it returns what the pipe still holds.
func (p *pipe) Read(b []byte) (n int, err error) {
	n, err = p.read.Read(b)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	_ = p.read.SetReadDeadline(time.Time{})
	conn, err := p.read.SyscallConn()
	if err == nil {
		err = conn.Read(func(fd uintptr) bool { n, _ = syscall.Read(int(fd), b); return true })
	}
	if n <= 0 || err != nil {
		return 0, io.EOF
	}
	_ = p.read.SetReadDeadline(time.Unix(1, 0))
	return n, nil
}

func (p *pipe) close() {
	p.read.Close()
	p.write.Close()
}

// Lines splits what is read into lines, without the secrets that they hold literally. It does not find an encoded secret.
type lines struct {
	emit    func(text string, cut bool)
	secrets []string // the longest first: of two that begin alike, the longer one is masked as a whole
	masked  *strings.Replacer
	waiting []byte // the beginning of a line, which has room for a part of one and the longest secret
}

func newLines(secrets []string, emit func(text string, cut bool)) *lines {
	l := &lines{emit: emit, secrets: slices.Clone(secrets)}
	slices.SortFunc(l.secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	longest := 0
	var pairs []string
	for _, secret := range l.secrets {
		longest, pairs = max(longest, len(secret)), append(pairs, secret, mask)
	}
	l.masked, l.waiting = strings.NewReplacer(pairs...), make([]byte, 0, maxLine+longest+len("\r\n"))
	return l
}

// read emits what is read until the last writer has ended.
func (l *lines) read(from io.Reader) {
	for err := error(nil); err == nil; {
		var n int
		n, err = from.Read(l.waiting[len(l.waiting):cap(l.waiting)])
		l.waiting = l.waiting[:len(l.waiting)+n]
		for l.next(err != nil) {
		}
	}
}

// next emits a line that has ended, the last one, or a part of one that is too long: its end may never come.
func (l *lines) next(last bool) bool {
	end, n := bytes.IndexByte(l.waiting, '\n'), len(l.waiting)
	switch {
	case end >= 0 && end <= maxLine+len("\r"):
		l.take(end, 1, false)
	case end >= 0, n == cap(l.waiting), last && n > maxLine:
		l.take(l.part(), 0, true)
	case last && n > 0:
		l.take(n, 0, false)
	default:
		return false
	}
	return true
}

// part returns where a line that is too long is split: not within a character, nor within a secret.
func (l *lines) part() int {
	end := maxLine
	for end > maxLine-utf8.UTFMax && !utf8.RuneStart(l.waiting[end]) {
		end--
	}
	for i := 0; i < len(l.secrets); i++ {
		secret := l.secrets[i]
		from := max(0, end-len(secret)+1)
		if at := bytes.Index(l.waiting[from:min(len(l.waiting), end+len(secret)-1)], []byte(secret)); at >= 0 {
			if from+at == 0 {
				return len(secret)
			}
			end, i = from+at, -1 // another one may end there
		}
	}
	return end
}

// take emits what stands before an end, and removes it with what separates it from the next.
func (l *lines) take(end, separator int, cut bool) {
	text := l.waiting[:end]
	if !cut {
		text = bytes.TrimSuffix(text, []byte("\r"))
	}
	l.emit(strings.ToValidUTF8(l.masked.Replace(string(text)), invalid), cut)
	l.waiting = l.waiting[:copy(l.waiting, l.waiting[end+separator:])]
}
