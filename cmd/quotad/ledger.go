package main

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"

	"quotad/cmd/quotad/config"
	"quotad/quota"
	"quotad/quota/boltledger"
	"quotad/quota/clientlimit"
	"quotad/quota/redisledger"
	"quotad/quota/slidinglog"
	"quotad/quota/upstream"
)

// openLedger opens the ledger, and the services that decide about credentials and clients.
func (d *daemon) openLedger() (err error) {
	if d.ledger, err = d.newLedger(); err != nil {
		return err
	}
	d.onStop("close the ledger", d.ledger.Close)
	if d.service, err = quota.NewService(d.ledger, nil, d.config.Ledger.Deadline); err != nil {
		return err
	}
	d.service.Called = d.metrics.LedgerCalled
	d.service.Hosts = func() []string { return d.clients.Differences() }
	d.observer = upstream.NewObserver(d.service, nil, func(o upstream.Outcome) { d.emit(o) })
	d.atStop(d.exits.Wait)
	if err := d.openClients(); err != nil {
		return err
	}
	if err := d.setCredentials(d.config); err != nil {
		return err
	}
	d.ledger.Await(d.ask) // a run at the start would find a ledger that is still being read
	return nil
}

// setCredentials replaces the credentials by those of a configuration. After an error
// the former ones stay.
func (d *daemon) setCredentials(c *config.Config) error {
	if err := d.service.SetCredentials(c.Credentials); err != nil {
		return err
	}
	d.observer.SetProfiles(c.Profiles)
	d.presets.Store(&c.Presets)
	d.metrics.Expect(c)
	return d.ledger.SetCredentials(d.service.Credentials(), c.Outages)
}

// newLedger opens the ledger: the file in the state directory and, where hosts share one,
// the store in Redis, of whose logs the file then has copies.
func (d *daemon) newLedger() (_ *slidinglog.Ledger, err error) {
	c := slidinglog.Config{
		Label: d.host, Deadline: d.config.Ledger.Deadline, Policies: d.config.Outages, OnEvent: func(e slidinglog.Event) { d.emit(e) },
	}
	for _, credential := range d.config.Credentials {
		c.Credentials = append(c.Credentials, credential.Prepared())
	}
	if c.File, err = d.openLedgerFile(); err != nil {
		return nil, err
	}
	if d.config.Ledger.Backend == config.OnRedis {
		if d.shared, err = redisledger.OpenStore(d.config.Ledger.Redis); err != nil {
			return nil, errors.Join(err, c.File.Close())
		}
		c.Store = d.shared
	}
	ledger, err := slidinglog.Open(c)
	if err != nil {
		err = errors.Join(err, c.File.Close())
		if d.shared != nil {
			err = errors.Join(err, d.shared.Close())
		}
		return nil, err
	}
	return ledger, nil
}

// openLedgerFile opens the file of the ledger. Where hosts share a ledger, Redis has what the
// file lacks: it may be new or older than it was, and a damaged one is set aside.
func (d *daemon) openLedgerFile() (*boltledger.File, error) {
	c := boltledger.Config{Path: d.statePath("ledger.db"), Unsynced: d.config.Ledger.Unsynced, History: hasHistory(d.config.StateDir)}
	if d.config.Ledger.Backend == config.Embedded {
		c.AcceptNew = d.options.acceptLedger
		c.Began = func(how string) {
			if how == boltledger.FirstHere {
				d.firstLedger = true
				return
			}
			d.log.Warn().Str("file", c.Path).Str("ledger", how).
				Msg("a new ledger: limits count what it holds, and nothing that was spent before")
		}
		return boltledger.Open(c)
	}
	c.AcceptNew = true
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

// hasHistory reports whether jobs ran here before, so that there must have been a ledger.
func hasHistory(stateDir string) bool {
	kept, err := os.ReadDir(filepath.Join(stateDir, "jobs"))
	return err == nil && len(kept) > 0
}

// openClients opens the service of the clients, and watches the hosts that share Redis.
func (d *daemon) openClients() error {
	host := clientlimit.Host{Label: d.host}
	if d.shared != nil {
		host.ID = func() string { id := d.ledger.Host(); return hex.EncodeToString(id[:]) }
	}
	d.clients = clientlimit.NewService(clientlimit.Config{Deadline: d.config.Ledger.Deadline, Host: host, Emit: d.emit})
	d.onStop("close the ledger of clients", func() error {
		if d.clientFile == nil {
			return nil
		}
		return d.clientFile.Close()
	})
	if err := d.setClients(d.config); err != nil {
		return err
	}
	d.background(d.clients.Watch)
	return nil
}

// setClients replaces the clients by those of a configuration. After an error the former
// ones stay.
func (d *daemon) setClients(c *config.Config) error {
	store, err := d.clientStore(len(c.Clients) > 0)
	if err != nil {
		return err
	}
	d.metrics.ExpectClients(c.Clients)
	return d.clients.SetClients(store, c.Clients)
}

// clientStore returns the store in Redis or, with the embedded ledger, a file of its own, which is
// opened when it is first needed.
func (d *daemon) clientStore(needed bool) (clientlimit.Store, error) {
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
