package main

//ci:norace

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quotad/cmd/ytfetch/upstream"
	"quotad/quota/api"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
	quotaupstream "quotad/quota/upstream"
)

const (
	secret   = "AIzaSy-secret+key/of the=project"
	runToken = "token-of-the-pass"
)

// An env is what a pass meets: a quotad that serves its API on a Unix socket, and an upstream that counts what it
// charges. When the test ends, their books are equal, no request id has served twice, and the key is in no file.
type env struct {
	*servertest.Server
	t        *testing.T
	upstream *upstream.Upstream
	base     string // of the upstream
	dir      string
	faults   []http.HandlerFunc // which the next requests meet instead of a page; nil lets one pass
	spent    int64              // by others
	sampled  bool               // passes called another upstream, too
}

// newEnv has an upstream with some units, and leaves a pass some of quotad's.
func newEnv(t *testing.T, left, units int) *env {
	t.Helper()
	e := &env{t: t, dir: t.TempDir()}
	e.Server = servertest.Start(t, func(c *server.Config) {
		c.Observer = quotaupstream.NewObserver(c.Service, nil, func(quotaupstream.Outcome) {})
	})
	e.Tokens.Issue(runToken, "trending", "DE", "youtube")
	if e.spent = int64(9_500 - left); e.spent > 0 {
		e.Acquire("", api.AcquireRequest{Credential: "youtube", Operation: "videos.list", Count: e.spent})
	}
	e.upstream = upstream.New(upstream.Config{Quota: units, Key: secret, Now: e.Clock.Now})
	tube := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fault := http.HandlerFunc(e.upstream.ServeHTTP)
		if len(e.faults) > 0 && e.faults[0] != nil {
			fault = e.faults[0]
			e.upstream.ServeHTTP(httptest.NewRecorder(), r) // it is charged all the same
		}
		e.faults = e.faults[min(1, len(e.faults)):]
		fault(w, r)
	}))
	e.base = tube.URL + upstream.Path
	t.Cleanup(tube.Close)
	t.Cleanup(e.check)
	return e
}

func (e *env) debited() int64 { return int64(e.Used("youtube")) - e.spent }

func (e *env) check() {
	if debited, charged := e.debited(), int64(e.upstream.Counts().Units); debited != charged && !e.sampled {
		e.t.Errorf("quotad's books hold %d units, upstream charged %d", debited, charged)
	}
	seen := make(map[string]bool)
	for _, request := range e.Tokens.Pass(runToken).Requests {
		if request.RequestID == "" || seen[request.RequestID] {
			e.t.Errorf("request id %q stands for two calls", request.RequestID)
		}
		seen[request.RequestID] = true
	}
	if output, _ := exec.Command("grep", "-rl", "secret", e.dir).Output(); len(output) > 0 {
		e.t.Errorf("the key is in %s", output)
	}
}

// lines reads all lines of a directory as any program would, and fails if one is not whole.
func lines(t *testing.T, dir string) (all []line) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || len(text) > 0 && text[len(text)-1] != '\n' {
			t.Fatalf("%s, %v, ends within a line", file, err)
		}
		for one := range bytes.Lines(text) {
			var l line
			if err := json.Unmarshal(one, &l); err != nil || filepath.Base(file) != l.At.UTC().Format(time.DateOnly)+"-"+l.Region+".jsonl" {
				t.Fatalf("%s: %v, line %s", file, err, one)
			}
			all = append(all, l)
		}
	}
	return all
}

// A passRun is an env with one pass over DE in it, ready to go, and what it leaves behind.
type passRun struct {
	*env
	pass *pass
	log  bytes.Buffer // as on stderr
}

func newRun(t *testing.T, left, units int) *passRun {
	r := &passRun{env: newEnv(t, left, units)}
	r.pass = &pass{
		options: options{command: "trending", region: "DE", base: r.base, key: secret, out: r.dir, dir: r.dir},
		quota:   r.Client(runToken), client: connect(false), id: "pass",
		now: func() time.Time { return r.Clock.Now().In(time.FixedZone("", -10*3600)) }, // on the day before
		say: func(format string, args ...any) { fmt.Fprintf(&r.log, format+"\n", args...) },
	}
	return r
}

// ends runs the pass, and checks its exit code, how many videos are stored in all, how many calls upstream has had, and
// what stderr says among other things.
func (r *passRun) ends(ctx context.Context, code, videos, calls int, log string) {
	r.t.Helper()
	if got := report(&r.log, r.pass.run(ctx)); got != code {
		r.t.Errorf("got exit code %d, want %d", got, code)
	}
	if got := len(lines(r.t, r.dir)); got != videos {
		r.t.Errorf("got %d videos stored, want %d", got, videos)
	}
	if got := r.upstream.Counts().Requests; got != calls {
		r.t.Errorf("got %d calls upstream, want %d", got, calls)
	}
	if !strings.Contains(r.log.String(), log) || strings.Contains(r.log.String(), "secret") {
		r.t.Errorf("want %q on stderr, and no key:\n%s", log, &r.log)
	}
}

// again is the next pass of the region.
func (r *passRun) again() {
	r.log.Reset()
	r.pass.videos, r.pass.id = 0, r.pass.id+"+"
}

// tomorrow is another day for quotad and upstream.
func (r *passRun) tomorrow() {
	r.Clock.Add(25 * time.Hour)
	r.spent = 0
	r.again()
}

func TestDeniedPassIsContinued(t *testing.T) {
	r := newRun(t, 2, 6) // upstream's day begins again, too
	r.ends(t.Context(), exitDenied, 100, 2, "ytfetch: stopped: quotad refused videos.list: no room for 1 unit in limit daily, "+
		"which has 0 left; it fits at 2026-11-22T09:00:00Z; 100 videos stored\n")
	r.tomorrow()
	r.ends(t.Context(), 0, 200, 4, "continuing at page 3\npage 3: 50 videos, 9,499 units left\n")
	ranks := make(map[int]bool)
	for _, l := range lines(t, r.dir) {
		ranks[l.Rank] = true
	}
	if len(ranks) != 200 || !ranks[1] || !ranks[200] {
		t.Errorf("got %d ranks, want those from 1 to 200", len(ranks))
	}
	r.again()
	r.ends(t.Context(), 0, 400, 8, "page 1: 50 videos") // the chart was done
}

// The next pass would spend a unit on that place again.
func TestStalePlaceIsDropped(t *testing.T) {
	r := newRun(t, 1, 100)
	r.pass.keep(place{Of: r.pass.first().Of, Page: 3, Token: "of-yesterday"})
	r.ends(t.Context(), exitFailed, 0, 1, "invalidPageToken: The request specifies an invalid page token.")
	if at := r.pass.resume(); at.Page != 1 || at.Token != "" {
		t.Errorf("the next pass begins at %+v, want page 1", at)
	}
}

func TestPlacesThatAreOfNoUse(t *testing.T) {
	r := newRun(t, 100, 100)
	first := r.pass.first()
	r.pass.pages = 2
	for _, text := range []string{"", "{", "null", "[]", `{"of":"` + first.Of + `","page":0}`, `{"of":"another","page":2}`,
		`{"of":"` + first.Of + `","page":3,"token":"C00100"}`} {
		must(t, os.WriteFile(r.pass.placeFile(), []byte(text), 0o600))
		if at := r.pass.resume(); at.Page != 1 || at.Token != "" {
			t.Errorf("%q: got %+v, want page 1", text, at)
		}
	}
	must(t, os.Mkdir(r.pass.placeFile()+".new", 0o700))
	r.ends(t.Context(), 0, 100, 2, "the next pass cannot continue here: ")
}

// The list is denied: what the search found is not paid for again.
func TestSearchIsPaidForOnce(t *testing.T) {
	r := newRun(t, 100, 1000)
	r.pass.command, r.pass.query, r.pass.since = "discover", "golden", 24*time.Hour
	r.ends(t.Context(), exitDenied, 0, 1, "quotad refused videos.list: ")
	r.tomorrow()
	r.ends(t.Context(), 0, 50, 2, "50 found, 50 listed, 9,499 units left")
	if got := lines(t, r.dir)[0]; got.Query != "golden" || got.Rank != 0 {
		t.Errorf("got %+v, want a line of the query", got)
	}
	r.again()
	r.ends(t.Context(), 0, 100, 4, "50 found")
	r.pass.query = "zyx"
	r.again()
	r.ends(t.Context(), 0, 100, 5, "done: 0 videos in ")
}

// SIGTERM: what has been answered is stored.
func TestInterruptedPass(t *testing.T) {
	r := newRun(t, 100, 100)
	ctx, cancel := context.WithCancel(t.Context())
	r.faults = append(r.faults, nil, func(_ http.ResponseWriter, req *http.Request) {
		cancel()
		<-req.Context().Done()
	})
	r.ends(ctx, exitInterrupted, 50, 2, "ytfetch: stopped: interrupted; 50 videos stored")
	if at := r.pass.resume(); at.Page != 2 {
		t.Errorf("the next pass begins at %+v, want page 2", at)
	}
}

func TestCallsThatAreNotSentAreReleased(t *testing.T) {
	r := newRun(t, 100, 100)
	r.pass.base = "http://127.0.0.1:1"
	r.ends(t.Context(), exitFailed, 0, 0, "cannot reach upstream: dial tcp 127.0.0.1:1: connect: connection refused")
	if r.debited() != 0 || len(r.Tokens.Pass(runToken).Decisions) != 1 {
		t.Errorf("%d units are debited after %d calls", r.debited(), len(r.Tokens.Pass(runToken).Decisions))
	}
	ended, end := context.WithCancel(t.Context())
	end()
	granted, err := r.pass.acquire(t.Context(), "videos.list")
	if err != nil || r.debited() == 0 {
		t.Fatal(granted, err)
	}
	_ = r.pass.judge(ended, "videos.list", granted.GrantID, &callError{unsent: true, err: ended.Err()})
	if r.debited() != 0 {
		t.Errorf("a pass that is being ended keeps %d units of a call that was never sent", r.debited())
	}
}

// refuse answers in the documented form of an error.
func refuse(status int, reason, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
			"code": status, "message": message, "errors": []map[string]string{{"reason": reason, "message": message}},
		}})
	}
}

// What upstream's next answers are, and how the pass ends: it makes no call twice.
func TestTroubleUpstream(t *testing.T) {
	text := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }
	}
	perDay := refuse(429, "rateLimitExceeded", "Quota exceeded for quota metric 'Queries' and limit 'Queries per day' of service "+
		"'youtube.googleapis.com' for consumer 'project_number:1'.")
	stale, backend := refuse(400, "invalidPageToken", "The token."), refuse(500, "backendError", "Backend Error")
	portal, same := text(`{"welcome":"sign in"}`), text(`{"items":[],"nextPageToken":"C00050"}`)
	moved := func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }
	drop := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	type answers []http.HandlerFunc // nil: a page
	for _, row := range []struct {
		name          string
		answers       answers
		code          int
		videos, calls int
		log           string
	}{
		{"a limit of the day", answers{nil, perDay}, exitDenied, 50, 2, "limit 'Queries per day'"},
		{"a refusal that nobody knows", answers{nil, refuse(403, "somethingNew", "no")}, exitDenied, 50, 2, "403 somethingNew: no"},
		{"a key that is echoed stays hidden", answers{refuse(400, "keyInvalid", "Bad key "+secret)}, exitFailed, 0, 1,
			"Bad key [key]; 0 videos stored\nytfetch: hint: check YOUTUBE_API_KEY"},
		{"commands to a terminal", answers{refuse(404, "gone", "\x1b[31mred")}, exitFailed, 0, 1, "404 gone: [31mred"},
		{"a token that is stale", answers{nil, nil, stale}, exitFailed, 100, 3, "400 invalidPageToken"},
		{"a server error", answers{nil, backend}, exitFailed, 50, 2, "500 backendError: Backend Error; 50 videos stored"},
		{"an answer that is lost", answers{nil, drop}, exitFailed, 50, 2, "upstream was called but sent no page"},
		{"an answer that is no page", answers{portal}, exitFailed, 0, 1, "not a page of videos"},
		{"tokens that are ignored", answers{same, same}, exitFailed, 0, 2, "ignore page tokens"},
		{"a redirect is not followed", answers{moved}, exitFailed, 0, 1, "upstream answered 302"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRun(t, 100, 100)
			r.faults = row.answers
			r.ends(t.Context(), row.code, row.videos, row.calls, row.log)
		})
	}
}

// Upstream's day ends before quotad's: the pass reports it, and the next pass does not call.
func TestUpstreamsDayIsOverBeforeQuotads(t *testing.T) {
	r := newRun(t, 100, 2)
	r.ends(t.Context(), exitDenied, 100, 3, "videos.list was granted, and upstream refuses it: upstream answered 403 quotaExceeded: ")
	grant := r.Tokens.Pass(runToken).Decisions[2].GrantID // upstream charged nobody for this one
	if d, err := r.pass.quota.Release(t.Context(), grant); err != nil || !d.Granted {
		t.Errorf("cannot release the third grant: %+v, %v", d, err)
	}
	r.again()
	r.ends(t.Context(), exitDenied, 100, 3, "quotad refused videos.list: limit daily is closed")
}

func TestOddSearchResults(t *testing.T) {
	for _, body := range []string{`{"items":[{"id":{"videoId":"a,b&c"}}]}`, `{"items":[{"id":"x"}]}`, `{"items":[{}]}`} {
		r := newRun(t, 500, 1000)
		r.pass.command, r.pass.query = "discover", "golden"
		r.faults = append(r.faults, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
		r.ends(t.Context(), exitFailed, 0, 1, "not a page of search results")
	}
}

func TestOptions(t *testing.T) {
	t.Setenv("QUOTAD_JOB_DIR", "job")
	o, err := parseOptions("discover", strings.Fields("golden --since 2d --region de river --sample --out data"))
	if err != nil || o.query != "golden river" || o.since != 48*time.Hour || o.region != "DE" || o.out != "data" ||
		o.dir != "job" {
		t.Errorf("got %+v, %v", o, err)
	}
}
