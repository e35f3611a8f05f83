package redisledger

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger/redistest"
)

// What Redis answers is said with its cure, whatever a server before 7 or a proxy puts in front of it. What
// only a person can change is no outage.
func TestRefusals(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server)
	s := openStoreAt(t, Config{Addrs: []string{proxy.Addr}})
	for _, row := range []struct {
		answer, says string
		unusable     bool
	}{
		{"OOM command not allowed when used memory > 'maxmemory'.", "OOM command not allowed when used memory > 'maxmemory': raise maxmemory", false},
		{"ERR Error running script (call to f_1): @user_script: 31: -OOM command not allowed", "OOM command not allowed: raise maxmemory", false},
		{"NOREPLICAS Not enough good replicas to write. script: " + strings.Repeat("ab", 20) + ", on @user_script:43.", "NOREPLICAS Not enough good replicas to write: bring the replicas back", false},
		{"MISCONF Redis is configured to save RDB snapshots", "look at its log and its disk", false},
		{"LOADING Redis is loading the dataset in memory", "wait until", false},
		{"READONLY You can't write against a read only replica.", "name the master", false},
		{"ERR READONLY You can't write against a read only replica.", "redis refuses: READONLY You can't", false},
		{"MASTERDOWN Link with MASTER is down", "name the master", false},
		{"CLUSTERDOWN The cluster is down", "CLUSTER INFO", false},
		{"NOAUTH Authentication required.", "set username and password_file", false},
		{"WRONGPASS invalid username-password pair or user is disabled.", "as Redis has them", false},
		{"NOPERM this user has no permissions to run the 'evalsha' command", "ACL SETUSER", false},
		{"ERR The user executing the script can't run this command or subcommand script", "ACL SETUSER", false},
		{"ERR max number of clients reached", "raise maxclients", false},
		{"WRONGTYPE Operation against a key holding the wrong kind of value", "key_prefix", true},
		{"MOVED 8528 127.0.0.1:7312", "this is a Cluster", true},
		{"ERR unknown command 'evalsha'", "Redis 6.2 or later", true},
		{"ERR something that nobody has met", "redis refuses: ERR something", true},
	} {
		proxy.Rewrite(func(string) string { return "-" + row.answer + "\r\n" })
		err := put(t.Context(), s, "a")
		if err == nil || !strings.HasPrefix(err.Error(), "redis refuses: ") || !strings.Contains(err.Error(), row.says) ||
			!errors.Is(err, quota.ErrUnavailable) {
			t.Errorf("%s\ngot %v\nwant %q", row.answer, err, row.says)
		}
		if unusable := errors.Is(err, quota.ErrUnusable); unusable != row.unusable {
			t.Errorf("%s: only a person can change it: %v", row.answer, unusable)
		}
	}
}

// The one address of a Cluster is used as that, for logs and for clients.
func TestClusterByOneAddress(t *testing.T) {
	t.Parallel()
	for i, node := range redistest.StartCluster(t) {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			if err := everyVerb(t, Config{Addrs: []string{node.Addr}}); err != nil {
				t.Error(err)
			}
		})
	}
}

// A client whose server says that it is a replica is replaced, in whatever words. Another refusal keeps it.
func TestReadOnlyInAnyWording(t *testing.T) {
	server := redistest.Start(t)
	for answer, leaves := range map[string]bool{
		"READONLY You can't write against a read only replica.":                                                      true,
		"ERR READONLY You can't write against a read only replica.":                                                  true,
		"ERR Error running script (call to f_1): @user_script: 43: -READONLY You can't write against a read only...": true,
		"LOADING Redis is loading the dataset in memory":                                                             false,
	} {
		proxy := redistest.NewProxy(t, server)
		s := openStoreAt(t, Config{Addrs: []string{proxy.Addr}})
		proxy.Rewrite(func(string) string { return "-" + answer + "\r\n" })
		before := s.current()
		if err := put(t.Context(), s, "a"); err == nil {
			t.Errorf("%s: the call is carried out", answer)
		}
		if left := s.current() != before; left != leaves {
			t.Errorf("%s: the client is replaced: %v", answer, left)
		}
	}
}

// Behind one address another server is the master. A connection that leads to the one before is given up,
// however its proxy words that it is a replica now.
func TestFailoverBehindOneAddress(t *testing.T) {
	for name, wording := range map[string]string{
		"Redis 7":   "",
		"Redis 6.2": "ERR Error running script (call to f_1): @user_script:43: @user_script: 43: -READONLY You can't write against a read only replica.",
		"a proxy's": "ERR READONLY You can't write against a read only replica.",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := redistest.Start(t), redistest.Start(t)
			proxy := redistest.NewProxy(t, before)
			s := openStoreAt(t, Config{Addrs: []string{proxy.Addr}})
			if err := put(t.Context(), s, "a"); err != nil {
				t.Fatal(err)
			}
			proxy.Lead(after)
			before.Do(t, "REPLICAOF", "127.0.0.1", "1")
			proxy.Rewrite(func(reply string) string {
				if wording != "" && strings.Contains(reply, "READONLY") {
					return "-" + wording + "\r\n"
				}
				return reply
			})
			begun := time.Now()
			for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
				err := put(t.Context(), s, "b")
				if err == nil && !has(t, s, "a") { // it is the other server, which was empty
					break
				}
				if time.Since(begun) > hanging {
					t.Fatalf("the connection stays with a replica: %v", err)
				}
			}
			t.Logf("it took %v", time.Since(begun))
		})
	}
}

// A port that is for TLS, and one that is not.
func TestMixedUpTLS(t *testing.T) {
	t.Parallel()
	withTLS, trusted := redistest.StartTLS(t)
	plain := redistest.StartTCP(t)
	for name, row := range map[string]struct {
		config Config
		says   string
	}{
		"a plain client at a port for TLS": {Config{Addrs: []string{withTLS.Addr}}, "set [ledger.redis.tls]"},
		"TLS at a plain port":              {Config{Addrs: []string{plain.Addr}, TLS: trusted}, "remove [ledger.redis.tls]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStoreAt(t, row.config)
			begun := time.Now()
			for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
				err := put(short(t), s, "a")
				if err != nil && strings.Contains(err.Error(), row.says) && strings.HasPrefix(err.Error(), "cannot reach redis: ") {
					break
				}
				if time.Since(begun) > hanging {
					t.Fatalf("got %v, want %q", err, row.says)
				}
			}
		})
	}
}
