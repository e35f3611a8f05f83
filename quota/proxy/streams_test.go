package proxy

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"quotad/quota/server/servertest"
)

// An answer is passed on as it comes.
func TestStreams(t *testing.T) {
	more := make(chan struct{})
	s := newScene(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "13")
		io.WriteString(w, "first\n")
		w.(http.Flusher).Flush()
		select {
		case <-more:
			io.WriteString(w, "second\n")
		case <-time.After(time.Minute): // the client has not read the first
		}
	}, nil)
	r, _ := http.NewRequest("GET", s.base+"youtube/v3/videos", nil)
	res, err := s.client.Do(r)
	servertest.Must(t, err)
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	if line, err := lines.ReadString('\n'); line != "first\n" {
		t.Fatalf("read %q: %v", line, err)
	}
	close(more)
	if line, err := lines.ReadString('\n'); line != "second\n" {
		t.Fatalf("read %q: %v", line, err)
	}
}

// A proxy that stops lets requests end, cuts those that do not, and leaves none unsettled.
func TestShutdown(t *testing.T) {
	received, more := make(chan struct{}, 2), make(chan struct{})
	s := newScene(t, func(w http.ResponseWriter, r *http.Request) {
		received <- struct{}{}
		if r.URL.Query().Get("hang") != "" {
			<-r.Context().Done()
			return
		}
		<-more
		ok(w, r)
	}, nil)
	ended := make(chan int, 2)
	for _, query := range []string{"?hang=1", ""} {
		go func() {
			r, _ := http.NewRequest("GET", s.base+"youtube/v3/videos"+query, nil)
			res, err := s.client.Do(r)
			if err != nil {
				ended <- 0
				return
			}
			res.Body.Close()
			ended <- res.StatusCode
		}()
		<-received
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- s.proxy.Shutdown(ctx) }()
	close(more)
	if status := <-ended; status != 200 {
		t.Errorf("the request that ends in time is answered %d", status)
	}
	cancel()
	if err := <-stopped; err == nil {
		t.Error("the request that does not end is not told of")
	}
	s.mu.Lock() // and does not wait: by now all is settled
	done := s.done
	s.mu.Unlock()
	if len(done) != 2 || s.used() != 2 {
		t.Errorf("told of %+v, %d units are debited", done, s.used())
	}
	if refused := s.tokens.Pass(runToken).Refused; len(refused) > 0 || done[0].Silent+done[len(done)-1].Silent != "" {
		t.Errorf("a call that is cut is refused, or its upstream does not answer: %q, %+v", refused, done)
	}
	<-ended
}
