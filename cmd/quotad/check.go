package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"quotad/cmd/quotad/config"
	"quotad/quota/api"
	"quotad/quota/journal"
	"quotad/quota/redisledger"
)

// systemState is the state directory of the service that reads systemConfig.
const systemState = "/var/lib/quotad"

// check prints what is wrong with the configuration and with the existing state, or what the schedule asks of
// each limit. It changes nothing. It warns of limits that the schedule does not fit, and of what Redis lacks;
// if it is strict, that is an error.
func check(o options, s systemd, stdout, stderr io.Writer) int {
	c, err := load(o.config, checkedHost(o, s))
	if err != nil {
		printError(stderr, err)
		return exitConfig
	}
	if c.StateDir == systemState { // systemd opens it
		c.Socket = api.FindSocket("")
	}
	warnings := c.Warnings()
	if o.strict && len(warnings) > 0 {
		printError(stderr, warnings)
		return exitError
	}
	for _, one := range warnings {
		fmt.Fprintln(stderr, one.Warning())
	}
	if err := errors.Join(checkState(c), checkRedis(c, o.strict, stderr)); err != nil {
		printError(stderr, fmt.Errorf("%s is good, but quotad could not serve: %w", c.File, err))
		return exitError
	}
	fmt.Fprintf(stdout, "%s is good: state in %s, socket %s\n", c.File, c.StateDir, c.Socket)
	for _, f := range c.Fits() {
		if f.Demand > 0 && f.Over() == 0 { // else there is a warning
			fmt.Fprintln(stdout, f.Shortage())
		}
	}
	return exitOK
}

// checkedHost is where the configuration is to be used. The file of the service is used in its state directory, though
// systemd does not pass that here, before its first start too.
func checkedHost(o options, s systemd) config.Host {
	host := s.host()
	host.Checking = true
	installed := exists("/etc/systemd/system/quotad.service") || exists("/usr/lib/systemd/system/quotad.service")
	if file, err := filepath.Abs(o.config); err == nil && file == systemConfig && installed {
		host.StateDirectory = cmp.Or(host.StateDirectory, systemState)
	}
	return host
}

// checkState returns what would keep quotad from serving with the existing state. One that a daemon uses is good.
func checkState(c *config.Config) error {
	if !exists(c.StateDir) {
		return nil
	}
	if inUse, err := isLocked(c.StateDir); inUse || err != nil {
		return err
	}
	if err := unix.Faccessat(unix.AT_FDCWD, c.StateDir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return fmt.Errorf("cannot write to the state directory %q: %w", c.StateDir, err)
	}
	return checkLedger(c)
}

// checkLedger reads the journals of an embedded ledger. Beside Redis what they lack is there.
func checkLedger(c *config.Config) error {
	accepted := acceptedByRoot(c.StateDir)
	if err := checkJournals(c, accepted); err != nil || accepted || c.Ledger.Backend == config.OnRedis {
		return err
	}
	for _, credential := range c.Credentials {
		if err := journal.Verify(filepath.Join(c.StateDir, journalDir), credential.Name); err != nil {
			return err
		}
	}
	return nil
}

// checkTime bounds the check of Redis.
const checkTime = 10 * time.Second

// checkRedis warns of what the Redis of a configuration lacks. If it is strict, quotad also writes there, and
// what is lacking is an error.
func checkRedis(c *config.Config, strict bool, stderr io.Writer) error {
	if c.Ledger.Backend != config.OnRedis {
		return nil
	}
	redis := c.Ledger.Redis.Config
	store, err := redisledger.OpenStore(redis)
	if err != nil {
		return err
	}
	defer store.Close()
	ctx, cancel := context.WithTimeout(context.Background(), checkTime)
	defer cancel()
	if err := checkOlderLogs(ctx, store, c); err != nil {
		return err
	}
	lacks, err := store.Check(ctx, strict)
	if err != nil {
		lacks = []string{err.Error()}
	}
	for _, one := range lacks {
		fmt.Fprintf(stderr, "quotad: warning: redis %s: %s\n", redis.Addrs[0], one)
	}
	if strict && len(lacks) > 0 {
		return errors.New("the Redis that [ledger.redis] names lacks what quotad needs")
	}
	return nil
}
