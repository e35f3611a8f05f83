package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/seedtest"
	"quotad/quota/server"
	"quotad/quota/slidinglog"
)

// A readerLoad is what users who are no operators do to a daemon all at once.
type readerLoad struct {
	readers   int  // reading the whole log at the same time
	followers int  // of each user
	once      bool // each reader asks once and waits for its answer; else again while it is busy
	grants    int  // in the log
	rounds    int  // of what is served meanwhile
}

// readerLoadLevel is a short one, or all of it with QUOTAD_TEST_LONG=1.
func readerLoadLevel(t *testing.T) readerLoad {
	if seedtest.Long(t, 0) > 0 {
		return readerLoad{readers: 200, followers: 16, once: true, grants: 1_000_000, rounds: 100}
	}
	return readerLoad{readers: 60, followers: 4, grants: 10_000, rounds: 5}
}

const readersConfig = `
[ledger]
backend = "embedded"
[metrics]
listen = "127.0.0.1:0"
[credentials.many]
limits.daily.units = 1_000_000_000
operations.list = 1
[jobs.hold]
credential = "many"
regions = ["one"]
cron = "$FAR * * *"
run_at_start = true
timeout = "1h"
command = ["sh", "-c", 'echo $QUOTAD_TOKEN >%[1]s/token.new && mv %[1]s/token.new %[1]s/token && exec sleep 3600']
`

// onePlan is how readers note that a plan was read.
const onePlan = "200 /v1/plan"

// TestServesManyReaders has one user flood the socket with connections, another
// read a long log and the plan many times at once, and each of several follow it as often
// as he may. Meanwhile a job acquires, an operator corrects, metrics are scraped, and
// systemd is told that quotad is alive.
func TestServesManyReaders(t *testing.T) {
	seedtest.SkipUnderRace(t)
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can call as other users")
	}
	c := readerLoadLevel(t)
	dir := shortDir(t)
	manager, socket := notifySocket(t, dir), filepath.Join(dir, "api.sock")
	fillLedger(t, filepath.Join(dir, "state"), c.grants)
	daemon := startConfigured(t, dir, fmt.Sprintf(readersConfig, dir), socket, "LISTEN_FDNAMES=api")
	must(t, errors.Join(os.Chmod(dir, 0o755), os.Chmod(socket, 0o666), daemon.await(regexp.MustCompile("^serving$"))))
	o := &readers{socket: socket, answers: map[string]int{}}
	s := &served{
		T:        t,
		operator: &api.Client{Socket: socket},
		job:      &api.Client{Socket: socket, Token: awaitFile(t, filepath.Join(dir, "token"))},
		metrics:  "http://" + daemon.logged(t, "serving metrics", "address"),
	}
	t.Logf("alone:        %v", s.rounds(c.rounds))

	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var outside sync.WaitGroup
	// Whoever floods does so first: what follows gets through it.
	flooder, reader := account(t, "games"), account(t, "nobody")
	flooded := make(chan struct{})
	outside.Go(func() {
		o.flood(ctx, flooder, server.DefaultConnectionsPerUser+2*64, sync.OnceFunc(func() { close(flooded) }))
	})
	<-flooded
	var following sync.WaitGroup
	for _, who := range []person{reader, account(t, "daemon"), account(t, "www-data"), account(t, "bin")} {
		for range c.followers {
			following.Add(1)
			outside.Go(func() { o.follow(ctx, who, sync.OnceFunc(following.Done)) })
		}
	}
	following.Wait()
	var reading sync.WaitGroup
	for i := range c.readers {
		reading.Go(func() {
			path := []string{"/v1/log?most=1000", "/v1/log?most=1000&newest=true", "/v1/plan"}[i%3]
			for !o.read(ctx, reader, path) && !c.once && quota.Sleep(ctx, time.Second) {
			}
		})
	}
	t.Logf("under load: %v", s.rounds(c.rounds))
	for range 2 * beats {
		awaitNotice(t, manager, `WATCHDOG=1`)
	}
	if c.once {
		reading.Wait()
	} else {
		o.await(ctx, onePlan)
	}
	leave()
	reading.Wait()
	outside.Wait()
	t.Logf("readers: %v", o.answers)

	if !strings.Contains(daemon.whole(), "connections are refused: uid") {
		t.Error("the flood was not refused")
	}
	if !o.had(onePlan) {
		t.Error("nobody read the plan")
	}
	for _, wrong := range o.wrong {
		t.Error("a reader: ", wrong)
	}
	status, err := s.operator.Status(t.Context())
	must(t, err)
	if got, want := status.Credentials[0].Limits[0].Used, int64(c.grants+s.spent); got != want {
		t.Errorf("%d units are used, %d were granted", got, want)
	}
}

// fillLedger writes the log of a daemon that is to start with that state directory.
func fillLedger(t *testing.T, state string, grants int) {
	t.Helper()
	must(t, os.Mkdir(state, 0o700))
	ledger := slidinglog.Open(slidinglog.Config{Engine: slidinglog.NewMemory(time.Now), Dir: filepath.Join(state, journalDir), Unsynced: true})
	many := &quota.Credential{
		Name:       "many",
		Limits:     []quota.Limit{{Name: "daily", Units: 1_000_000_000, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{"list": {Every: 1}},
	}
	must(t, ledger.SetCredentials([]*quota.Credential{many}, nil))
	for i := range grants {
		_, err := ledger.Acquire(t.Context(), many, quota.Ask{
			Request: quota.Request{Credential: "many", Operation: "list", Count: 1, Caller: quota.Caller{UID: i % 7}},
			Charges: []quota.Charge{{Limit: "daily", Units: 1}},
		})
		must(t, err)
	}
	must(t, ledger.Close())
}

// served are those whom readers must not keep from their work.
type served struct {
	*testing.T
	operator, job *api.Client
	metrics       string // the address that they are read from
	spent         int
}

// rounds has each of them served so often, and returns how long they waited.
func (s *served) rounds(n int) rate {
	s.Helper()
	var waits []time.Duration
	begun := time.Now()
	for range n {
		for _, ask := range []func(){s.acquire, s.correct, s.scrape} {
			at := time.Now()
			ask()
			waits = append(waits, time.Since(at))
		}
	}
	return rateOf([][]time.Duration{waits}, time.Since(begun))
}

func (s *served) acquire() {
	s.Helper()
	d, err := s.job.Acquire(s.Context(), api.AcquireRequest{Operation: "list"})
	if err != nil || !d.Granted {
		s.Fatalf("the job is not served: %+v, %v", d, err)
	}
	s.spent++
}

func (s *served) correct() {
	s.Helper()
	if err := s.operator.Do(s.Context(), http.MethodPost, "/v1/credentials/many/book", map[string]any{"limit": "daily", "units": 1}, nil); err != nil {
		s.Fatalf("the operator is not served: %v", err)
	}
	s.spent++
}

func (s *served) scrape() {
	s.Helper()
	for _, path := range []string{"/metrics", "/healthz"} {
		if body := fetch(s.T, s.metrics+path, http.StatusOK); len(body) == 0 {
			s.Fatalf("%s is empty", path)
		}
	}
	if err := s.operator.Get(s.Context(), "/healthz", nil); err != nil {
		s.Fatalf("whether quotad is alive: %v", err)
	}
}

// readers are these users, and what came of what they asked for.
type readers struct {
	socket string

	mu      sync.Mutex // guards what follows
	answers map[string]int
	wrong   []string
}

func (o *readers) note(answer string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answers[answer]++
}

func (o *readers) complain(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wrong = append(o.wrong, fmt.Sprintf(format, args...))
}

// await waits until somebody was answered so, or wrongly.
func (o *readers) await(ctx context.Context, answer string) {
	for !o.had(answer) && quota.Sleep(ctx, 10*time.Millisecond) {
	}
}

func (o *readers) had(answer string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.answers[answer] > 0 || len(o.wrong) > 0
}

// flood connects as fast as can be, and keeps as many connections as are given;
// holds is called once there are so many.
func (o *readers) flood(ctx context.Context, who person, most int, holds func()) {
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	if err := who.become(); err != nil {
		o.complain("cannot become a flood: %v", err)
		holds()
		return
	}
	held := make([]net.Conn, most)
	defer func() {
		for _, conn := range held {
			if conn != nil {
				conn.Close()
			}
		}
	}()
	for i := 0; ctx.Err() == nil; {
		conn, err := net.Dial("unix", o.socket)
		if err != nil {
			quota.Sleep(ctx, time.Millisecond) // the backlog is full
			continue
		}
		if held[i%most] != nil {
			held[i%most].Close()
		}
		held[i%most] = conn
		if i++; i == most {
			holds()
		}
		if i > most {
			quota.Sleep(ctx, time.Millisecond) // its connections are held: the rest leaves the machine to the others
		}
	}
}

// get sends a request as a user, and returns the answer once its head is there.
func (o *readers) get(ctx context.Context, who person, path string) (*http.Response, error) {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		for {
			conn, err := who.dial(o.socket)
			if err == nil || ctx.Err() != nil || !errors.Is(err, syscall.EAGAIN) {
				return conn, err
			}
			quota.Sleep(ctx, time.Millisecond)
		}
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://quotad"+path, nil)
	if err != nil {
		return nil, err
	}
	return transport.RoundTrip(request)
}

// follow reads a log from its beginning, and on for as long as the load lasts.
func (o *readers) follow(ctx context.Context, who person, follows func()) {
	defer follows()
	var page api.LogPage
	for after := ""; ctx.Err() == nil; after = page.Next {
		answer, err := o.get(ctx, who, "/v1/log?most=1000&after="+after)
		if err == nil {
			page = api.LogPage{}
			err = json.NewDecoder(answer.Body).Decode(&page)
			answer.Body.Close()
		}
		if err != nil && ctx.Err() == nil {
			o.complain("cannot follow: %v", err)
			return
		}
		follows()
		quota.Sleep(ctx, 100*time.Millisecond)
	}
}

// read reads an answer, and reports whether it came.
func (o *readers) read(ctx context.Context, who person, path string) (served bool) {
	answer, err := o.get(ctx, who, path)
	if err != nil {
		if ctx.Err() == nil {
			o.complain("%s: %v", path, err)
		}
		return false
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		o.complain("%s: %v", path, err)
	case answer.StatusCode == http.StatusOK:
		o.note("200 " + path)
		return true
	default:
		o.complain("%s: %s, %s", path, answer.Status, body)
	}
	return false
}
