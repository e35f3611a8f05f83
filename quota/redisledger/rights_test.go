package redisledger

import (
	"slices"
	"strings"
	"testing"

	"quotad/quota/redisledger/redistest"
)

// leastRights is all that a Redis user of quotad needs, as ACL SETUSER takes it:
// the keys below the prefix, and these commands of the scripts' and of the client.
const leastRights = "~quotad:* +ping +eval +evalsha +time +get +set +del +pexpire +xadd +xrange +xrevrange +xtrim"

// What it needs beside in a Cluster, and in a database other than 0.
const (
	clusterRights  = "+cluster|slots"
	databaseRights = "+select"
)

// withUser makes a user who has these rights and no others.
func withUser(t testing.TB, server *redistest.Server, rights string) (name, password string) {
	t.Helper()
	name, password = "budget", "open-sesame"
	rule := append([]string{"ACL", "SETUSER", name, "reset", "on", ">" + password}, strings.Fields(rights)...)
	server.Do(t, rule...)
	return name, password
}

func withRights(t testing.TB, server *redistest.Server, rights string) Config {
	t.Helper()
	config := Config{Addrs: []string{server.Addr}}
	config.Username, config.Password = withUser(t, server, rights)
	return config
}

// Without any one of its rights the user cannot do its work.
func TestLeastRightsAreTheLeast(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rights := strings.Fields(leastRights)
	for i, right := range rights {
		t.Run(right, func(t *testing.T) {
			server.Order(t, "SCRIPT FLUSH")
			others := slices.Delete(slices.Clone(rights), i, i+1)
			if err := everyVerb(t, withRights(t, server, strings.Join(others, " "))); err == nil {
				t.Errorf("nothing was missed without %s", right)
			}
		})
	}
}

func TestLeastRightsAreNotDangerous(t *testing.T) {
	t.Parallel()
	dangerous := redistest.Start(t).Do(t, "ACL", "CAT", "dangerous").([]any)
	for _, right := range strings.Fields(leastRights + " " + clusterRights + " " + databaseRights) {
		if name, isCommand := strings.CutPrefix(right, "+"); isCommand && slices.Contains(dangerous, any(name)) {
			t.Errorf("%s is a dangerous command", name)
		}
	}
}

// A server that does not tell its settings, as to the user of the README, is asked once: each
// refusal stands in its ACL log.
func TestSettingsThatAreNotToldAreAskedForOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	config := withRights(t, server, leastRights)
	store, err := OpenStore(config)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for range 5 {
		if _, err := store.Health(t.Context()); err != nil {
			t.Fatalf("got %v, want it reachable", err)
		}
	}
	stats := server.Do(t, "INFO", "commandstats").(string)
	if !strings.Contains(stats, "cmdstat_config|get:calls=0,usec=0,usec_per_call=0.00,rejected_calls=1,") {
		t.Errorf("got %s\nwant one rejected call", stats)
	}
}
