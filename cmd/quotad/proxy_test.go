package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"quotad/quota/api"
	"quotad/quota/seedtest"
)

// A hostile is an upstream that counts each request it gets, has a true quota of its own,
// and breaks one in two of its answers.
type hostile struct {
	quota   int
	free304 bool

	mu      sync.Mutex // guards what follows
	got     map[int]int
	charged int
	refused int
}

func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.Atoi(r.URL.Query().Get("q"))
	if err != nil || r.Header.Get("X-Goog-Api-Key") != "the-real-upstream-key" {
		http.Error(w, "no such call", http.StatusTeapot)
		return
	}
	again, granted := h.charge(id)
	switch {
	case !granted:
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, `{"error":{"code":403,"errors":[{"domain":"youtube.quota","reason":"quotaExceeded"}]}}`)
	case id%10 == 0 && !again:
		reset(w, "")
	case id%10 == 1:
		w.WriteHeader(http.StatusInternalServerError)
	case id%10 == 2:
		w.WriteHeader(http.StatusNotModified)
	case id%10 == 3:
		for range 5 {
			io.WriteString(w, "slow ")
			w.(http.Flusher).Flush()
			time.Sleep(time.Millisecond)
		}
	case id%10 == 4:
		reset(w, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it")
	default:
		io.WriteString(w, `{"items":[]}`)
	}
}

// charge counts a request.
func (h *hostile) charge(id int) (again, granted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	again = h.got[id] > 0
	h.got[id]++
	if h.free304 && id%10 == 2 {
		return again, true
	}
	if h.charged >= h.quota {
		h.refused++
		return again, false
	}
	h.charged++
	return again, true
}

func (h *hostile) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.charged
}

// reset writes something and then resets the connection.
func reset(w http.ResponseWriter, text string) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	io.WriteString(conn, text)
	conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

// metered is a job that leaves its address for the test.
const metered = `
passes.drain = "1ms"
[proxy]
listen = "127.0.0.1:0"
[credentials.youtube.limits.daily]
units = %d
[credentials.youtube.operations]
"videos.list" = 1
[credentials.youtube.proxy]
upstream = %q
key_file = "youtube.key"
key_header = "X-Goog-Api-Key"
free = %s
refusals = "google"
routes = { "GET /youtube/v3/videos" = "videos.list" }
[jobs.hold]
credential = "youtube"
regions = ["one"]
cron = "$FAR * * *"
run_at_start = true
timeout = "1h"
command = ["sh", "-c", "echo $QUOTAD_PROXY >address.new; mv address.new address; sleep 3600"]
dir = "."
`

// Whatever happens to connections, clients and quotad itself, what the upstream counts is
// debited: it never has to say no. What is debited beyond that are calls that failed.
func TestProxyNeverCountsTooFew(t *testing.T) {
	for _, free := range []string{"[]", "[304]"} {
		t.Run(free, func(t *testing.T) {
			t.Parallel()
			const clients, kills = 8, 3
			calls := seedtest.Long(t, 250) // that are paid for
			upstream := &hostile{quota: calls, free304: free == "[304]", got: map[int]int{}}
			server := httptest.NewServer(upstream)
			t.Cleanup(server.Close)
			s := &siege{T: t, dir: shortDir(t)}
			write(t, s.dir, "youtube.key", "the-real-upstream-key\n")
			write(t, s.dir, "config.toml", fmt.Sprintf(metered, calls, server.URL, free))
			s.start()
			for n := range clients {
				s.clients.Go(func() { s.call(rand.New(rand.NewPCG(7, uint64(n)))) })
			}
			for n := range kills {
				eventually(t, func() bool { return upstream.count() >= calls*(n+1)/(kills+1) })
				s.restart()
			}
			s.clients.Wait()
			s.settle(upstream)
		})
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	text = farOff(text)
	if name == "config.toml" {
		text = operable(text)
	}
	must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

// operable makes the user who runs the tests an operator: root is one.
func operable(config string) string {
	if os.Getuid() == 0 || strings.Contains(config, "[access]") {
		return config
	}
	group, err := user.LookupGroupId(strconv.Itoa(os.Getgid()))
	if err != nil {
		return config
	}
	return config + fmt.Sprintf("\n[access]\nadmin_group = %q\n", group.Name)
}

// needRoot skips a test whose quotad is started as systemd starts it: the user of jobs, whom it then runs as, may not acquire.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("under systemd, root asks beside the user of jobs")
	}
}

// clientIn returns a client of the daemon that runs in a directory.
func clientIn(dir string) *api.Client {
	return &api.Client{Socket: filepath.Join(dir, ".quotad/quotad.sock")}
}

// A siege is what clients do to a daemon that is killed meanwhile.
type siege struct {
	*testing.T
	dir     string
	daemon  *child
	clients sync.WaitGroup
	stand   atomic.Pointer[stand]
	last    atomic.Int64

	mu     sync.Mutex // guards failed
	failed []int      // calls that brought no whole answer, and those before them
}

// A stand is one life of the daemon, by the address of its pass.
type stand struct {
	address string
	over    chan struct{} // closed when another one has begun
}

// start starts the daemon and waits for the address of its pass.
func (s *siege) start() {
	file := filepath.Join(s.dir, "address")
	os.Remove(file)
	s.daemon = startIn(s.T, s.dir)
	s.Cleanup(func() { // with its pass, unless it was killed: then the next one has ended that
		s.daemon.cmd.Process.Signal(syscall.SIGTERM)
		s.daemon.end()
	})
	s.stand.Store(&stand{awaitFile(s.T, file), make(chan struct{})})
}

// restart kills the daemon under its clients.
func (s *siege) restart() {
	before := s.stand.Load()
	s.daemon.kill()
	s.start()
	close(before.over)
}

// call calls until it is denied.
func (s *siege) call(random *rand.Rand) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for before := 0; ; {
		at, id := s.stand.Load(), int(s.last.Add(1))
		denied, err := s.get(client, at.address, id, random)
		if denied {
			return
		}
		killed := errors.Is(err, syscall.ECONNREFUSED)
		s.mu.Lock()
		if err != nil { // the daemon may have been killed after the answer before this one, and before it released that
			s.failed = append(s.failed, before)
		}
		if err != nil && !killed {
			s.failed = append(s.failed, id)
		}
		s.mu.Unlock()
		if before = id; killed {
			<-at.over
		}
	}
}

// get makes one call, and now and then goes away before it is over.
func (s *siege) get(client *http.Client, address string, id int, random *rand.Rand) (denied bool, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if random.IntN(10) == 0 {
		defer time.AfterFunc(time.Duration(random.IntN(3000))*time.Microsecond, cancel).Stop()
	}
	r, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("%syoutube/v3/videos?q=%d", address, id), nil)
	if err != nil {
		return false, err
	}
	res, err := client.Do(r)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return false, err
	case res.StatusCode == http.StatusBadGateway:
		return false, errors.New(string(body))
	case strings.Contains(string(body), "it dies with its pass"):
		return false, syscall.ECONNREFUSED // another daemon has taken the port
	}
	return res.StatusCode == http.StatusForbidden, nil
}

// settle compares the books.
func (s *siege) settle(upstream *hostile) {
	status, err := clientIn(s.dir).Status(context.Background())
	must(s, err)
	used := int(status.Credentials[0].Limits[0].Used)
	upstream.mu.Lock()
	defer upstream.mu.Unlock()
	total := 0
	for _, n := range upstream.got {
		total += n
	}
	uncharged := slices.DeleteFunc(s.failed, func(id int) bool { return id == 0 || upstream.got[id] > 0 && !(upstream.free304 && id%10 == 2) })
	slices.Sort(uncharged)
	uncharged = slices.Compact(uncharged)
	s.Logf("%d requests came, of which %d were charged; %d units are debited", total, upstream.charged, used)
	if upstream.refused > 0 || used < upstream.charged {
		s.Errorf("the upstream charged %d and refused %d, but %d units are debited", upstream.charged, upstream.refused, used)
	}
	if excess := used - upstream.charged; excess > 0 {
		s.Logf("beyond that %d, of these calls that failed and that it did not charge: %d", excess, uncharged)
		if excess > len(uncharged) {
			s.Errorf("%d units too many are debited", excess)
		}
	}
}
