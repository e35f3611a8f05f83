package redisledger

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
	"quotad/quota/boltledger"
	"quotad/quota/slidinglog"
)

// quickly is how long the logs of tests are quiet after a loss that wait for no more.
const quickly = 12 * time.Millisecond

// openLedger opens a ledger on a store, with its file.
func openLedger(t testing.TB, store slidinglog.Store, path string, config slidinglog.Config) *slidinglog.Ledger {
	t.Helper()
	file, err := boltledger.Open(boltledger.Config{Path: path, Unsynced: true, AcceptNew: true})
	if err != nil {
		t.Fatal(err)
	}
	config.File, config.Store, config.Deadline = file, store, hanging
	if config.Quiet == 0 {
		config.Quiet = quickly
	}
	l, err := slidinglog.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// openAt opens a ledger on a server's own clock.
func openAt(t testing.TB, config Config) (*slidinglog.Ledger, *Store) {
	t.Helper()
	store, err := OpenStore(config)
	if err != nil {
		t.Fatal(err)
	}
	l := openLedger(t, store, filepath.Join(t.TempDir(), "ledger.db"), slidinglog.Config{Credentials: []*quota.Credential{hundred()}})
	t.Cleanup(func() { l.Close() })
	return l, store
}

func connect(t testing.TB, config Config) redis.UniversalClient {
	t.Helper()
	client := config.client(nil)
	t.Cleanup(func() { client.Close() })
	return client
}

// hundred is a credential of a hundred units a day.
func hundred() *quota.Credential {
	return &quota.Credential{
		Name:       "one",
		Limits:     []quota.Limit{{Name: "daily", Units: 100, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{"list": {Every: 1}, "ten": {Every: 10}},
	}
}

// ask is an ask of hundred's, without an id if that is empty.
func ask(operation, id string) quota.Ask {
	units := hundred().Operations[operation].Every
	return quota.Ask{
		Request: quota.Request{Credential: "one", Operation: operation, Count: 1, RequestID: id, Caller: quota.Caller{UID: 1}},
		Charges: []quota.Charge{{Limit: "daily", Units: units}},
	}
}
