package middleware

import (
	"cmp"
	"context"
	"crypto/rand"
	"os"
	"sync"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/clientlimit"
)

// Limits are client limits that this process decides by itself, on a store that it may share with others: with
// other servers, and with daemons that have the same [clients.NAME]. No daemon is needed for them.
type Limits struct {
	service *clientlimit.Service
	stop    context.CancelFunc
	watch   sync.WaitGroup
}

// Open returns limits on a store, which may be in Redis (package redisledger). The caller closes the store after the
// limits. A store that cannot be reached delays nothing: requests are then decided by each Clients' OpenOnOutage.
// A deadline bounds each call of the store; 0 means 100 ms.
func Open(store clientlimit.Store, deadline time.Duration, clients ...*clientlimit.Clients) (*Limits, error) {
	if deadline == 0 {
		deadline = defaultTimeout
	}
	name, _ := os.Hostname() // for people
	id := rand.Text()
	l := &Limits{service: clientlimit.NewService(clientlimit.Config{
		Deadline: deadline, Host: clientlimit.Host{ID: func() string { return id }, Label: name},
	})}
	if err := l.service.SetClients(store, clients); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.watch.Go(func() { l.service.Watch(ctx) })
	return l, nil
}

// Close ends the use of the store. Handlers with these limits must not be used any more.
func (l *Limits) Close() {
	l.stop()
	l.watch.Wait()
}

// AcquireClients decides calls as the daemon does.
func (l *Limits) AcquireClients(ctx context.Context, clients string, calls []api.ClientRequest) ([]api.Decision, error) {
	if known, refused := l.service.Group(clients); known == nil {
		return nil, api.ProblemOf(refused)
	}
	requests := make([]clientlimit.Request, len(calls))
	for i, c := range calls {
		requests[i] = clientlimit.Request{Subject: c.Subject, Operation: c.Operation, Count: quota.Units(cmp.Or(c.Count, 1))}
	}
	decisions := make([]api.Decision, len(calls))
	for i, d := range l.service.Acquire(ctx, clients, requests...) {
		decisions[i] = api.DecisionOf(d, false)
	}
	return decisions, nil
}
