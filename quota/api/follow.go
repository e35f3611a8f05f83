package api

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
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

// maxFollowers is how many logs one user may follow at once: each entry costs the
// daemon as often as it is followed.
const maxFollowers = 16

// followers counts who follows logs, by uid.
type followers struct {
	mu    sync.Mutex // guards count
	count map[int]int
}

// enter counts a follower in, unless its user has as many as one may.
func (f *followers) enter(uid int) *Problem {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count[uid] >= maxFollowers {
		return NewProblem(TooManyConnections, "uid %d follows %s, the most at once", uid, quota.Count(maxFollowers, "log", "logs"))
	}
	f.count[uid]++
	return nil
}

func (f *followers) leave(uid int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count[uid]--; f.count[uid] == 0 {
		delete(f.count, uid)
	}
}

// followPace is how often a log is asked for what is new.
const followPace = 500 * time.Millisecond

// follow sends a page of a log and what follows it, until the caller goes away or
// the server shuts down; then what was written before that is still told. While the
// ledger cannot be reached nothing comes, and nothing is left out.
func (s *Server) follow(ctx context.Context, out *stream, name string, q quota.LogQuery, page quota.LogPage) {
	var err error
	for last := false; ; {
		if err == nil {
			if out.send(entriesOf(name, page.Entries)) != nil {
				return // nobody is left to tell
			}
			if n := len(page.Entries); n > 0 {
				q.After = page.Entries[n-1].ID
			}
		}
		if more := err == nil && !page.Next.IsZero(); !more {
			if last || !s.rest(ctx, &last) {
				return
			}
		}
		page, err = s.logPage(ctx, name, q)
	}
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
