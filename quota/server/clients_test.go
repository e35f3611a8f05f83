package server_test

import (
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// A clientScene is a server with the clients public, with 3 units a minute and 5 an hour,
// and closed, which are refused while the ledger is away.
type clientScene struct {
	*servertest.Server
	ledger  *ledgertest.ClientStore
	service *clientlimit.Service
}

func clientsServed(t *testing.T, edit func(*server.Config)) *clientScene {
	t.Helper()
	s := new(clientScene)
	s.ledger = ledgertest.NewClientStore(func() time.Time { return s.Clock.Now() })
	s.service = clientlimit.NewService(nil)
	servertest.Must(t, s.service.SetClients(s.ledger, "", []*clientlimit.Clients{
		{Name: "public", Algorithm: clientlimit.Log, OpenOnOutage: true, Operations: map[string]quota.Units{"search": 2}, Limits: []quota.Limit{
			{Name: "minute", Units: 3, Window: quota.Sliding(time.Minute)},
			{Name: "hour", Units: 5, Window: quota.Sliding(time.Hour)},
			{Name: "watched", Units: 2, Window: quota.Sliding(2 * time.Hour), DryRun: true},
		}},
		{Name: "closed", Algorithm: clientlimit.Counter, Limits: []quota.Limit{{Name: "default", Units: 3, Window: quota.Sliding(time.Minute)}}},
	}))
	s.Server = servertest.Start(t, func(c *server.Config) {
		c.Clients = s.service
		if edit != nil {
			edit(c)
		}
	})
	return s
}
