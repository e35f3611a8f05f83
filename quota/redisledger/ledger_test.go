package redisledger

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/lua"
	"quotad/quota"
	"quotad/quota/slidinglog"
)

func connect(t testing.TB, config Config) redis.UniversalClient {
	t.Helper()
	client := config.client(&Store{config: config})
	t.Cleanup(func() { client.Close() })
	return client
}

// openStoreAt returns a store on the server's own clock.
func openStoreAt(t testing.TB, config Config) *Store {
	t.Helper()
	s, err := OpenStore(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// noQuiet are the scripts, without quiet: nobody else has anything to put back.
func noQuiet() map[string]string {
	bounds := lua.Usual()
	bounds.QuietMicros = 0
	return lua.All(bounds)
}

// openAt opens a ledger of hundred's on a store of its own.
func openAt(t testing.TB, config Config, scripts map[string]string) (*slidinglog.Ledger, *Store) {
	t.Helper()
	store, err := openStore(config, scripts)
	if err != nil {
		t.Fatal(err)
	}
	l := slidinglog.Open(slidinglog.Config{Engine: store, Dir: t.TempDir(), Name: "here",
		Deadline: config.Deadline, Manual: true, Unsynced: true})
	t.Cleanup(func() { l.Close() })
	if err := l.SetCredentials([]*quota.Credential{hundred()}, nil); err != nil {
		t.Fatal(err)
	}
	return l, store
}

// hundred is a credential of a hundred units a day.
func hundred() *quota.Credential {
	return &quota.Credential{
		Name:       "one",
		Limits:     []quota.Limit{{Name: "daily", Units: 100, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{"list": {Every: 1}, "ten": {Every: 10}},
	}
}

// ask is an ask of hundred's.
func ask(operation string) quota.Ask {
	units := hundred().Operations[operation].Every
	return quota.Ask{
		Request: quota.Request{Credential: "one", Operation: operation, Count: 1, Caller: quota.Caller{UID: 1}},
		Charges: []quota.Charge{{Limit: "daily", Units: units}},
	}
}

// entry is the text of a grant of one unit.
const entry = " daily=1\ngrant list 1 @1 % %"

// hour is for how long these logs keep an entry, in µs.
const hour = int64(time.Hour / time.Microsecond)

// put writes an entry to the log of youtube, as a host that puts it back.
func put(ctx context.Context, s *Store, id string) error {
	_, err := s.Run(ctx, "youtube", slidinglog.Restore, []any{"epoch", "", hour, 0, id, time.Now().UnixMicro(), 0, entry})
	return err
}

// has reports whether the log of youtube has an entry.
func has(t testing.TB, s *Store, id string) bool {
	t.Helper()
	values, err := s.Run(t.Context(), "youtube", slidinglog.Mirror, []any{0, "", 1, id})
	if err != nil {
		t.Fatal(err)
	}
	return len(values) > 2
}

// acquireArgs ask for a unit of a limit of an hour.
func acquireArgs(id, epoch string, keep int64, max int) []any {
	return []any{id, entry, "", epoch, 0, keep, 0, "drawn", 0, "daily", hour, 0, max, 1, 0}
}
