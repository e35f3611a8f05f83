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
	"quotad/quota/redisledger"
	"quotad/quota/slidinglog"
	"quotad/quota/upstream"
)

// openLedger opens the ledger, and the services that decide about credentials and clients.
func (d *daemon) openLedger() (err error) {
	if d.hostID, err = drawnIn(d.statePath("host")); err != nil {
		return err
	}
	if d.ledger, err = d.newLedger(); err != nil {
		return err
	}
	d.onStop("close the ledger", d.ledger.Close)
	if d.service, err = quota.NewService(d.ledger, nil, d.config.Ledger.Deadline); err != nil {
		return err
	}
	d.service.Called = d.metrics.LedgerCalled
	d.observer = upstream.NewObserver(d.service, nil, func(o upstream.Outcome) { d.emit(o) })
	d.atStop(d.exits.Wait)
	if err := d.openClients(); err != nil {
		return err
	}
	if err := d.setCredentials(d.config); err != nil {
		return err
	}
	d.ledger.Await(d.ask) // a new log grants nothing at first: no caller meets that
	return nil
}

// drawnIn returns what a file holds that is drawn when there is none.
func drawnIn(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err == nil && len(text) > 0 {
		return strings.TrimSpace(string(text)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	drawn := rand.Text()
	return drawn, replaceFile(path, []byte(drawn+"\n"))
}

// setCredentials replaces the credentials by those of a configuration. After an error
// the former ones stay.
func (d *daemon) setCredentials(c *config.Config) error {
	if d.shared != nil {
		ctx, cancel := context.WithTimeout(d.ask, d.config.Ledger.Deadline)
		err := checkOlderLogs(ctx, d.shared, c)
		cancel()
		if err != nil {
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
	d.presets.Store(&c.Presets)
	d.metrics.Expect(c)
	return nil
}

// newLedger opens the ledger: an engine, which is Redis where hosts share one, and the journals in the state directory.
func (d *daemon) newLedger() (*slidinglog.Ledger, error) {
	c := slidinglog.Config{
		Dir: d.statePath(journalDir), Name: d.config.Name, Deadline: d.config.Ledger.Deadline,
		OnEvent: func(e slidinglog.Event) { d.emit(e) },
		Terms:   func(credential string) string { return d.inForce.Load().Routes(credential) },
		Jobs:    func() []string { return scheduled(d.inForce.Load().Jobs) },
	}
	accepted := acceptedByRoot(d.config.StateDir)
	c.Accept = d.options.acceptLedger || accepted
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
		if err := os.Remove(acceptPath(d.config.StateDir)); err != nil {
			return nil, err
		}
	}
	if !hasJournals(d.config.StateDir) && hasHistory(d.config.StateDir) {
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

// journalDir has the journals, in the state directory.
const journalDir = "ledger"

// olderFile is the ledger of an older version.
const olderFile = "ledger.db"

// An olderError refuses a ledger of an older version: an upgrade is no fresh budget. It goes one version later.
func olderError(what, remove string) error {
	return fmt.Errorf(`%s is a ledger of an older version, which this one does not read:
  1. with the old quotad running, note what is used: quotactl status; then stop it, and remove %s
  2. start quotad, and count what was used: quotactl book CREDENTIAL LIMIT UNITS`, what, remove)
}

// checkJournals refuses the file of an older version. On one host alone it also refuses to begin with empty journals
// where there has been a ledger, unless that is accepted.
func checkJournals(c *config.Config, accept bool) error {
	if path := filepath.Join(c.StateDir, olderFile); exists(path) {
		return olderError(strconv.Quote(path), path)
	}
	if accept || c.Ledger.Backend == config.OnRedis || hasJournals(c.StateDir) || !hasHistory(c.StateDir) {
		return nil
	}
	return fmt.Errorf("ledger %q is missing, though jobs ran here, and what was spent would be granted again: restore it; or, to begin with an empty one, "+
		"start once with --accept-new-ledger, or create the empty file %q as root, which the next start removes",
		filepath.Join(c.StateDir, journalDir), acceptPath(c.StateDir))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// hasJournals reports whether there has been a journal of any credential.
func hasJournals(stateDir string) bool {
	found, _ := filepath.Glob(filepath.Join(stateDir, journalDir, "*.position")) // the pattern is a good one
	return len(found) > 0
}

// checkOlderLogs refuses the logs of an older version in Redis. One that cannot be reached is not asked.
func checkOlderLogs(ctx context.Context, store *redisledger.Store, c *config.Config) error {
	for _, credential := range c.Credentials {
		if key, older, err := store.Older(ctx, credential.Name); err == nil && older {
			return olderError("the key "+key+" in Redis", "it there, with redis-cli del '"+key+"'")
		}
	}
	return nil
}

// acceptName is an empty file of root that says what --accept-new-ledger does, to the next start alone.
const acceptName = "accept-new-ledger"

func acceptPath(stateDir string) string { return filepath.Join(stateDir, acceptName) }

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

// hasHistory reports whether jobs ran here before, so that there must have been a ledger.
func hasHistory(stateDir string) bool {
	kept, err := os.ReadDir(filepath.Join(stateDir, "jobs"))
	return err == nil && len(kept) > 0
}

// replaceFile writes a file that is there as a whole, before and after a crash.
func replaceFile(path string, data []byte) error {
	temporary := path + ".new"
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
