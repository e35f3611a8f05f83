package redisledger

import (
	"os"
	"slices"
	"strings"
	"testing"

	"quotad/quota/redisledger/redistest"
)

// leastRights is all that a Redis user of quotad needs, as ACL SETUSER takes it, to decide:
// the keys below the prefix, and these commands of the scripts' and of the client.
const leastRights = "~quotad:* +ping +eval +evalsha +time +info +type +get +set +del +pexpire +hget +hmget +hgetall +hset " +
	"+hsetnx +hdel +hincrby +zadd +zcard +zcount +zscore +zrange +zrangebyscore +zrevrangebyscore +zremrangebyrank"

// What it needs beside in a Cluster.
const clusterRights = "+cluster|slots"

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
	for _, right := range strings.Fields(leastRights + " " + clusterRights) {
		if name, isCommand := strings.CutPrefix(right, "+"); isCommand && name != "info" && slices.Contains(dangerous, any(name)) {
			t.Errorf("%s is a dangerous command", name)
		}
	}
}

// The user of the page is refused nothing: each refusal stands in the ACL log of the server.
func TestNothingIsRefusedToTheUserOfThePage(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../cmd/quotad/HOSTS.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "ACL SETUSER quotad on >PASSWORD " + leastRights + "\n"; !strings.Contains(string(readme), want) {
		t.Errorf("the page does not say %q", want)
	}
	server := redistest.Start(t)
	store := openStoreAt(t, withRights(t, server, leastRights))
	if warnings, err := store.Health(t.Context()); err != nil || len(warnings) == 0 {
		t.Errorf("got %q, %v, want a warning of its settings", warnings, err)
	}
	if lacks, err := store.Check(t.Context(), true); err != nil || len(lacks) == 0 {
		t.Errorf("got %q, %v, want what it lacks", lacks, err)
	}
	if refused := server.Do(t, "ACL", "LOG"); len(refused.([]any)) > 0 {
		t.Errorf("the server refused %v", refused)
	}
}
