package main

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	"quotad/cmd/ytfetch/upstream"
	"quotad/quota/seedtest"
)

// A fetch is killed at any moment and goes on: no line is torn for the next one, all pages get there, and of each kill at
// most one page was paid for that is not stored, or stored twice.
func TestKilledFetch(t *testing.T) {
	kills := seedtest.Long(t, 8)
	e := newEnv(t, 9_500, 1_000_000, 12)
	e.sampled = true // a pass that is killed between the two has acquired, and not called
	calls := make(chan chan struct{})
	tube := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answered := make(chan struct{})
		defer close(answered)
		select {
		case calls <- answered: // the test kills after this one
		case <-r.Context().Done():
		}
		e.upstream.ServeHTTP(w, r)
	}))
	defer tube.Close()
	random := rand.New(rand.NewPCG(16, 9))
	done := 0
	for i := range kills + 1 {
		pass := exec.Command("ytfetch", "trending", "--base-url", tube.URL+upstream.Path, "--out", e.dir)
		pass.Env = append(os.Environ(), "YOUTUBE_API_KEY="+secret, "QUOTAD_SOCKET="+e.Socket, "QUOTAD_TOKEN="+runToken,
			"QUOTAD_REGION=DE", "QUOTAD_JOB_DIR=")
		if err := pass.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- pass.Wait() }()
		last, after := 1+random.IntN(4), time.Duration(random.IntN(3_000))*time.Microsecond
	calling:
		for call := 1; ; call++ {
			select {
			case answered := <-calls:
				if i == kills || call < last {
					continue
				}
				<-answered
				time.Sleep(after) // the moment: while the page is stored, or its place kept
				pass.Process.Kill()
				<-ended
				break calling
			case err := <-ended:
				if err != nil {
					t.Fatalf("the pass fails: %v", err)
				}
				done++
				break calling
			}
		}
		if err := appendLines(e.dir+"/"+time.Now().UTC().Format(time.DateOnly)+"-DE.jsonl", nil); err != nil {
			t.Fatal(err)
		}
	}
	ranks, stored := make(map[int]int), lines(t, e.dir)
	for _, l := range stored {
		ranks[l.Rank]++
	}
	lost := int(e.debited()) - len(stored)/perPage
	if len(ranks) != 12*perPage || done == 0 || lost < 0 || lost > kills || len(stored) > (12*done+kills+12)*perPage {
		t.Errorf("got %d ranks in %d lines by %d passes that ended, and %d pages lost by %d kills", len(ranks), len(stored), done, lost, kills)
	}
	t.Logf("%d lines stored over %d kills, %d of which came between a page's debit and its end", len(stored), kills, lost)
}
