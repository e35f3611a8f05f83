package slidinglog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
)

var errDisk = errors.New("input/output error")

// A faultyFile fails one call each when its counters reach 0.
type faultyFile struct {
	*ledgertest.MemFile
	views, rooms, appends int
}

func failsAt(counter *int) error {
	if *counter--; *counter == 0 {
		return errDisk
	}
	return nil
}

func (f *faultyFile) View(credential string, of func(slidinglog.Tables) error) error {
	if err := failsAt(&f.views); err != nil {
		return err
	}
	return f.MemFile.View(credential, of)
}

func (f *faultyFile) Room(string, int) error {
	if err := failsAt(&f.rooms); err != nil {
		return fmt.Errorf("%w: %w", quota.ErrUnavailable, err)
	}
	return nil
}

func (f *faultyFile) Append(credential string, frame []byte, sync bool) error {
	if err := failsAt(&f.appends); err != nil {
		return err
	}
	return f.MemFile.Append(credential, frame, sync)
}

// A host that could not write its file in a quiet period grants nothing offline while it reads the end of that
// period: the store answers.
func TestAFullDiskInAQuietPeriodIsNoOutage(t *testing.T) {
	s := newScene(t)
	other := s.open(slidinglog.Config{})
	s.follow(2, other)
	file := ledgertest.NewMemFile()
	file.Full = true
	var host *slidinglog.Ledger
	asked := 0
	over, end := context.WithCancel(t.Context()) // or a call that gets as far as the lock would wait for it for ever
	end()
	host = s.open(slidinglog.Config{File: file, Policies: s.policies(), Store: &busyStore{s.store, func(slidinglog.Call) {
		if file.Full || !other.Serves(s.c) {
			return
		}
		asked++
		if d, err := host.Acquire(over, s.c, s.asks(1)); err == nil {
			t.Errorf("%+v, though the store answers", d)
		}
	}}})
	s.follow(3, host)
	s.follow(20, other)
	file.Full = false
	s.follow(1, host)
	if asked == 0 || !host.Serves(s.c) {
		t.Errorf("it was asked %d times, and serves: %v", asked, host.Serves(s.c))
	}
}

// TestFileErrorIsNoOutage: the policy for an outage does not decide because of an error of the file,
// while the store can be reached: the copy may lack what others have spent.
func TestFileErrorIsNoOutage(t *testing.T) {
	c := (&quota.Credential{
		Name: "api", Limits: []quota.Limit{{Name: "daily", Units: 10, Window: quota.Sliding(time.Hour)}},
		Operations: map[string]quota.Cost{"list": {Every: 1}},
	}).Prepared()
	policies := map[string]slidinglog.Policy{c.Name: {Open: map[string]bool{"list": true}, Units: 5}}
	for name, fail := range map[string]func(*faultyFile){
		"reading for a decision":      func(f *faultyFile) { f.views = 1 },
		"applying others' records":    func(f *faultyFile) { f.views = 2 },
		"reserving room":              func(f *faultyFile) { f.rooms = 1 },
		"writing the host's own tail": func(f *faultyFile) { f.appends = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			now := time.UnixMilli(1795345190000)
			store := &ledgertest.SimStore{Clock: func() int64 { return now.UnixMilli() }}
			open := func(file slidinglog.File) *slidinglog.Ledger {
				l, err := slidinglog.Open(slidinglog.Config{
					File: file, Store: store, Credentials: []*quota.Credential{c}, Policies: policies,
					Clock: func() time.Time { return now }, Manual: true, Pause: func(context.Context, time.Duration) {},
				})
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			file := &faultyFile{MemFile: ledgertest.NewMemFile()}
			one, other := open(file), open(ledgertest.NewMemFile())
			for !one.Serves(c) || !other.Serves(c) {
				one.Follow(t.Context())
				other.Follow(t.Context())
				now = now.Add(250 * time.Millisecond)
			}
			acquire := func(l *slidinglog.Ledger, n quota.Units) (quota.Decision, error) {
				decisions, err := l.Acquire(t.Context(), c, []quota.Ask{{
					Request: quota.Request{Credential: c.Name, Operation: "list", Count: n},
					Charges: []quota.Charge{{Limit: "daily", Units: n}},
				}})
				if err != nil {
					return quota.Decision{}, err
				}
				return decisions[0], decisions[0].Err
			}
			if d, err := acquire(one, 1); err != nil || !d.Granted() { // and has the log to its end
				t.Fatal(d, err)
			}
			if name == "applying others' records" {
				if d, err := acquire(other, 9); err != nil || !d.Granted() {
					t.Fatal(d, err)
				}
			}
			fail(file)
			if d, err := acquire(one, 1); !errors.Is(err, quota.ErrUnavailable) || !errors.Is(err, errDisk) {
				t.Errorf("%+v, %v; want the file's error", d, err)
			}
		})
	}
}
