package server

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// A stream answers with JSON values as lines, for as long as the caller listens.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	buffer  bytes.Buffer  // what the next flush writes
	lines   *json.Encoder // into the buffer
}

// newStream begins an answer of lines. The request's deadlines do not bind it:
// its context ends when the caller goes away, and each write has a time of its own.
func newStream(w http.ResponseWriter) *stream {
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Time{})
	w.Header()["Content-Type"] = typeLines
	s := &stream{w: w, control: control}
	s.lines = json.NewEncoder(&s.buffer)
	s.lines.SetEscapeHTML(false)
	return s
}

// add makes lines of values, for the next flush.
func (s *stream) add(entries []api.Entry) {
	for _, e := range entries {
		s.lines.Encode(e) // into memory, of what always has a JSON: it cannot fail
	}
}

// flush writes the lines, and fails when the caller has gone or does not read.
func (s *stream) flush() error {
	if err := s.control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if _, err := s.buffer.WriteTo(s.w); err != nil {
		return err
	}
	return s.control.Flush()
}

// followPace is how often a log is asked for what is new.
const followPace = 500 * time.Millisecond

// A follower is somebody who is sent what a log holds and what follows it.
type follower struct {
	server     *Server
	out        *stream
	uid        int
	credential string
	query      quota.LogQuery
}

// follow sends a page and what follows it, until the caller goes away or the server
// shuts down; then what was written before that is still told. While the ledger
// cannot be reached nothing comes, and nothing is left out.
func (f *follower) follow(ctx context.Context, page quota.LogPage) {
	more := f.add(page)
	for last := false; ; {
		if f.out.flush() != nil {
			return // nobody is left to tell
		}
		if more {
			more = f.catchUp(ctx)
			continue
		}
		if last || !f.server.rest(ctx, &last) {
			return
		}
		more = f.read(ctx)
	}
}

// catchUp is read in its turn: who is far behind reads page after page, and would
// not leave the processors to others.
func (f *follower) catchUp(ctx context.Context) (more bool) {
	leave, problem := f.server.longReads.enter(ctx, f.uid)
	if problem != nil {
		return false // the caller has gone
	}
	defer leave()
	return f.read(ctx)
}

// read makes lines of the next page, and reports whether there is another.
func (f *follower) read(ctx context.Context) (more bool) {
	page, err := f.server.logPage(ctx, f.credential, f.query)
	return err == nil && f.add(page)
}

func (f *follower) add(page quota.LogPage) (more bool) {
	if n := len(page.Entries); n > 0 {
		f.query.After = page.Entries[n-1].ID
	}
	f.out.add(entriesOf(f.credential, page.Entries))
	return !page.Next.IsZero()
}

// rest waits for a stream's pace, or until the server shuts down, which makes it
// the last time. It reports whether the caller is still there.
func (s *Server) rest(ctx context.Context, last *bool) bool {
	select {
	case <-ctx.Done():
		return false
	case <-s.closing:
		*last = true
		return true
	case <-time.After(followPace):
		return true
	}
}
