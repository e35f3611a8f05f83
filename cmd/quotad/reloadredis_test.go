package main

import (
	"net/http"
	"testing"

	"quotad/quota/redisledger/redistest"
)

// A credential that a reload adds decides when the reload has answered, though its log in Redis is new and has
// a quiet period first.
func TestReloadedCredentialDecides(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	config := "[ledger]\n" + onRedis(redistest.Start(t).Addr) + "\n[credentials.api]\nlimits.daily.units = 100\noperations.list = 1\n"
	writeConfig(t, dir, config)
	daemon := startIn(t, dir)
	writeConfig(t, dir, config+"[credentials.other]\nlimits.daily.units = 100\noperations.list = 1\n")
	if output, err := quotactlIn(dir, "reload").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if status, answer := requestOf(t, dir, http.MethodPost, "/v1/acquire", `{"credential":"other","operation":"list"}`); status != http.StatusOK {
		t.Errorf("after the reload the new credential answers %d %s", status, answer)
	}
	daemon.logs(t, "^read again: ")
}
