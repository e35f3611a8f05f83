package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"quotad/quota/api"
	"quotad/quota/redisledger/redistest"
)

// A redisState is one in which Redis answers, and takes no records. It begins and ends by what is done to a
// server, or to the proxy in front of it.
type redisState struct {
	begin, end func(t *testing.T, server *redistest.Server, proxy *redistest.Proxy)
	says       string // in the answers of the daemon
	lost       bool   // the log is lost meanwhile
}

// command returns a step that has the server carry out a command.
func command(line string) func(*testing.T, *redistest.Server, *redistest.Proxy) {
	return func(t *testing.T, server *redistest.Server, _ *redistest.Proxy) {
		server.Do(t, strings.Fields(line)...)
	}
}

// commands returns a step of several commands.
func commands(lines ...string) func(*testing.T, *redistest.Server, *redistest.Proxy) {
	return func(t *testing.T, server *redistest.Server, proxy *redistest.Proxy) {
		for _, line := range lines {
			command(line)(t, server, proxy)
		}
	}
}

// budgetUser is the user of the daemon, so that the test's own always may do everything.
const budgetUser = "ACL SETUSER budget reset on >sesame ~* +@all"

var redisStates = map[string]redisState{
	"full":                      {begin: command("CONFIG SET maxmemory 1"), end: command("CONFIG SET maxmemory 0"), says: "redis refuses: OOM .*: raise maxmemory"},
	"something else at the key": {begin: commands("DEL quotad:{api}:state", "SET quotad:{api}:state x"), end: command("DEL quotad:{api}:state"), says: "redis refuses: WRONGTYPE .*: rename it", lost: true},
	"the password is another":   {begin: commands("ACL SETUSER budget resetpass >another", "CLIENT KILL USER budget"), end: command("ACL SETUSER budget >sesame"), says: "redis refuses: WRONGPASS .*: set username and password_file"},
	"failover behind the address": {begin: command("REPLICAOF 127.0.0.1 1"), end: func(t *testing.T, _ *redistest.Server, proxy *redistest.Proxy) {
		other := redistest.Start(t)
		command(budgetUser)(t, other, nil)
		proxy.Lead(other)
	}, says: "redis refuses: READONLY ", lost: true},
}

// While Redis takes no records, the daemon is down in every respect, whatever can be read: in the answer to an
// acquire and to why, in readyz, in the metric and in the status, with what Redis says and the cure. It is one
// outage, which ends when a record was taken. on_outage grants in none that only a person can end.
func TestRedisInEveryState(t *testing.T) {
	t.Parallel()
	for name, state := range redisStates {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server)
			command(budgetUser)(t, server, proxy)
			dir := shortDir(t)
			writeConfig(t, dir, "[ledger]\n"+onRedis(proxy.Addr)+"\nredis.username = \"budget\"\nredis.password_file = \"password\"\n[credentials.api]\nlimits.daily.units = 100\noperations.list = 1\n")
			writePassword(t, dir)
			daemon, client := startIn(t, dir), &api.Client{Socket: filepath.Join(dir, ".quotad/quotad.sock")}
			acquire := func() (int, string) {
				return requestOf(t, dir, http.MethodPost, "/v1/acquire", `{"credential":"api","operation":"list"}`)
			}
			eventually(t, func() bool { // until it has read its log
				status, _ := acquire()
				return status == http.StatusOK
			})
			says := regexp.MustCompile(state.says)
			state.begin(t, server, proxy)
			eventually(t, func() bool { // without an acquire
				status, answer := requestOf(t, dir, http.MethodGet, "/readyz", "")
				return status == http.StatusServiceUnavailable && says.MatchString(answer)
			})
			for range 5 {
				if status, answer := acquire(); status != http.StatusServiceUnavailable || !says.MatchString(answer) {
					t.Errorf("an acquire gets %d %s; want %s", status, answer, state.says)
				}
				if up := scrape(t, client)[`quotad_ledger_up{backend="redis"}`]; up != 0 {
					t.Errorf("quotad_ledger_up is %v", up)
				}
			}
			status, _ := quotactlIn(dir).CombinedOutput()
			if writes := regexp.MustCompile(`^Redis refuses writes \([A-Z]+\): every call is refused`); !says.Match(status) && !writes.Match(status) {
				t.Errorf("quotactl says\n%s\nwant %s", status, state.says)
			}
			if why, err := quotactlIn(dir, "why", "list").CombinedOutput(); err == nil || !says.Match(why) {
				t.Errorf("quotactl why says %v\n%s", err, why)
			}
			first, _, _ := strings.Cut(string(status), "\n")
			state.end(t, server, proxy)
			begun := time.Now()
			eventually(t, func() bool {
				status, _ := acquire()
				return status == http.StatusOK
			})
			took := time.Since(begun)
			daemon.logs(t, "^ledger up$")
			if status, answer := requestOf(t, dir, http.MethodGet, "/readyz", ""); status != http.StatusOK {
				t.Errorf("it serves, and is said to be %s", answer)
			}
			down, up := daemon.count("ledger down"), daemon.count("ledger up")
			if up != 1 || down != 1 && !state.lost {
				t.Errorf("%d outages began and %d ended", down, up)
			}
			t.Logf("%s · served again after %v · %d began, %d ended", first, took.Round(time.Millisecond), down, up)
		})
	}
}

func writePassword(t *testing.T, dir string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, "password"), []byte("sesame"), 0o600))
}

// requestOf makes one request of a daemon, which is not repeated.
func requestOf(t *testing.T, dir, method, path, body string) (status int, answer string) {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, ".quotad/quotad.sock"))
	}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://quotad"+path, strings.NewReader(body))
	must(t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := transport.RoundTrip(request)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(text)
}

// count returns how often a message was logged.
func (c *child) count(message string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.log {
		if says(line, regexp.MustCompile("^"+message+"$"), nil) {
			n++
		}
	}
	return n
}

// A daemon whose Redis is another kind of server than its configuration says never serves, and says why.
func TestRedisOfAnotherKind(t *testing.T) {
	t.Parallel()
	withTLS, _ := redistest.StartTLS(t)
	plain := redistest.StartTCP(t)
	for name, row := range map[string]struct{ ledger, says string }{
		"a port for TLS":  {fmt.Sprintf("redis.addrs = [%q]", withTLS.Addr), `set \[ledger.redis.tls\]`},
		"no port for TLS": {fmt.Sprintf("redis.addrs = [%q]\nredis.tls = {}", plain.Addr), `remove \[ledger.redis.tls\]`},
		"no such port":    {fmt.Sprintf("redis.addrs = [%q]", net.JoinHostPort("127.0.0.1", "1")), "cannot reach redis: .*connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := shortDir(t)
			writeConfig(t, dir, "[ledger]\nbackend = \"redis\"\n"+row.ledger+"\n[credentials.api]\nlimits.daily.units = 100\noperations.list = 1\n")
			startIn(t, dir)
			eventually(t, func() bool {
				status, answer := requestOf(t, dir, http.MethodGet, "/readyz", "")
				return status == http.StatusServiceUnavailable && regexp.MustCompile(row.says).MatchString(answer)
			})
		})
	}
}

// --check says what Redis lacks. With --strict it also writes there, and what is lacking is an error.
func TestCheckOfRedis(t *testing.T) {
	t.Parallel()
	good := redistest.Start(t, "--appendonly", "yes")
	unsafe := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	full := redistest.Start(t, "--appendonly", "yes", "--maxmemory", "1")
	for name, row := range map[string]struct {
		addr         string
		says         []string
		good, strict bool // whether it passes
	}{
		"good":   {good.Addr, nil, true, true},
		"unsafe": {unsafe.Addr, []string{"maxmemory-policy is allkeys-lru", "appendonly is no"}, true, false},
		"full":   {full.Addr, []string{"redis refuses: OOM"}, true, false},
		"away":   {"unix:///nowhere/redis", []string{"cannot reach redis"}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := shortDir(t)
			writeConfig(t, dir, "[ledger]\n"+onRedis(row.addr)+"\n[credentials.api]\nlimits.daily.units = 100\noperations.list = 1\n")
			for _, strict := range []bool{false, true} {
				cmd := exec.Command("quotad", "--check", fmt.Sprintf("--strict=%v", strict))
				cmd.Dir = dir
				output, err := cmd.CombinedOutput()
				if want := row.good && !strict || row.strict; (err == nil) != want {
					t.Errorf("strict %v: %v\n%s", strict, err, output)
				}
				for _, says := range row.says {
					if named := strings.Contains(string(output), says); !named && (strict || says != "redis refuses: OOM") {
						t.Errorf("strict %v: want %q\n%s", strict, says, output)
					}
				}
			}
		})
	}
}
