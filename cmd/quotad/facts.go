package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/proxy"
	"quotad/quota/server"
	"quotad/quota/slidinglog"
	"quotad/quota/upstream"
)

// Facts are what events say and nothing else remembers, and the book of what was reported. They judge nothing.
type facts struct {
	path string

	mu sync.Mutex // guards what follows; nothing is waited for under it
	keptFacts
	book     trouble.Book
	saved    []byte    // what the file has
	writeErr error     // of the last write
	down     time.Time // when the ledger was found not to decide; zero: it does
	clock    time.Time // when it was read last
	clockWas time.Time // what it showed before it was set back
	clockBy  time.Duration
}

// KeptFacts are those that a restart keeps. Credentials are their keys, or "credential limit".
type keptFacts struct {
	Losses    map[string]trouble.Loss       `json:"losses,omitempty"`
	Refuses   map[string]*trouble.Refusal   `json:"refuses,omitempty"`
	Silent    map[string]*trouble.Refusal   `json:"silent,omitempty"`
	Closings  map[string]closing            `json:"closings,omitempty"`
	Overspent map[string]*trouble.Overspent `json:"overspent,omitempty"`
}

// A closing is what was so when a limit was closed.
type closing struct {
	Since    time.Time   `json:"since"`
	Used     quota.Units `json:"used"`
	Upstream bool        `json:"upstream,omitempty"` // an answer of the upstream closed it, seen by this host
}

// factsVersion is that of the file.
const factsVersion = 1

type factsFile struct {
	Version int                `json:"version"`
	Facts   keptFacts          `json:"facts"`
	Entries []trouble.Incident `json:"troubles"`
}

// openFacts reads the file, which need not exist. Without one that can be understood, what is wrong is reported again.
func openFacts(path string) (f *facts, err error) {
	f = &facts{path: path, keptFacts: noFacts()}
	file := factsFile{Facts: noFacts()}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case err == nil && file.Version != factsVersion:
		err = fmt.Errorf("it has version %d, this quotad knows %d", file.Version, factsVersion)
	case err == nil:
		f.keptFacts, f.book.Entries, f.saved = file.Facts, file.Entries, data
	}
	if err != nil {
		err = fmt.Errorf("cannot read %q: what is wrong is reported again: %w", path, err)
	}
	return f, err
}

func noFacts() keptFacts {
	return keptFacts{map[string]trouble.Loss{}, map[string]*trouble.Refusal{}, map[string]*trouble.Refusal{}, map[string]closing{}, map[string]*trouble.Overspent{}}
}

// save writes the file if it has changed, or could not be written. One goroutine saves at a time.
func (f *facts) save() {
	f.mu.Lock()
	data, err := json.Marshal(factsFile{factsVersion, f.keptFacts, f.book.Entries})
	same := f.writeErr == nil && string(data) == string(f.saved)
	f.mu.Unlock()
	if err != nil {
		panic(err) // nothing in it can fail
	}
	if same {
		return
	}
	err = replaceFile(f.path, data)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.writeErr = err; err == nil {
		f.saved = data
	}
}

// record is a sink of events.
func (f *facts) record(event any) (urgent bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch e := event.(type) {
	case slidinglog.Event:
		f.ledger(e)
		return true
	case server.Decided:
		return f.decided(e)
	case upstream.Outcome:
		return f.observed(e)
	case proxy.Finished:
		_, was := f.Silent[e.Credential]
		switch {
		case e.Silent != "" && !was:
			f.Silent[e.Credential] = &trouble.Refusal{Since: time.Now(), Says: e.Silent}
		case e.Silent == "" && e.Status > 0:
			delete(f.Silent, e.Credential)
		}
	case jobs.RunChanged:
		return e.Run.State == jobs.RunFailed
	case jobs.PassChanged:
		if r, refused := f.Refuses[e.Credential]; refused && e.Pass.Outcome == jobs.OK && e.Pass.Calls > 0 && e.Pass.StartedAt.After(r.Since) {
			delete(f.Refuses, e.Credential) // not every job reports good answers
			return true
		}
	}
	return false
}

func (f *facts) ledger(e slidinglog.Event) {
	loss, lost := f.Losses[e.Credential]
	switch now := time.Now(); e.Kind {
	case slidinglog.LostLog:
		f.down = time.Time{}
		if !lost || !loss.Back.IsZero() {
			f.Losses[e.Credential] = trouble.Loss{Credential: e.Credential, At: now}
		}
	case slidinglog.Restored:
		if lost { // else it is what the journal of another backend carries along
			loss.Records += e.Records
			f.Losses[e.Credential] = loss
		}
	case slidinglog.Down:
		if f.down.IsZero() {
			f.down = now
		}
	case slidinglog.Up:
		f.down = time.Time{}
	}
}

// decided records what operators and settlements do to a limit.
func (f *facts) decided(e server.Decided) (urgent bool) {
	switch {
	case e.Err != nil:
		return errors.Is(e.Err, quota.ErrUnavailable) && !errors.Is(e.Err, context.Canceled)
	case e.Verb == "close" && e.Decision.Granted():
		delete(f.Closings, e.Request.Credential+" "+e.Decision.Limit)
	case e.Past != "":
		if limit, by := quota.Overspent(e.Decision.Limits, false); by > 0 {
			f.Overspent[e.Request.Credential+" "+limit] = &trouble.Overspent{At: time.Now(), Says: fmt.Sprintf("%s settled a grant past %s", callerName(e.Request.Caller.By()), e.Past)}
			return true
		}
	}
	return false
}

// observed records what an upstream says of a key.
func (f *facts) observed(out upstream.Outcome) (urgent bool) {
	c := out.Credential
	_, refused := f.Refuses[c]
	switch {
	case out.Class == upstream.OK:
		delete(f.Refuses, c)
		return refused
	case out.Class == upstream.Key, out.Class == upstream.Billing:
		if !refused {
			f.Refuses[c] = &trouble.Refusal{Since: time.Now(), Says: out.Says}
		}
		return !refused
	case out.Changed:
		f.Closings[c+" "+out.Limit] = closing{Since: out.Closed.Since, Used: -1, Upstream: true}
	}
	return false
}

// tick records a step of the clock since the last one.
func (f *facts) tick(now time.Time) {
	const least = 5 * time.Second
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.clock.IsZero() {
		if by := now.Sub(f.clock) - now.Round(0).Sub(f.clock.Round(0)); by > least { // monotonic less wall
			f.clockWas, f.clockBy = now.Add(by).Round(0), by
		}
	}
	f.clock = now
}

// complete adds to the state what events have said. The ledger was asked about its health no earlier than at a time.
func (f *facts) complete(s *trouble.State, asked time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.Ledger.Since, s.ClockWas, s.ClockBy = f.down, f.clockWas, f.clockBy
	s.Disk.WasLow = f.book.Has(trouble.Disk, "host")
	if f.writeErr != nil {
		s.Disk.Err = f.writeErr.Error()
	}
	for i := range s.Credentials {
		c := &s.Credentials[i]
		s.Losses = append(s.Losses, f.lossOf(c.Name, s.Ledger.Health, asked)...)
		c.Refuses, c.Silent = f.Refuses[c.Name], f.Silent[c.Name]
		if s := c.Silent; s != nil && strings.Contains(s.Says, " answers 5") && time.Since(s.Since) < time.Minute {
			c.Silent = nil // an error of a moment
		}
		for n := range c.Limits {
			f.completeLimit(c.Name, &c.Limits[n])
		}
	}
}

// lossOf returns what a log has lost, if it has lost anything. After a Redis with all its data was started again, nothing
// is put back.
func (f *facts) lossOf(credential string, h quota.Health, asked time.Time) []trouble.Loss {
	loss, lost := f.Losses[credential]
	recovers := slices.Contains(h.Recovering, credential)
	if lost && loss.Back.IsZero() && h.Reachable && !recovers && loss.At.Before(asked) {
		if loss.Records == 0 {
			delete(f.Losses, credential)
			return nil
		}
		loss.Back = time.Now()
		f.Losses[credential] = loss
	}
	if !lost {
		return nil
	}
	return []trouble.Loss{loss}
}

func (f *facts) completeLimit(credential string, l *trouble.LimitState) {
	key := credential + " " + l.Name
	l.Overspent = f.Overspent[key]
	if l.Closed.IsZero() {
		delete(f.Closings, key)
		return
	}
	was, known := f.Closings[key]
	if !known || was.Used < 0 || was.Since.Before(l.Closed.Since) {
		was = closing{Since: l.Closed.Since, Used: l.Used, Upstream: known && was.Upstream}
		f.Closings[key] = was
	}
	l.ClosedAt, l.ByHand = was.Used, strings.HasPrefix(l.Closed.By, "@") && !was.Upstream
}

// dated returns a list with the times since when its troubles are known.
func (f *facts) dated(list []trouble.Trouble, now time.Time) []trouble.Trouble {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.book.Dated(list, now)
}

// resume returns what a daemon before this one had not reported.
func (f *facts) resume(now time.Time) []trouble.Change {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.book.Resume(now)
}

func (f *facts) reported(c trouble.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.book.Reported(c)
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
