package redisledger_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger"
	"quotad/quota/slidinglog"
)

// Programs on several hosts share a budget in Redis, which decides. Each keeps a journal: so it can go on with a few
// calls while Redis is away, and put back what Redis loses.
func ExampleOpenStore() {
	youtube := &quota.Credential{
		Name:       "youtube",
		Limits:     []quota.Limit{{Name: "daily", Units: 10_000, Reserve: 500, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{"search.list": {Every: 100}, "videos.list": {Every: 1}},
	}
	store, err := redisledger.OpenStore(redisledger.Config{Addrs: []string{"127.0.0.1:6379"}, Password: os.Getenv("REDIS_PASSWORD")})
	check(err)
	ledger := slidinglog.Open(slidinglog.Config{
		Engine: store,
		Dir:    "/var/lib/fetch", // of the journals
		Name:   "alpha",          // this host, for people
	})
	check(ledger.SetCredentials([]*quota.Credential{youtube}, map[string]slidinglog.Policy{
		"youtube": {Open: map[string]bool{"videos.list": true}, Units: 50}, // while Redis is away; a search is refused
	}))
	defer ledger.Close() // and the store with it
	service, err := quota.NewService(ledger, []*quota.Credential{youtube}, time.Second)
	check(err)
	d, err := service.Acquire(context.Background(), quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1})
	check(err)
	fmt.Println(d.Granted(), d.Outage)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
