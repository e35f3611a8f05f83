package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
	"quotad/quota"
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
	d.observer = upstream.NewObserver(d.service, nil, func(o upstream.Outcome) { d.emit(o) })
	d.openClients()
	if err := errors.Join(d.setClients(d.config), d.setCredentials(d.config)); err != nil {
		return err
	}
	d.ledger.Await(d.ask) // a new log grants nothing at first: no caller meets that
	return nil
}

// newLedger opens the ledger: an engine, which is Redis where hosts share one, and the journals in the state directory.
func (d *daemon) newLedger() (*slidinglog.Ledger, error) {
	state := d.config.StateDir
	accepted := acceptedByRoot(state)
	c := slidinglog.Config{
		Dir: filepath.Join(state, journalDir), Name: d.config.Name, Deadline: d.config.Ledger.Deadline,
		OnEvent: func(e slidinglog.Event) { d.emit(e) },
		Terms:   func(credential string) string { return d.inForce.Load().Routes(credential) },
		Jobs:    func() []string { return scheduled(d.inForce.Load().Jobs) },
		Accept:  d.options.acceptLedger || accepted,
	}
	if err := checkJournals(d.config, c.Accept); err != nil {
		return nil, err
	}
	if d.config.Ledger.Backend == config.OnRedis {
		shared, err := redisledger.OpenStore(d.config.Ledger.Redis.Config)
		if err != nil {
			return nil, err
		}
		d.shared, c.Engine = shared, shared
		c.Accept = true // Redis has what a journal lacks
		return slidinglog.Open(c), nil
	}
	if accepted {
		if err := os.Remove(acceptPath(state)); err != nil {
			return nil, err
		}
	}
	if !hasJournals(state) && hasHistory(state) {
		d.log.Warn().Str("dir", c.Dir).Msg("a new ledger: limits count nothing that was spent before")
	}
	c.Engine = slidinglog.NewMemory(time.Now)
	return slidinglog.Open(c), nil
}

// scheduled names the jobs that have slots.
func scheduled(list []*jobs.Job) (names []string) {
	for _, j := range list {
		if _, manual := j.Schedule.(jobs.Unscheduled); !manual {
			names = append(names, j.Name)
		}
	}
	return names
}

// setCredentials replaces the credentials by those of a configuration. After an error
// the former ones stay.
func (d *daemon) setCredentials(c *config.Config) error {
	if d.shared != nil {
		ctx, cancel := context.WithTimeout(context.Background(), c.Ledger.Deadline)
		defer cancel()
		if err := checkOlderLogs(ctx, d.shared, c); err != nil {
			return err
		}
	}
	if err := d.ledger.SetCredentials(c.Credentials, c.Outages); err != nil {
		return err
	}
	if err := d.service.SetCredentials(c.Credentials); err != nil {
		return err
	}
	d.observer.SetProfiles(c.Profiles)
	d.metrics.Expect(c)
	return nil
}

// journalDir has the journals, in the state directory.
const journalDir = "ledger"

// olderError refuses a ledger of an older version: an upgrade is no fresh budget. It goes one version later.
func olderError(what, remove string) error {
	return fmt.Errorf(`%s is a ledger of an older version, which this one does not read:
  1. with the old quotad running, note what is used: quotactl status; then stop it, and remove %s
  2. start quotad, and count what was used: quotactl book CREDENTIAL LIMIT UNITS`, what, remove)
}

// checkOlderLogs refuses the logs of an older version in Redis. One that cannot be reached is not asked.
func checkOlderLogs(ctx context.Context, store *redisledger.Store, c *config.Config) error {
	for _, credential := range c.Credentials {
		if key, err := store.Older(ctx, credential.Name); err == nil && key != "" {
			return olderError("the key "+key+" in Redis", "it there, with redis-cli del '"+key+"'")
		}
	}
	return nil
}

// checkJournals refuses the file of an older version. On one host alone it also refuses to begin with empty journals where
// there has been a ledger, unless that is accepted.
func checkJournals(c *config.Config, accept bool) error {
	if path := filepath.Join(c.StateDir, "ledger.db"); exists(path) {
		return olderError(strconv.Quote(path), path)
	}
	if accept || c.Ledger.Backend == config.OnRedis || hasJournals(c.StateDir) || !hasHistory(c.StateDir) {
		return nil
	}
	return fmt.Errorf("ledger %q is missing, though jobs ran here, and what was spent would be granted again: restore it; or, to begin with an empty one, "+
		"start once with --accept-new-ledger, or create the empty file %q as root, which the next start removes",
		filepath.Join(c.StateDir, journalDir), acceptPath(c.StateDir))
}

// hasJournals reports whether there has been a journal of any credential.
func hasJournals(stateDir string) bool {
	found, _ := filepath.Glob(filepath.Join(stateDir, journalDir, "*.position")) // the pattern is a good one
	return len(found) > 0
}

// hasHistory reports whether jobs ran here before, so that there must have been a ledger.
func hasHistory(stateDir string) bool {
	kept, err := os.ReadDir(filepath.Join(stateDir, "jobs"))
	return err == nil && len(kept) > 0
}

// acceptPath is an empty file of root that says what --accept-new-ledger does, to the next start alone.
func acceptPath(stateDir string) string { return filepath.Join(stateDir, "accept-new-ledger") }

// acceptedByRoot reports whether root has made that file. Jobs may be processes of our own user,
// which could make one, or put another file of root in its place.
func acceptedByRoot(stateDir string) bool {
	info, err := os.Lstat(acceptPath(stateDir))
	if err != nil || !info.Mode().IsRegular() || info.Size() > 0 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == 0 && stat.Nlink == 1
}

// openClients opens the service of the clients. Redis counts where hosts share it, else this process does.
func (d *daemon) openClients() {
	d.clients = clientlimit.NewService(d.emit)
	d.background(d.clients.Watch)
	if d.shared != nil {
		return
	}
	d.clientCounts = clientlimit.NewMemory(time.Now)
	file, err := os.Open(d.statePath("clients"))
	if err == nil {
		err = errors.Join(d.clientCounts.Load(file), file.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.log.Error().Err(err).Msg("cannot read what clients have used: all begin at 0")
	}
	d.onStop("save what clients have used", func() error {
		file, err := os.OpenFile(d.statePath("clients"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		return errors.Join(d.clientCounts.Save(file), file.Close())
	})
}

// setClients replaces the clients by those of a configuration. After an error the former ones stay.
func (d *daemon) setClients(c *config.Config) (err error) {
	if d.shared != nil {
		return d.clients.SetClients(d.shared, c.ClientSecret, c.Clients)
	}
	secret := c.ClientSecret
	if secret == "" && len(c.Clients) > 0 {
		if secret, err = drawnIn(d.statePath("clients.secret")); err != nil {
			return err
		}
	}
	return d.clients.SetClients(d.clientCounts, secret, c.Clients)
}

// drawnIn returns the secret that a file holds. If there is none, it is drawn, and written as a whole.
func drawnIn(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err == nil && len(text) > 0 {
		return strings.TrimSpace(string(text)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	drawn, temporary := rand.Text(), path+".new"
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", err
	}
	_, err = file.WriteString(drawn + "\n")
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return "", err
	}
	return drawn, os.Rename(temporary, path)
}
