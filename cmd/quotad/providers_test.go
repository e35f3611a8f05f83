package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
)

// A provider is a preset, the calls of a pass and their answers, and what is to be left of them.
type provider struct {
	Preset string
	Steps  []struct {
		Times            int
		Path             string
		Status           int
		Body, RetryAfter string
		Denied           bool // by quotad: the upstream gets nothing
	}
	Received       int
	Booked, Closed string // in which limits
	Until          string // the next midnight of a zone, or so long after the refusal

	mu  sync.Mutex // guards what follows
	got int        // calls that the upstream received
}

const sentKey = "the-key-of-the-provider"

// ServeHTTP is the upstream: it answers what is next in the steps.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got++
	left := p.got
	for _, s := range p.Steps {
		if s.Denied {
			continue
		}
		if left -= s.Times; left <= 0 && strings.Contains(fmt.Sprint(r.URL.RawQuery, r.Header), sentKey) {
			w.Header()["Content-Type"] = []string{"application/json"}
			w.Header()["Retry-After"] = strings.Fields(s.RetryAfter)
			w.WriteHeader(s.Status)
			io.WriteString(w, s.Body)
			return
		}
	}
	w.WriteHeader(http.StatusTeapot)
}

// call makes the calls, as the pass of a job.
func (p *provider) call(t *testing.T, address string) {
	for i, s := range p.Steps {
		for range s.Times {
			answer, err := http.Get(address + s.Path)
			if err != nil {
				t.Errorf("%s, step %d: %v", p.Preset, i, err)
				return
			}
			if answer.Body.Close(); answer.StatusCode != s.Status {
				t.Errorf("%s, step %d: answered %d, want %d", p.Preset, i, answer.StatusCode, s.Status)
			}
		}
	}
}

// opens returns when a limit opens that was closed at a time.
func (p *provider) opens(at time.Time) time.Time {
	if long, err := time.ParseDuration(p.Until); err == nil {
		return at.Add(long)
	}
	zone, _ := time.LoadLocation(p.Until)
	year, month, day := at.In(zone).Date()
	return time.Date(year, month, day+1, 0, 0, 0, 0, zone)
}

const keylessCredential = `
[credentials.keyless]
limits.daily.units = 1
operations.list = 1
proxy = { upstream = "http://127.0.0.1:1", key_command = ["false"], routes = { "GET /" = "list" } }
`

// What six providers receive is what their presets book, less what is free, and their refusals close the right limit
// until the right time: by the wiring of a whole daemon, whose jobs call through its proxy.
func TestProviders(t *testing.T) {
	t.Parallel()
	var list []*provider
	content, err := os.ReadFile("testdata/providers.json")
	must(t, err)
	must(t, json.Unmarshal(content, &list))
	dir, text := t.TempDir(), "proxy.listen = \"127.0.0.1:0\"\n"+keylessCredential
	for _, p := range list {
		server := httptest.NewServer(p)
		t.Cleanup(server.Close)
		text += fmt.Sprintf("[credentials.%[1]s]\npreset = %[1]q\nproxy = { upstream = %[2]q, key_file = \"key\" }\n"+
			"[jobs.%[1]s]\ncredential = %[1]q\nschedule = \"manual\"\ncommand = [\"true\"]\n"+
			"timeout = \"50s\"\nmax_wait = \"1s\"\n", p.Preset, server.URL)
	}
	write(t, dir, "key", sentKey)
	write(t, dir, "config.toml", text)
	c, err := config.Load(filepath.Join(dir, "config.toml"), config.Host{StateDirectory: t.TempDir(), Now: time.Now()})
	must(t, err)
	d := &playedDaemon{T: t, daemon: &daemon{config: c}}
	d.launch = func(env map[string]string) jobs.Exit {
		i := slices.IndexFunc(list, func(p *provider) bool { return p.Preset == env["QUOTAD_JOB"] })
		list[i].call(t, env["QUOTAD_PROXY"])
		return jobs.Exit{}
	}
	<-time.After(clearOfReset(text, time.Now())) // else a denial says to wait for it
	began := time.Now().Truncate(time.Millisecond)
	d.open()
	defer d.stop()
	eventually(t, func() bool { // a key_command that fails is no reason not to start, but a trouble
		_, list := d.troubles(t.Context())
		return len(list) == 1 && list[0].Kind == trouble.Key && list[0].Of == "credential keyless"
	})
	for _, p := range list {
		run, err := d.runner.Run(p.Preset, "root")
		must(t, err)
		ended, err := d.runner.AwaitRun(t.Context(), run.ID, 0, -1)
		must(t, err)
		usage, err := d.service.Usage(context.Background(), p.Preset)
		must(t, err)
		var booked, closed []string
		for _, limit := range usage.Limits {
			if limit.Used > 0 {
				booked = append(booked, fmt.Sprint(limit.Name, " ", limit.Used))
			}
			if until := limit.Closed.Until; !limit.Closed.IsZero() {
				closed = append(closed, limit.Name)
				if until.Before(p.opens(began)) || until.After(p.opens(time.Now())) {
					t.Errorf("%s: closed until %v, want %s", p.Preset, until, p.Until)
				}
			}
		}
		got := fmt.Sprint(p.got, " calls, ", strings.Join(booked, ", "), ", closed ", closed, ", ", ended.Passes[0].Outcome)
		if want := fmt.Sprint(p.Received, " calls, ", p.Booked, ", closed ", []string{p.Closed}, ", exhausted"); got != want {
			t.Errorf("%s: got %s, want %s", p.Preset, got, want)
		}
	}
}
