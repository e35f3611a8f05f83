package main

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"quotad/cmd/quotad/config"
	"quotad/quota"
	"quotad/quota/boltledger"
	"quotad/quota/clientlimit"
	"quotad/quota/redisledger"
	"quotad/quota/slidinglog"
	"quotad/quota/upstream"
)

// openLedger opens the ledger, and the service of its credentials.
func (d *daemon) openLedger(ctx context.Context) error {
	ledger, err := d.newLedger()
	if err != nil {
		return err
	}
	d.onStop("close the ledger", ledger.Close)
	if d.service, err = quota.NewService(d.metrics.Measure(warningLedger{ledger, d}), nil, d.config.Ledger.Deadline); err != nil {
		return err
	}
	d.observer = upstream.NewObserver(d.service, nil, func(out upstream.Outcome) { d.events.emit(out) })
	d.silences.observer = d.observer
	d.onStop("read what the upstream said last", func() error {
		d.silences.observing.Wait()
		return nil
	})
	if err := d.openClients(); err != nil {
		return err
	}
	if err := d.setCredentials(d.config); err != nil {
		return err
	}
	d.ledger.Await(ctx) // a run at the start would find a ledger that is still being read
	return nil
}

// setCredentials has a configuration's credentials decided about from now on.
// After an error those of before go on.
func (d *daemon) setCredentials(c *config.Config) error {
	if err := d.service.SetCredentials(c.Credentials); err != nil {
		return err
	}
	d.observer.SetProfiles(c.Profiles)
	if d.proxy != nil {
		d.proxy.SetTargets(c.Targets)
	}
	d.metrics.Expect(c)
	return d.ledger.SetCredentials(d.service.Credentials(), policies(c))
}

// policies returns by credential what is granted while Redis cannot be reached.
func policies(c *config.Config) map[string]slidinglog.Policy {
	policies := make(map[string]slidinglog.Policy, len(c.Outages))
	for name, o := range c.Outages {
		policies[name] = slidinglog.Policy{Open: o.Open, Units: o.Units}
	}
	return policies
}

// newLedger opens the ledger: the file in the state directory and, where hosts share one,
// the store in Redis, of whose logs the file then has copies.
func (d *daemon) newLedger() (quota.Ledger, error) {
	file := boltledger.Config{
		Path: d.statePath("ledger.db"), Unsynced: d.config.Ledger.Unsynced,
		History: hasHistory(d.config.StateDir), AcceptNew: d.options.acceptLedger, Began: d.ledgerBegan,
	}
	c := slidinglog.Config{Label: hostName(), Deadline: d.config.Ledger.Deadline, OnEvent: emitting[slidinglog.Event](&d.events)}
	for _, credential := range d.config.Credentials {
		c.Credentials = append(c.Credentials, credential.Prepared())
	}
	c.Policies = policies(d.config)
	var err error
	if d.config.Ledger.Backend == config.Embedded {
		c.File, err = boltledger.Open(file)
	} else {
		c.File, err = d.openCopy(file)
	}
	if err != nil {
		return nil, err
	}
	if d.config.Ledger.Backend != config.Embedded {
		if d.shared, err = redisledger.OpenStore(d.config.Ledger.Redis); err != nil {
			return nil, errors.Join(err, c.File.Close())
		}
		c.Store = d.shared
	}
	if d.ledger, err = slidinglog.Open(c); err != nil {
		err = errors.Join(err, c.File.Close())
		if d.shared != nil {
			err = errors.Join(err, d.shared.Close())
		}
		return nil, err
	}
	return d.ledger, nil
}

// openCopy opens the file of a host that shares a ledger. Redis has what it lacks, and so it
// may be new or older than it was; one that is damaged is set aside.
func (d *daemon) openCopy(c boltledger.Config) (*boltledger.File, error) {
	c.AcceptNew, c.Began = true, nil
	file, err := boltledger.Open(c)
	if !errors.Is(err, boltledger.ErrDamaged) {
		return file, err
	}
	aside := c.Path + ".damaged"
	if err := boltledger.Move(c.Path, aside); err != nil {
		return nil, err
	}
	d.log.Error().Err(err).Str("file", aside).Msg("the copy of the ledger is damaged and set aside: it is read from redis again")
	return boltledger.Open(c)
}

// ledgerBegan tells of a ledger that does not hold what was spent before it.
func (d *daemon) ledgerBegan(how string) {
	d.log.Warn().Str("file", d.statePath("ledger.db")).Str("ledger", how).
		Msg("a new ledger: limits count what it holds, and nothing that was spent before")
}

// hasHistory tells whether jobs ran here before, so that there must have been a ledger.
func hasHistory(stateDir string) bool {
	kept, err := os.ReadDir(filepath.Join(stateDir, "jobs"))
	return err == nil && len(kept) > 0
}

// jobStore returns what keeps the logs of the jobs for all hosts, nil on one that is alone.
func (d *daemon) jobStore() slidinglog.Store {
	if d.shared == nil {
		return nil
	}
	return d.shared
}

// hostName is what this host is called among others, for people; empty if it has
// no name.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// A warningLedger has the health of the ledger warn of what hosts count otherwise about clients.
type warningLedger struct {
	quota.Ledger
	daemon *daemon
}

// Health implements quota.Ledger.
func (l warningLedger) Health(ctx context.Context) quota.Health {
	h := l.Ledger.Health(ctx)
	h.Warnings = append(h.Warnings, l.daemon.clients.Differences(ctx)...)
	return h
}

// openClients opens the service of the clients, and keeps up with the hosts that share Redis.
func (d *daemon) openClients() error {
	host := clientlimit.Host{Label: hostName()}
	if d.shared != nil {
		host.ID = func() string { id := d.ledger.Host(); return hex.EncodeToString(id[:]) }
	}
	d.clients = clientlimit.NewService(clientlimit.Config{
		Deadline: d.config.Ledger.Deadline, Host: host, OnEvent: emitting[clientlimit.Event](&d.events),
		Measure: d.metrics.MeasureClients, Differ: emitting[clientlimit.Difference](&d.events),
	})
	d.metrics.WatchClients(d.clients)
	d.onStop("close the ledger of clients", d.closeClientFile)
	if err := d.setClients(d.config); err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { d.clients.Watch(ctx) })
	d.onStop("take leave of other hosts", func() error {
		end()
		watching.Wait()
		return nil
	})
	return nil
}

// setClients has a configuration's clients decided about from now on. After an error those
// of before go on.
func (d *daemon) setClients(c *config.Config) error {
	ledger, err := d.clientLedger(len(c.Clients) > 0)
	if err != nil {
		return err
	}
	d.metrics.ExpectClients(c.Clients)
	return d.clients.SetClients(ledger, c.Clients)
}

// clientLedger returns the ledger in Redis or, beside the embedded one, a file, which is
// opened when it is needed first.
func (d *daemon) clientLedger(needed bool) (clientlimit.Ledger, error) {
	switch {
	case d.shared != nil:
		return d.shared, nil
	case d.clientFile != nil || !needed:
		return d.clientFile, nil
	}
	opened, err := boltledger.OpenClients(d.statePath("clients.db"), func(setAside string, err error) {
		d.log.Error().Err(err).Str("file", setAside).Msg("client limits start empty: the file of what they used is damaged, and was moved aside")
	})
	if err != nil {
		return nil, err
	}
	d.clientFile = opened
	return opened, nil
}

func (d *daemon) closeClientFile() error {
	if d.clientFile == nil {
		return nil
	}
	return d.clientFile.Close()
}
