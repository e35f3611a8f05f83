package server_test

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/clientlimit"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// A batchStream is a connection on which one batch after the other is asked about.
type batchStream struct {
	*servertest.Conn
	answers *gob.Decoder // nil before the first one
}

// openBatches begins a stream, without a batch.
func openBatches(t *testing.T, conn *servertest.Conn, clients string, headers ...string) *batchStream {
	t.Helper()
	begin := "POST /v1/clients/" + clients + "/stream HTTP/1.1\r\nHost: quotad\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n" + strings.Join(append(headers, "\r\n"), "\r\n")
	if _, err := io.WriteString(conn, begin); err != nil {
		t.Fatal(err)
	}
	return &batchStream{Conn: conn}
}

// send sends a batch.
func (s *batchStream) send(form string) error {
	_, err := fmt.Fprintf(s, "%x\r\n%s\n\r\n", len(form)+1, form)
	return err
}

// receive reads the answer to a batch.
func (s *batchStream) receive() (answer api.BatchAnswer, err error) {
	if s.answers == nil {
		head, err := http.ReadResponse(s.In, nil)
		if err != nil {
			return answer, err
		}
		if head.StatusCode != http.StatusOK {
			return answer, errors.New(head.Status)
		}
		s.answers = gob.NewDecoder(s.In)
	}
	return answer, s.answers.Decode(&answer)
}

func (s *batchStream) ask(t *testing.T, form string) api.BatchAnswer {
	t.Helper()
	err := s.send(form)
	answer, err2 := s.receive()
	if err = errors.Join(err, err2); err != nil {
		t.Fatalf("%.80q: %v", form, err)
	}
	return answer
}

// Each batch of a stream is answered as one of its own would be; one that is refused does not end the stream, but for
// one without an end.
func TestClientStream(t *testing.T) {
	h := clientsServed(t, nil)
	s := openBatches(t, h.Dial(), "public")
	if a := s.ask(t, "subject=alice&operation=search"); a.Problem != nil || len(a.Decisions) != 1 || !a.Decisions[0].Granted || a.Decisions[0].Units != 2 ||
		len(a.Decisions[0].Limits) != 3 || a.Decisions[0].Limits[0].Remaining != 1 || !a.Decisions[0].Now.Equal(h.Clock.Now()) {
		t.Errorf("a batch of one: %+v", a)
	}
	a := s.ask(t, "subject=alice&operation=&count=2&subject=%FF%0A&operation=search&count=1&subject=alice&operation=&count=1")
	if len(a.Decisions) != 3 || a.Decisions[0].Reason != "limit_exceeded" || a.Decisions[0].RetryAfterMs != 60_000 || !a.Decisions[1].Granted || !a.Decisions[2].Granted {
		t.Errorf("a batch of three: %+v", a)
	}
	for form, detail := range map[string]string{
		"": "subject must be a list of 1 to 128: 0", "subject=a&colour=red": `unknown field "colour"`, "subject=a&count=1&count=2": "must be as many as subject",
		"subject=%": "malformed form", "{}": "unknown field", "subject=" + strings.Repeat("a", 8193): "at most 8192 bytes",
	} {
		if a := s.ask(t, form); a.Problem == nil || a.Problem.Reason != quota.BadRequest || a.Problem.Status != 400 || !strings.Contains(a.Problem.Detail, detail) {
			t.Errorf("%.40q: %+v, want %q", form, a, detail)
		}
	}
	if a := openBatches(t, h.Dial(), "pubilc").ask(t, "subject=a"); a.Problem == nil || a.Problem.Reason != quota.UnknownClients {
		t.Errorf("clients that are not configured: %+v", a)
	}
	if state, err := h.Client("").Subject(t.Context(), "public", "alice"); err != nil || state.Limits[0].Used != 3 {
		t.Errorf("in all: %+v, %v", state, err)
	}
	sent := make(chan struct{})
	go func() { defer close(sent); s.send(strings.Repeat("a", 1<<20)) }() // not all of it is read
	if a, err := s.receive(); err != nil || a.Problem == nil || a.Problem.Status != 413 {
		t.Errorf("a megabyte: %+v, %v", a, err)
	}
	if a, err := s.receive(); err == nil {
		t.Errorf("behind a megabyte: %+v", a)
	}
	<-sent
}

// A stream dies with the run token that began it.
func TestClientStreamOfAPass(t *testing.T) {
	h := clientsServed(t, nil)
	h.Tokens.Issue("pass", "trending", "US", "youtube")
	s := openBatches(t, h.Dial(), "public", "Authorization: Bearer pass")
	if a := s.ask(t, "subject=alice"); a.Problem != nil || !a.Decisions[0].Granted {
		t.Errorf("of a pass: %+v", a)
	}
	h.Tokens.Revoke("pass")
	if a := s.ask(t, "subject=alice"); a.Problem == nil || a.Problem.Reason != quota.Forbidden {
		t.Errorf("of a pass that is over: %+v", a)
	}
	over := openBatches(t, h.Dial(), "public", "Authorization: Bearer pass")
	over.send("subject=alice")
	if a, err := over.receive(); err == nil || !strings.HasPrefix(err.Error(), "403") {
		t.Errorf("a new stream of it: %+v, %v", a, err)
	}
}

// A stream lasts as long as batches come, however long that is, and no longer.
func TestClientStreamLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := clientlimit.NewService(clientlimit.Config{Deadline: time.Second})
		if err := clients.SetClients(ledgertest.NewClientStore(time.Now), []*clientlimit.Clients{
			{Name: "public", Algorithm: clientlimit.Log, Limits: []quota.Limit{{Name: "minute", Units: 60, Window: quota.Sliding(time.Minute)}}},
		}); err != nil {
			t.Fatal(err)
		}
		tokens := new(servertest.Tokens)
		tokens.Issue("pass", "trending", "US", "youtube") // a pipe shows no user
		s, err := server.New(server.Config{Service: servertest.NewService(t, ledgertest.NewModel(time.Now)), Clients: clients, Tokens: tokens})
		if err != nil {
			t.Fatal(err)
		}
		listener := newPipes()
		frontend := servertest.Frontend(s)
		go frontend.Serve(listener)
		defer frontend.Shutdown(servertest.Canceled())
		conn, err := listener.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		stream := openBatches(t, servertest.NewConn(t, conn), "public", "Authorization: Bearer pass")
		conn.SetDeadline(time.Time{})
		for range 100 {
			if a := stream.ask(t, "subject=alice"); a.Problem != nil || !a.Decisions[0].Granted {
				t.Fatalf("%+v", a)
			}
			time.Sleep(api.IdleTimeout - time.Millisecond)
		}
		begun := time.Now()
		if a, err := stream.receive(); err == nil {
			t.Errorf("without a batch: %+v", a)
		}
		if took := time.Since(begun); took != time.Millisecond {
			t.Errorf("it ended %v late", took-time.Millisecond)
		}
	})
}
