package redisledger

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/clientlimit"
	"quotad/quota/redisledger/redistest"
)

// hourly gives each subject five units an hour.
func hourly(algorithm clientlimit.Algorithm) *clientlimit.Clients {
	return &clientlimit.Clients{
		Name: "public", Algorithm: algorithm, Limits: []quota.Limit{{Name: "hourly", Units: 5, Window: quota.Sliding(time.Hour)}},
	}
}

// openClients opens limits that a server decides.
func openClients(t *testing.T, addr string, deadline time.Duration, c *clientlimit.Clients) *Clients {
	t.Helper()
	all, err := OpenClients(Config{Addrs: []string{addr}, Deadline: deadline}, "", c)
	must(t, err)
	t.Cleanup(func() { all.Close() })
	return all
}

// take has a subject ask for a unit.
func take(t *testing.T, c *Clients, subject string) (quota.Decision, error) {
	return c.service.Acquire(t.Context(), "public", clientlimit.Request{Subject: subject, Count: 1})
}

// takeSoon asks until Redis decides, and wants that so many were used before, without those that it granted itself.
func takeSoon(t *testing.T, c *Clients, subject string, used quota.Units) {
	t.Helper()
	redistest.Until(t, "Redis decides", func() bool {
		d, err := take(t, c, subject)
		if err == nil && (!d.Granted() || d.Limits[0].Used != used+1) {
			t.Errorf("got %+v, want a grant after %d units", d, used)
		}
		return err == nil
	})
}

// After two calls that were not answered, others fail at once, but for one that tries now and then.
func TestClientsOfFrozenRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := openClients(t, server.Addr, 0, hourly(clientlimit.Counter))
	takeSoon(t, c, "alice", 0)
	key := server.Do(t, "KEYS", "quotad:c:*").([]any)[0].(string)
	if left := server.Do(t, "PTTL", key).(int64); left <= time.Hour.Milliseconds() {
		t.Errorf("a counter expires in %d ms, though the next window counts it", left)
	}
	must(t, server.Freeze())
	for _, row := range []struct {
		until time.Duration // of the pause; 0: as it is
		want  error
	}{{0, quota.ErrOutcomeUnknown}, {0, quota.ErrOutcomeUnknown}, {-time.Hour, quota.ErrOutcomeUnknown}, {time.Hour, quota.ErrUnavailable}} {
		if p, paused := c.store.pauses.Load(""); paused && row.until != 0 {
			c.store.pauses.Store("", &pause{time.Now().Add(row.until), p.(*pause).why})
		}
		if _, err := take(t, c, "alice"); !errors.Is(err, row.want) {
			t.Errorf("got %v, want %v", err, row.want)
		}
	}
	must(t, server.Thaw())
	c.store.pauses.Clear()
	takeSoon(t, c, "bob", 0)
}

// A reply that is lost is an outcome that nobody knows; the call was debited once. In a Redis that was flushed a subject
// begins at zero.
func TestClientsWithoutReply(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server)
	c := openClients(t, proxy.Addr, hanging, hourly(clientlimit.Log))
	for fault, used := range map[redistest.Fault]quota.Units{redistest.CutAfter: 2, redistest.CutBefore: 1} {
		subject := string(fault)
		takeSoon(t, c, subject, 0)
		proxy.Meet(fault)
		if _, err := take(t, c, subject); !errors.Is(err, quota.ErrOutcomeUnknown) {
			t.Errorf("got %v without a reply, want %v", err, quota.ErrOutcomeUnknown)
		}
		takeSoon(t, c, subject, used)
	}
	_, err := c.AcquireClient(t.Context(), "pubic", api.ClientRequest{Subject: "a"})
	if err == nil || api.ProblemFrom(err).Reason != quota.UnknownClients {
		t.Errorf("got %v of clients that are not configured", err)
	}
	d, err := c.AcquireClient(t.Context(), "public", api.ClientRequest{Subject: "a", Count: 6})
	if err != nil || d.Reason != string(quota.CostExceedsLimit) {
		t.Errorf("got %+v, %v of what never fits, want it denied", d, err)
	}
	server.Order(t, "FLUSHALL")
	server.Order(t, "SCRIPT FLUSH")
	takeSoon(t, c, string(redistest.CutAfter), 0)
}

// A log that is not enforced forgets its oldest grants.
func TestLogsAreBounded(t *testing.T) {
	t.Parallel()
	server, limits := redistest.Start(t), hourly(clientlimit.Log)
	limits.Limits[0].DryRun = true
	c := openClients(t, server.Addr, hanging, limits)
	takeSoon(t, c, "alice", 0)
	key := server.Do(t, "KEYS", "*:c:*").([]any)[0].(string)
	server.Do(t, "EVAL", `local now = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
		redis.call('DEL', KEYS[1])
		for i = 1, 100000 do redis.call('ZADD', KEYS[1], now - 100000 + i, i .. ' 1') end`, "1", key)
	for range 3 {
		d, err := take(t, c, "alice")
		if n := server.Do(t, "ZCARD", key); err != nil || !d.Granted() || n != int64(100_000) {
			t.Errorf("got %+v, %v, and the log has %v entries", d, err, n)
		}
	}
}

// What the program on the page needs of PHP's extension for Redis, and of a web server.
const phpRedis = `<?php
namespace Page;
class Redis {
	function connect($host) {}
	function set($key, $value, $options) { $this->call('SET', $key, $value, ...$options); }
	function get($key) { return $this->call('GET', $key)[0]; }
	function eval($script, $words, $keys) { return $this->call('EVAL', $script, $keys, ...$words); }
	private function call(...$words) {
		exec('redis-cli -s "$QUOTAD_CHILD_REDIS" ' . implode(' ', array_map('escapeshellarg', $words)), $lines);
		return $lines;
	}
}
function header($line, $replace, $status) { echo "$status $line"; }
$_SERVER['REMOTE_ADDR'] = '192.0.2.1';
`

// A program in another language that follows the page spends from the same records.
func TestTheProgramOfThePage(t *testing.T) {
	php, err := exec.LookPath("php")
	if err != nil {
		t.Skip("there is no php: the program of lua/README.md is not run")
	}
	server := redistest.Start(t)
	page, err := os.ReadFile("../../lua/README.md")
	must(t, err)
	_, program, _ := strings.Cut(string(page), "```php\n")
	program, _, _ = strings.Cut(program, "```")
	run := func() string {
		t.Helper()
		command := exec.Command(php)
		command.Stdin = strings.NewReader(phpRedis + program)
		command.Dir = "../../lua"
		command.Env = append(os.Environ(), "QUOTAD_CHILD_REDIS="+strings.TrimPrefix(server.Addr, "unix://"))
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if out := run(); out != "" {
		t.Fatalf("got %q, want a grant", out)
	}
	c := openClients(t, server.Addr, hanging, &clientlimit.Clients{
		Name: "public", Algorithm: clientlimit.Log, Limits: []quota.Limit{{Name: "minute", Units: 60, Window: quota.Sliding(time.Minute)}},
	})
	d, err := c.AcquireClient(t.Context(), "public", api.ClientRequest{Subject: "192.0.2.1", Count: 59})
	if err != nil || !d.Granted || d.Remaining != 0 {
		t.Errorf("got %+v, %v, want the 59 units that are left", d, err)
	}
	if out := run(); !strings.HasPrefix(out, "429 Retry-After: ") {
		t.Errorf("got %q, want a denial", out)
	}
}
