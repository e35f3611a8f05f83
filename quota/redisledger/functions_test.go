package redisledger_test

import (
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/slidinglog"
)

// .ci/nightly counts the functions that a thousand grants call a thousand times: a stranger can hold them in mind.
func TestThousandGrants(t *testing.T) {
	store, err := redisledger.OpenStore(redisledger.Config{Addrs: []string{redistest.Start(t).Addr}})
	if err != nil {
		t.Fatal(err)
	}
	ledger := slidinglog.Open(slidinglog.Config{Engine: store, Dir: t.TempDir(), Name: "here", Manual: true})
	t.Cleanup(func() { ledger.Close() })
	c := &quota.Credential{Name: "youtube", Operations: map[string]quota.Cost{"videos.list": {Every: 1}},
		Limits: []quota.Limit{{Name: "daily", Units: 1000, Window: quota.Sliding(24 * time.Hour)}}}
	service, err := quota.NewService(ledger, []*quota.Credential{c}, 10*time.Second)
	if err == nil {
		err = ledger.SetCredentials(service.Credentials(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	ledger.Await(t.Context())
	for n := range 1001 {
		d, err := service.Acquire(t.Context(), quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1})
		if err != nil || d.Granted() != (n < 1000) {
			t.Fatal(n, d, err)
		}
	}
}
