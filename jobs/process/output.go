package process

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"quotad/jobs"
)

// lastWords is how long a pipe is still read after the command and all it
// started are gone, if somebody else holds it open: a server that was handed
// it, or a process that could not be ended.
const lastWords = time.Second

// An output is what a command writes: two pipes, read all the time, and a feed
// that hands their lines on.
type output struct {
	stdout, stderr *pump
	feed           *feed
	reading        sync.WaitGroup
	handing        sync.WaitGroup
}

// A pump reads one pipe.
type pump struct {
	read, write *os.File
	lines       *splitter
}

func openOutput(hand func(jobs.Line)) (*output, error) {
	o := &output{feed: newFeed(hand)}
	var err error
	if o.stdout, err = newPump("stdout", o.feed); err != nil {
		return nil, err
	}
	if o.stderr, err = newPump("stderr", o.feed); err != nil {
		o.stdout.close()
		return nil, err
	}
	return o, nil
}

func newPump(stream string, f *feed) (*pump, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("a pipe for its %s: %w", stream, err)
	}
	return &pump{read: read, write: write, lines: &splitter{stream: stream, emit: f.push}}, nil
}

// read begins to read what the command writes, which must have been started:
// now only it, and who inherits from it, can write.
func (o *output) read() {
	for _, p := range []*pump{o.stdout, o.stderr} {
		p.write.Close()
		o.reading.Go(p.run)
	}
}

// handOver begins to hand lines on.
func (o *output) handOver() { o.handing.Go(o.feed.run) }

// close returns when everything that was written has been handed on.
func (o *output) close() {
	deadline := time.Now().Add(lastWords)
	for _, p := range []*pump{o.stdout, o.stderr} {
		_ = p.read.SetReadDeadline(deadline)
	}
	o.reading.Wait()
	o.stdout.close()
	o.stderr.close()
	o.feed.close()
	o.handing.Wait()
}

func (p *pump) run() {
	_, _ = io.Copy(p.lines, p.read) // ends with the last writer, or at the deadline
	p.lines.flush()
}

func (p *pump) close() {
	p.read.Close()
	p.write.Close()
}
