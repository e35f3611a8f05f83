package server_test

import (
	"context"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// A longLog is a ledger whose log is read for as long as a test wants.
type longLog struct {
	*ledgertest.Model
	begun chan struct{}
	read  chan struct{} // closed when it may be over
}

func (l longLog) Log(ctx context.Context, c *quota.Credential, q quota.LogQuery) (quota.LogPage, error) {
	l.begun <- struct{}{}
	<-l.read
	return l.Model.Log(ctx, c, q)
}

// While as many logs are read whole as may be, other reads wait for a while and are then
// sent away; whoever asks for something else is answered at once.
func TestLongReadsTakeTurns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // half of them is one
	synctest.Test(t, func(t *testing.T) {
		ledger := longLog{ledgertest.NewModel(time.Now), make(chan struct{}, 10), make(chan struct{})}
		plan := server.Route{Method: "GET", Path: "/v1/plan", Access: server.Read, Handle: server.LongRead(func(http.ResponseWriter, *http.Request, *server.Session) error { return nil })}
		listener, _ := overPipes(t, server.Config{Service: servertest.NewService(t, ledger, servertest.YouTube()), Routes: []server.Route{plan}})
		client := listener.client()
		get := func(path string) *http.Response {
			answer, err := client.Get("http://quotad" + path)
			if err != nil {
				t.Error(err)
				return &http.Response{Header: http.Header{}}
			}
			answer.Body.Close()
			return answer
		}
		const usage = "/v1/credentials/youtube/usage"
		first := make(chan int, 1)
		go func() { first <- get(usage).StatusCode }()
		<-ledger.begun

		began := time.Now()
		second := get(usage)
		if second.StatusCode != http.StatusServiceUnavailable || second.Header.Get("Retry-After") == "" {
			t.Errorf("a second read: %d, want 503", second.StatusCode)
		}
		if waited := time.Since(began); waited != 5*time.Second {
			t.Errorf("it waited %v for its turn, want 5 s", waited)
		}
		if got := get("/v1/plan"); got.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("another long read: %d, want 503", got.StatusCode)
		}
		began = time.Now()
		if got := get("/v1/status"); got.StatusCode != http.StatusOK || time.Since(began) > time.Second {
			t.Errorf("the status meanwhile: %d after %v", got.StatusCode, time.Since(began))
		}
		third := make(chan int, 1)
		go func() { third <- get(usage).StatusCode }()
		time.Sleep(time.Second)
		close(ledger.read)
		if got := <-first; got != http.StatusOK {
			t.Errorf("the first read: %d, want 200", got)
		}
		if got := <-third; got != http.StatusOK {
			t.Errorf("a read whose turn came: %d, want 200", got)
		}
	})
}
