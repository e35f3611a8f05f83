package server

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"quotad/quota"
)

// What the daemon warns of is for callers on its host.
func TestRemoteCallersAreNotWarned(t *testing.T) {
	health := quota.Health{State: "ok", Warnings: []string{"appendonly is no"}}
	for want, remote := range []*RemoteCaller{{Name: "shop"}, nil} {
		if got := (&Session{remote: remote}).ledger(health); len(got.Warnings) != want {
			t.Errorf("%v: got %+v, want %d warnings", remote, got, want)
		}
	}
}

// An entry of the log is told with all that it holds.
func TestEntryOf(t *testing.T) {
	at, three := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC), []quota.Charge{{Limit: "daily", Units: 3}}
	for _, row := range []struct {
		entry quota.Entry
		want  string
	}{
		{quota.Entry{At: at, By: "trending", Region: "US", Outage: true, Would: []string{"trial"}, Charges: three,
			Body: quota.Grant{Operation: "list", Count: 3}},
			`"kind":"grant","operation":"list","count":3,"by":"trending","region":"US","units":3,` +
				`"charges":[{"limit":"daily","units":3,"debited":3}],"would_deny":["trial"],"outage":true}`},
		{quota.Entry{At: at, By: "@0", Note: "gone", Body: quota.Changed{Limit: "daily", Until: at}},
			`"kind":"closing","by":"@0","units":0,"charges":[],"limit":"daily","until":"2026-11-21T09:00:00Z","note":"gone"}`},
	} {
		if got, err := json.Marshal(entryOf("youtube", row.entry)); err != nil || !strings.HasSuffix(string(got), row.want) {
			t.Errorf("got %s, %v, want %s", got, err, row.want)
		}
	}
}
