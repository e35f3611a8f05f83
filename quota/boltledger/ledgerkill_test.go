package boltledger

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

const ledgerChildVariable = "QUOTAD_CHILD_LEDGER"

// plenty is a credential that denies nothing.
func plenty(name string) *quota.Credential {
	return &quota.Credential{
		Name:       name,
		Limits:     []quota.Limit{{Name: "daily", Units: 1_000_000_000, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{"list": {Every: 1}},
	}
}

// list asks for one call, under a request id where there is one.
func list(id string) quota.Ask {
	return quota.Ask{
		Request: quota.Request{Credential: credential, Operation: "list", Count: 1, RequestID: id},
		Charges: []quota.Charge{{Limit: "daily", Units: 1}},
	}
}

// acquire asks for one call, and returns what was decided.
func acquire(t testing.TB, l *slidinglog.Ledger, c *quota.Credential, id string) (quota.Decision, error) {
	t.Helper()
	decisions, err := l.Acquire(t.Context(), c, []quota.Ask{list(id)})
	if err != nil {
		return quota.Decision{}, err
	}
	return decisions[0], decisions[0].Err
}

// Killed while several callers are granted, and while the tables are written: each grant that
// was told is there, once, and its request id is answered as it was.
func TestKilledWhileItGrants(t *testing.T) {
	if path := os.Getenv(ledgerChildVariable); path != "" {
		grantAllUntilKilled(t, path)
	}
	path := filepath.Join(t.TempDir(), "ledger.db")
	told := make(map[string]string) // grant ids by request id
	for round := range 6 {
		killed(t, t.Name(), ledgerChildVariable, fmt.Sprint(round)+path, 300, func(line string) {
			id, grant, ok := strings.Cut(line, " ")
			if told[id] = grant; !ok {
				t.Errorf("the child says %q", line)
			}
		})
		l := openLedger(t, Config{Path: path}, nil)
		c := plenty(credential)
		before := usedOf(t, l, c)
		for id, grant := range told {
			d, err := acquire(t, l, c, id)
			if err != nil || !d.Replayed || d.GrantID != grant {
				t.Fatalf("%s was granted as %s, and is answered %+v, %v", id, grant, d, err)
			}
		}
		if after := usedOf(t, l, c); after != before || before < quota.Units(len(told)) || before > quota.Units(len(told)+(round+1)*killCallers) {
			t.Fatalf("round %d: %d grants were told, the log has %d, then %d", round, len(told), before, after)
		}
		must(t, l.Close())
	}
}

const killCallers = 8

func usedOf(t testing.TB, l *slidinglog.Ledger, c *quota.Credential) quota.Units {
	t.Helper()
	u, err := l.Usage(t.Context(), c)
	must(t, err)
	return u.Limits[0].Used
}

func grantAllUntilKilled(t *testing.T, of string) {
	l := openLedger(t, Config{Path: of[1:]}, nil)
	startFolding(t, l)
	c := plenty(credential)
	var callers sync.WaitGroup
	for caller := range killCallers {
		callers.Go(func() {
			for n := 0; ; n++ {
				id := fmt.Sprintf("%s-%d-%d", of[:1], caller, n)
				decisions, err := l.Acquire(context.Background(), c, []quota.Ask{list(id)})
				if err != nil || decisions[0].Err != nil || !decisions[0].Granted() {
					fmt.Println("not granted:", err, decisions)
					continue
				}
				os.Stdout.WriteString(id + " " + decisions[0].GrantID + "\n")
			}
		})
	}
	callers.Wait()
}
