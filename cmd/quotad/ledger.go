package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/boltledger"
	"quotad/quota/clientlimit"
	"quotad/quota/redisledger"
	"quotad/quota/upstream"
	"quotad/regions"
)

// openLedger opens the ledger, and the service of its credentials.
func (d *daemon) openLedger(context.Context) error {
	ledger, err := d.newLedger()
	if err != nil {
		return err
	}
	d.onStop("close the ledger", ledger.Close)
	if d.service, err = quota.NewService(d.metrics.Measure(ledger), nil, d.config.Ledger.Deadline); err != nil {
		return err
	}
	d.observer = upstream.NewObserver(d.service, nil, func(out upstream.Outcome) { d.events.emit(out) })
	d.silences.observer = d.observer
	d.onStop("take in what the upstream said last", func() error {
		d.silences.observing.Wait()
		return nil
	})
	d.metrics.WatchLimits(d.service, d.observer)
	d.clients = clientlimit.NewService(d.config.Ledger.Deadline, emitting[clientlimit.Event](&d.events))
	d.onStop("close the ledger of clients", d.closeClientFile)
	if err := d.setClients(d.config); err != nil {
		return err
	}
	return d.setCredentials(d.config)
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
	d.metrics.Expect(c.Credentials)
	if d.shared == nil {
		return nil
	}
	policies := make(map[string]redisledger.Policy, len(c.Outages))
	for name, o := range c.Outages {
		policies[name] = redisledger.Policy{Open: o.Open, Units: o.Units}
	}
	d.shared.SetCredentials(d.service.Credentials(), policies)
	return nil
}

func (d *daemon) newLedger() (quota.Ledger, error) {
	if d.config.Ledger.Backend == config.Embedded {
		return boltledger.Open(boltledger.Config{
			Path: d.statePath("ledger.db"), Unsynced: d.config.Ledger.Unsynced,
			History: hasHistory(d.config.StateDir), AcceptNew: d.options.acceptLedger, Began: d.ledgerBegan,
		})
	}
	return d.newSharedLedger()
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

var _ jobs.Hosts = redisledger.Hosts{}

// newSharedLedger opens the ledger in Redis, which remembers what it granted in case
// Redis loses it.
func (d *daemon) newSharedLedger() (quota.Ledger, error) {
	redis := d.config.Ledger.Redis
	name, err := daemonName(d.statePath("daemon"))
	if err != nil {
		return nil, err
	}
	redis.Daemon, redis.Host = name, hostName()
	local := redisledger.Local{
		Journal: d.statePath("journal"), Keep: journalKept(d.config.Credentials),
		Deadline: d.config.Ledger.Deadline, Observe: emitting[redisledger.Event](&d.events),
	}
	if d.shared, err = redisledger.Open(redis, local); err != nil {
		return nil, err
	}
	d.hosts = d.shared.Hosts()
	return d.shared, nil
}

// journalKept is how long the journal keeps a grant: longer than any window.
func journalKept(credentials []*quota.Credential) time.Duration {
	longest := 24 * time.Hour
	for _, c := range credentials {
		for _, limit := range c.Limits {
			longest = max(longest, limit.Window.Span())
		}
	}
	return 2 * longest
}

// daemonName returns the name by which this daemon is known among those that
// share a ledger. It is made up once and kept in a file.
func daemonName(file string) (string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		name := strings.ToLower(rand.Text())
		return name, regions.WriteFile(file, []byte(name+"\n"))
	}
	if err != nil {
		return "", fmt.Errorf("cannot read this daemon's name: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
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
		d.log.Error().Err(err).Str("file", setAside).Msg("clients begin anew: what they used is damaged, and set aside")
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
