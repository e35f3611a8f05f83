package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"os"
	"strings"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
	"quotad/jobs/process"
	"quotad/quota"
	"quotad/quota/proxy"
)

// openProxy serves calls of passes that know nothing of quotad. It stops after the
// passes: what they sent is settled before the ledger closes.
func (d *daemon) openProxy() error {
	if d.config.Proxy.Listen == "" {
		return nil
	}
	listener, err := net.Listen("tcp", d.config.Proxy.Listen)
	if err != nil {
		return fmt.Errorf("cannot serve the proxy: %w", err)
	}
	complaints := complaints{d.log}
	stdlog.SetFlags(0)
	stdlog.SetOutput(complaints) // where the transport complains
	d.proxy = proxy.New(proxy.Config{
		Address: listener.Addr().String(), Service: d.service, Observer: d.observer, Tokens: d.tokens,
		Emit: d.emit, ErrorLog: stdlog.New(complaints, "", 0),
	})
	d.serve("the proxy", d.proxy, listener)
	d.log.Info().Stringer("address", listener.Addr()).Msg("serving the proxy")
	return d.setTargets(d.config)
}

// setTargets replaces where the proxy sends calls, and runs each key_command.
func (d *daemon) setTargets(c *config.Config) error {
	if d.proxy == nil {
		return nil
	}
	launcher, err := d.ownLauncher()
	if err != nil {
		return err
	}
	targets := make([]*proxy.Target, len(c.Targets))
	for i, configured := range c.Targets {
		target := *configured
		if args := c.KeyCommand(target.Credential); args != nil {
			var before *proxy.Key
			if was := d.proxy.Target(target.Credential); was != nil {
				before = was.Key
			}
			command := jobs.Command{Args: args, Dir: c.StateDir, Env: jobs.Inherited(os.Environ()), Timeout: keyTime, KillGrace: time.Second}
			source := func(ctx context.Context) (string, time.Time, error) { return printKey(ctx, launcher, command) }
			target.Key = proxy.NewKey(source, before)
		}
		targets[i] = &target
	}
	d.proxy.SetTargets(targets)
	return nil
}

// keyless returns why the command of a credential prints no key; nil: it does, or there is none.
func (d *daemon) keyless(credential string) *trouble.Keyless {
	if d.proxy == nil {
		return nil
	}
	if target := d.proxy.Target(credential); target != nil && target.Key != nil {
		if s := target.Key.State(time.Now()); s.Err != nil {
			return &trouble.Keyless{Since: s.Since, Says: s.Err.Error(), Over: !s.Serves, Ends: s.Ends}
		}
	}
	return nil
}

// keyTime is how long a command that prints a key may take.
const keyTime = 10 * time.Second

// printKey runs a command and returns the key that it prints. What it prints is in no error.
func printKey(ctx context.Context, launcher process.Launcher, command jobs.Command) (key string, ends time.Time, err error) {
	var printed []string
	wrote := "it wrote nothing"
	exit := launcher.Launch(ctx, ctx, command, func(line jobs.Line) {
		switch text := strings.TrimSpace(line.Text); {
		case text == "":
		case line.Stream == "stdout":
			printed = append(printed, text)
		default:
			wrote = text
		}
	})
	key, ends, err = parseKey(strings.Join(printed, "\n"))
	switch {
	case exit.Err != nil:
		err = exit.Err
	case errors.Is(exit.Cause, jobs.ErrTimeout):
		err = fmt.Errorf("it took longer than %s: %s", quota.Brief(command.Timeout), wrote)
	case exit.Cause != nil:
		err = exit.Cause
	case exit.Code != 0:
		err = fmt.Errorf("it ended with %s: %s", cmp.Or(exit.Signal, fmt.Sprintf("exit code %d", exit.Code)), wrote)
	}
	if err == nil {
		return key, ends, nil
	}
	text := err.Error()
	for _, secret := range append(printed, key) { // what fails may repeat it
		if len(secret) >= 8 {
			text = proxy.Hide(text, secret)
		}
	}
	return "", time.Time{}, errors.New(text)
}

// parseKey reads what a command prints: a key on a line by itself, or a JSON object with key and expires.
func parseKey(text string) (key string, ends time.Time, err error) {
	if !strings.HasPrefix(text, "{") {
		return text, ends, config.CheckKey("what it printed", text)
	}
	var object struct {
		Key     string
		Expires time.Time
	}
	if json.Unmarshal([]byte(text), &object) != nil {
		return "", ends, errors.New(`what it printed must be a key, or {"key": "…", "expires": "2026-01-01T12:00:00Z"}`)
	}
	return object.Key, object.Expires, config.CheckKey("key in what it printed", object.Key)
}
