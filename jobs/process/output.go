package process

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"quotad/jobs"
)

// drainTimeout is how long a pipe is still read after the end of the command and of
// all that it started, if another process holds it open: a server that was passed
// it, or a process that could not be ended.
const drainTimeout = time.Second

// An output is what a command writes: two pipes, read all the time, and a queue
// that emits their lines.
type output struct {
	pipes    [2]*pipe // stdout, stderr
	queue    *queue
	reading  sync.WaitGroup
	emitting sync.WaitGroup
}

// A pipe is what a command writes to, and the reader of it.
type pipe struct {
	stream      string
	read, write *os.File
}

func openOutput(emit func(jobs.Line)) (*output, error) {
	o := &output{queue: newQueue(emit)}
	for i, stream := range [...]string{"stdout", "stderr"} {
		read, write, err := os.Pipe()
		if err != nil {
			for _, p := range o.pipes[:i] {
				p.close()
			}
			return nil, fmt.Errorf("a pipe for its %s: %w", stream, err)
		}
		o.pipes[i] = &pipe{stream, read, write}
	}
	return o, nil
}

// read begins to read what the command writes, which must have been started:
// now only it, and what inherits from it, can write.
func (o *output) read() {
	for _, p := range o.pipes {
		p.write.Close()
		o.reading.Go(func() { readLines(p.read, p.stream, o.queue.push) })
	}
}

// emitLines begins to emit lines.
func (o *output) emitLines() { o.emitting.Go(o.queue.run) }

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
	o.queue.close()
	o.emitting.Wait()
}

const (
	maxLine = 64 << 10 // how many bytes of a line are kept
	invalid = "\uFFFD" // stands for what is not UTF-8
)

// readLines emits what is read line by line, until the last writer has ended or the deadline has
// passed. It emits a line that gets too long at once: its end may never come.
func readLines(from io.Reader, stream string, emit func(jobs.Line)) {
	reader := bufio.NewReaderSize(from, maxLine+1)
	for inLine := false; ; {
		line, cut, err := reader.ReadLine()
		if err != nil {
			return
		}
		text := strings.ToValidUTF8(string(line[:min(len(line), maxLine)]), invalid)
		if cut {
			text = strings.TrimSuffix(text, invalid) // half a character
		}
		if !inLine {
			emit(jobs.Line{Stream: stream, Text: text, Cut: cut})
		}
		inLine = cut
	}
}

func (p *pipe) close() {
	p.read.Close()
	p.write.Close()
}

// mask replaces a secret.
const mask = "***"

// masked emits lines without the secrets that they hold literally, none of which is shorter than the
// mask. A line that was cut may end in the beginning of one: so much of it is left out. It does not find
// an encoded secret.
func masked(emit func(jobs.Line), secrets []string) func(jobs.Line) {
	if len(secrets) == 0 {
		return emit
	}
	valid := make([]string, len(secrets)) // as the lines are
	for i, secret := range secrets {
		valid[i] = strings.ToValidUTF8(secret, invalid)
	}
	// Of two that begin alike, the longer one is masked as a whole.
	slices.SortFunc(valid, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	var pairs []string
	for _, secret := range valid {
		pairs = append(pairs, secret, mask)
	}
	replacer := strings.NewReplacer(pairs...)
	return func(line jobs.Line) {
		line.Text = replacer.Replace(line.Text)
		if line.Cut && line.Dropped == 0 {
			line.Text = strings.ToValidUTF8(line.Text[:max(0, len(line.Text)-len(valid[0])+1)], "") + mask
		}
		emit(line)
	}
}
