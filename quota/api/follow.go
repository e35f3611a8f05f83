package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"quotad/quota"
)

// A stream answers with JSON values as lines, for as long as the caller listens.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	lines   *json.Encoder
}

// newStream begins an answer of lines. The request's deadlines do not bind it:
// its context ends when the caller goes away, and each write has a time of its own.
func newStream(w http.ResponseWriter) *stream {
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Time{})
	w.Header()["Content-Type"] = typeLines
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	return &stream{w: w, control: control, lines: lines}
}

// send writes values, and fails when the caller has gone or does not read.
func (s *stream) send(entries []Entry) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	for _, e := range entries {
		if err := s.lines.Encode(e); err != nil {
			return err
		}
	}
	return s.control.Flush()
}

// followPace is how often a log is asked for what is new.
const followPace = 500 * time.Millisecond

// follow sends a page of a log and what follows it, until the caller goes away or
// the server shuts down. While the ledger cannot be reached nothing comes, and
// nothing is left out.
func (s *Server) follow(ctx context.Context, out *stream, name string, q quota.LogQuery, page quota.LogPage) {
	var err error
	for {
		if err == nil {
			if out.send(entriesOf(name, page.Entries)) != nil {
				return // nobody is left to tell
			}
			if n := len(page.Entries); n > 0 {
				q.After = page.Entries[n-1].ID
			}
		}
		pace := followPace
		if !page.Next.IsZero() {
			pace = 0
		}
		if !s.goesOn(ctx, pace) {
			return
		}
		page, err = s.logPage(ctx, name, q)
	}
}

// goesOn waits, and reports whether a stream is to go on.
func (s *Server) goesOn(ctx context.Context, pace time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-s.closing:
		return false
	case <-time.After(pace):
		return true
	}
}
