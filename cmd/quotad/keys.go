package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// setTargets replaces where the proxy sends calls, and runs each key_command.
func (d *daemon) setTargets(c *config.Config) error {
	if d.proxy == nil {
		return nil
	}
	launcher, err := d.eventLauncher()
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
			command := keyCommand{launcher, jobs.Command{
				Args: args, Dir: c.StateDir, Env: jobs.Inherited(os.Environ()), Timeout: keyTime, KillGrace: time.Second,
			}}
			target.Key = proxy.NewKey(command.print, before)
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

// A keyCommand prints a key.
type keyCommand struct {
	launcher process.Launcher
	command  jobs.Command
}

// print runs the command and returns the key that it prints. What it prints is in no error.
func (k keyCommand) print(ctx context.Context) (key string, ends time.Time, err error) {
	var printed []string
	wrote := "it wrote nothing"
	exit := k.launcher.Launch(ctx, ctx, k.command, func(line jobs.Line) {
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
		err = fmt.Errorf("it took longer than %s: %s", quota.Brief(k.command.Timeout), wrote)
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
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	return "", time.Time{}, errors.New(text)
}

// parseKey reads what a command prints: a key on a line by itself, or a JSON object with key and expires.
func parseKey(text string) (key string, ends time.Time, err error) {
	const where = "what it printed"
	if !strings.HasPrefix(text, "{") {
		return text, ends, config.CheckKey(where, text)
	}
	var object struct{ Key, Expires any }
	if json.Unmarshal([]byte(text), &object) != nil {
		return "", ends, errors.New(`what it printed is not a JSON object: it must be {"key": "…", "expires": "2026-01-01T12:00:00Z"}`)
	}
	key, _ = object.Key.(string)
	switch at := object.Expires.(type) {
	case nil:
	case float64:
		ends = time.Unix(int64(at), 0)
	default:
		if ends, err = time.Parse(time.RFC3339, fmt.Sprint(at)); err != nil {
			return key, ends, errors.New("expires in " + where +
				" must be a time such as 2026-01-01T12:00:00Z, or the seconds since 1970")
		}
	}
	return key, ends, config.CheckKey("key in "+where, key)
}
