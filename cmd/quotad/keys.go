package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
	"quotad/jobs/process"
	"quotad/quota"
	"quotad/quota/proxy"
)

// Keys are those that commands print.
type keys struct {
	launcher process.Launcher
	dir      string        // where the commands run
	time     time.Duration // that one may take
	ctx      context.Context
	running  sync.WaitGroup
	of       atomic.Pointer[map[string]*oneKey] // by credential
}

// A oneKey is a key, and what ends its Run.
type oneKey struct {
	*proxy.Key
	end context.CancelFunc
}

// openKeys begins to run the commands that print keys, until the daemon stops.
func (d *daemon) openKeys() error {
	launcher, err := d.eventLauncher()
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	d.keys = &keys{launcher: launcher, dir: d.config.StateDir, time: keyTime, ctx: ctx}
	d.keys.of.Store(&map[string]*oneKey{})
	d.atStop(func() {
		end()
		d.keys.running.Wait()
	})
	return nil
}

// setTargets replaces where the proxy sends calls, and runs each key_command. A key whose command is gone ends.
func (d *daemon) setTargets(c *config.Config) {
	if d.proxy == nil {
		return
	}
	targets, before, now := make([]*proxy.Target, len(c.Targets)), *d.keys.of.Load(), map[string]*oneKey{}
	for i, configured := range c.Targets {
		target := *configured
		if command := c.KeyCommand(target.Credential); command != nil {
			one := before[target.Credential]
			if one == nil {
				one = d.keys.begin()
			}
			one.SetSource(func(ctx context.Context) (string, time.Time, error) { return d.keys.print(ctx, command) })
			now[target.Credential], target.Key = one, one.Key
		}
		targets[i] = &target
	}
	d.proxy.SetTargets(targets)
	d.keys.of.Store(&now)
	for credential, one := range before {
		if now[credential] == nil {
			one.end()
		}
	}
}

// begin begins to keep a key.
func (k *keys) begin() *oneKey {
	ctx, end := context.WithCancel(k.ctx)
	one := &oneKey{proxy.NewKey(), end}
	k.running.Go(func() { one.Run(ctx) })
	return one
}

// keyless returns why the command of a credential prints no key; nil: it does, or there is none.
func (k *keys) keyless(credential string) *trouble.Keyless {
	if k == nil {
		return nil
	}
	if one := (*k.of.Load())[credential]; one != nil {
		if s := one.State(time.Now()); s.Err != nil {
			return &trouble.Keyless{Since: s.Since, Says: s.Err.Error(), Over: !s.Serves, Ends: s.Ends}
		}
	}
	return nil
}

// keyTime is how long a command that prints a key may take.
const keyTime = 10 * time.Second

// print runs a command and returns the key that it prints. What it prints is in no error.
func (k *keys) print(ctx context.Context, command []string) (key string, ends time.Time, err error) {
	var printed, wrote []string
	exit := k.launcher.Launch(ctx, ctx, jobs.Command{
		Args: command, Dir: k.dir, Env: jobs.Inherited(os.Environ()), Timeout: k.time, KillGrace: time.Second,
	}, func(line jobs.Line) {
		switch text := strings.TrimSpace(line.Text); {
		case text == "":
		case line.Stream == "stdout":
			printed = append(printed, text)
		default:
			wrote = append(wrote, text)
		}
	})
	if len(wrote) > 0 {
		wrote = wrote[len(wrote)-1:]
	}
	key, ends, err = parseKey(printed)
	switch why := strings.Join(wrote, ""); {
	case exit.Err != nil:
		err = exit.Err
	case errors.Is(exit.Cause, jobs.ErrTimeout):
		err = fmt.Errorf("it took longer than %s: %s", quota.Brief(k.time), cmp.Or(why, "it wrote nothing"))
	case exit.Cause != nil:
		err = exit.Cause
	case exit.Code != 0:
		err = errors.New(cmp.Or(why, fmt.Sprintf("it ended with %s, and wrote nothing", cmp.Or(exit.Signal, fmt.Sprintf("exit code %d", exit.Code)))))
	}
	if err != nil {
		return "", time.Time{}, withoutKeys(err, append(printed, key))
	}
	return key, ends, nil
}

// parseKey reads what a command prints: a key on a line by itself, or a JSON object with key and expires.
func parseKey(printed []string) (key string, ends time.Time, err error) {
	const where = "what it printed"
	text := strings.Join(printed, "\n")
	if !strings.HasPrefix(text, "{") {
		return text, ends, config.CheckKey(where, text)
	}
	var object struct {
		Key     string `json:"key"`
		Expires any    `json:"expires"`
	}
	if json.Unmarshal([]byte(text), &object) != nil {
		return "", ends, errors.New(`what it printed is not a JSON object: it must be {"key": "…", "expires": "2026-01-01T12:00:00Z"}`)
	}
	switch at := object.Expires.(type) {
	case nil:
	case float64:
		ends = time.Unix(int64(at), 0)
	case string:
		ends, err = time.Parse(time.RFC3339, at)
	default:
		err = errors.New("neither")
	}
	if err != nil {
		return object.Key, ends, errors.New("expires in what it printed must be a time such as 2026-01-01T12:00:00Z, or the seconds since 1970")
	}
	return object.Key, ends, config.CheckKey("key in "+where, object.Key)
}

// withoutKeys returns an error without the texts that were printed: what fails may repeat them.
func withoutKeys(err error, printed []string) error {
	text := err.Error()
	for _, key := range slices.Compact(printed) {
		if len(key) >= 8 {
			text = strings.ReplaceAll(text, key, "…")
		}
	}
	return errors.New(text)
}
