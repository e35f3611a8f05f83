package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// A Key is the secret that an upstream requires. It is fixed, or comes from a source. That is asked at once, and from
// then on by calls: by the first one in the last minutes of a key, and after a 401. While the source fails, the last
// key serves to its end. A key is in memory only. The zero value is a key that has no source yet.
type Key struct {
	source  KeySource // nil: the key is fixed
	ctx     context.Context
	end     context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex    // guards what follows; nothing is waited for under it
	text  string        // empty: there is none yet
	ends  time.Time     // zero: it has no end that is known
	asked chan struct{} // closed when the source has answered; nil: it is not being asked
	due   time.Time     // from when on a call has the source asked; zero: never
	err   error         // why the source failed last; nil: it did not
	since time.Time     // when it began to fail
	once  bool          // the source was asked because of a 401, and no answer was good since
}

// A KeySource returns a key, and when that ends; the zero time: it is not known to. Its error does not
// hold the key.
type KeySource func(context.Context) (key string, ends time.Time, err error)

const (
	renewBefore = 5 * time.Minute  // the end of a key that lasts long enough
	retryAfter  = 30 * time.Second // a failure
)

// FixedKey returns a key that does not change.
func FixedKey(text string) *Key { return &Key{text: text} }

// NewKey asks a source for a key. The key of another source before, unless that is nil, serves until there is one.
// Call Close in the end.
func NewKey(source KeySource, before *Key) *Key {
	k := &Key{source: source}
	k.ctx, k.end = context.WithCancel(context.Background())
	if before != nil && before.source != nil {
		before.mu.Lock()
		k.text, k.ends = before.text, before.ends
		before.mu.Unlock()
	}
	k.ask()
	return k
}

// Close ends what is being asked, and asks no more. What there is of the key serves on.
func (k *Key) Close() {
	if k.source == nil {
		return
	}
	k.mu.Lock()
	k.end()
	k.mu.Unlock()
	k.running.Wait()
}

// ask has the source asked, unless it is being asked. The caller holds mu.
func (k *Key) ask() {
	if k.asked != nil || k.ctx.Err() != nil {
		return
	}
	k.asked = make(chan struct{})
	k.running.Go(func() {
		key, ends, err := k.source(k.ctx)
		now := time.Now()
		if err == nil && !ends.IsZero() && !ends.After(now) {
			err = fmt.Errorf("it printed a key that is over: it ended at %s", ends.UTC().Format(time.RFC3339))
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		close(k.asked)
		k.asked = nil
		if err != nil {
			if k.err == nil {
				k.since = now
			}
			k.err, k.due = errors.New(Hide(err.Error(), k.text)), now.Add(retryAfter)
			return
		}
		k.text, k.ends, k.err, k.due = key, ends, nil, time.Time{}
		if left := ends.Sub(now); !ends.IsZero() {
			k.due = ends.Add(-min(renewBefore, left/4))
		}
	})
}

// get returns the key. It waits for the source if there is no key that serves.
func (k *Key) get(ctx context.Context) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := time.Now(); !k.due.IsZero() && !now.Before(k.due) {
		k.ask()
	}
	if asked := k.asked; asked != nil && !k.serves(time.Now()) {
		k.mu.Unlock()
		select {
		case <-asked:
		case <-ctx.Done():
		}
		k.mu.Lock()
	}
	if k.serves(time.Now()) {
		return k.text, nil
	}
	return "", cmp.Or(context.Cause(ctx), k.err, errors.New("it ended at once"))
}

// serves reports whether there is a key that has not ended. The caller holds mu.
func (k *Key) serves(now time.Time) bool {
	return k.text != "" && (k.ends.IsZero() || now.Before(k.ends))
}

// answered asks the source once after the upstream refused the key, and not again before an answer
// was good: a key that stays refused is no reason to ask for ever.
func (k *Key) answered(key string, status int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.source == nil || key != k.text:
	case status < http.StatusBadRequest:
		k.once = false
	case status == http.StatusUnauthorized && !k.once && k.asked == nil:
		k.once = true
		k.ask()
	}
}

// A KeyState is that of a key with a source.
type KeyState struct {
	Err    error // why the source fails; nil: it does not
	Since  time.Time
	Serves bool      // there is a key that has not ended
	Ends   time.Time // of that key; zero: not known
}

// State returns the state at now.
func (k *Key) State(now time.Time) KeyState {
	k.mu.Lock()
	defer k.mu.Unlock()
	return KeyState{Err: k.err, Since: k.since, Serves: k.serves(now), Ends: k.ends}
}
