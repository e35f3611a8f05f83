package redisledger

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/clientlimit"
	"quotad/quota/redisledger/redistest"
)

// In a Redis that evicts, a subject begins at zero when its record goes, and no call fails.
func TestClientsOfARedisThatEvicts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-random")
	for _, algorithm := range []clientlimit.Algorithm{clientlimit.Log, clientlimit.Counter} {
		server.Order(t, "FLUSHALL")
		l, c := patient(openStoreAt(t, Config{Addrs: []string{server.Addr}})), hourly()
		c.Algorithm = algorithm
		take := func(subject string) quota.Decision {
			d, err := takeOne(t.Context(), l, c, subject)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		for range 5 {
			take("alice")
		}
		if d := take("alice"); d.Reason != quota.LimitExceeded {
			t.Fatalf("got %+v, want a denial", d)
		}
		record := server.Do(t, "KEYS", "*:c:*").([]any)[0].(string)
		server.Do(t, "CONFIG", "SET", "maxmemory", strconv.FormatInt(usedMemory(t, server)+16<<10, 10))
		others := 0
		for ; server.Do(t, "EXISTS", record) == int64(1); others++ {
			if d := take(fmt.Sprint("user", others)); !d.Granted() {
				t.Fatalf("got %+v, want a grant", d)
			}
		}
		t.Logf("%s: alice's record is evicted after %d other subjects", algorithm, others)
		server.Do(t, "CONFIG", "SET", "maxmemory", "0")
		wantUsed(t, l, c, "alice", 0)
		if d := take("alice"); !d.Granted() {
			t.Errorf("got %+v, want a grant", d)
		}
		wantUsed(t, l, c, "alice", 1)
	}
}

// What the program on the page needs of PHP's extension for Redis, and of a web server.
const phpRedis = `<?php
namespace Page;
class Redis {
	private $server;
	function connect($host) { $this->server = stream_socket_client(getenv('QUOTAD_CHILD_REDIS')); }
	function set($key, $value, $options) { return $this->call('SET', $key, $value, ...$options); }
	function get($key) { return $this->call('GET', $key); }
	function eval($script, $words, $keys) { return $this->call('EVAL', $script, $keys, ...$words); }
	private function call(...$words) {
		$text = '*' . count($words) . "\r\n";
		foreach ($words as $word) { $text .= '$' . strlen($word) . "\r\n$word\r\n"; }
		fwrite($this->server, $text);
		return $this->answer();
	}
	private function answer() {
		$line = rtrim(fgets($this->server));
		$rest = substr($line, 1);
		switch ($line[0]) {
		case '-': throw new \Exception($rest);
		case ':': return (int) $rest;
		case '+': return $rest;
		case '*': return array_map(fn() => $this->answer(), range(1, (int) $rest));
		}
		return $rest < 0 ? null : substr(stream_get_contents($this->server, $rest + 2), 0, (int) $rest);
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
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(page), "```php\n")
	program, _, found := strings.Cut(program, "```")
	file := filepath.Join(t.TempDir(), "page.php")
	if err := os.WriteFile(file, []byte(phpRedis+program), 0o600); err != nil || !found {
		t.Fatalf("the page has a program: %v: %v", found, err)
	}
	run := func() string {
		command := exec.Command(php, file)
		command.Dir, command.Env = "../../lua", append(os.Environ(), "QUOTAD_CHILD_REDIS="+server.Addr)
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if out := run(); out != "" {
		t.Errorf("the first call is answered %q", out)
	}
	limits, err := OpenClients(Config{Addrs: []string{server.Addr}, Deadline: hanging}, "", &clientlimit.Clients{
		Name: "public", Algorithm: clientlimit.Log,
		Limits: []quota.Limit{{Name: "minute", Units: 60, Window: quota.Sliding(time.Minute)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer limits.Close()
	d, err := limits.AcquireClient(context.Background(), "public", api.ClientRequest{Subject: "192.0.2.1", Count: 59})
	if err != nil || !d.Granted || d.Remaining != 0 {
		t.Errorf("got %+v, %v, want the 59 units that are left", d, err)
	}
	if out := run(); !strings.HasPrefix(out, "429 Retry-After: ") {
		t.Errorf("the 61st call is answered %q", out)
	}
}
