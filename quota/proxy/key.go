package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// A Key is the secret that an upstream requires. It is fixed, or comes from a source and may have an
// end: then Run gets the next one before that, and while the source fails the one that is there
// serves to its end. It is in memory only.
type Key struct {
	ask chan struct{} // has Run ask the source now; nil: the key is fixed

	mu     sync.Mutex // guards what follows; nothing is waited for under it
	source KeySource
	text   string        // empty: there is none yet
	ends   time.Time     // zero: it has no end that is known
	asking bool          // the source is being asked, or will be as soon as Run begins
	asked  chan struct{} // closed when it has been
	err    error         // why it failed last; nil: it did not
	since  time.Time     // when it began to fail
	fails  int           // how often it failed in a row
	once   bool          // the source was asked because of a 401, and no answer was good since
}

// A KeySource returns a key, and when that ends; the zero time: it is not known to. Its error does not
// hold the key.
type KeySource func(context.Context) (key string, ends time.Time, err error)

// FixedKey returns a key that does not change.
func FixedKey(text string) *Key { return &Key{text: text} }

// NewKey returns a key that Run gets from its source.
func NewKey() *Key {
	return &Key{ask: make(chan struct{}, 1), asking: true, asked: make(chan struct{})}
}

// SetSource replaces the source, which is asked at once. The key serves until there is another one.
func (k *Key) SetSource(source KeySource) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.source, k.once = source, false
	k.renew()
}

// renew has the source asked. The caller holds mu.
func (k *Key) renew() {
	k.asking = true
	select {
	case k.ask <- struct{}{}:
	default:
	}
}

// Run asks the source whenever it must, until ctx ends.
func (k *Key) Run(ctx context.Context) {
	for pause := time.Duration(neverAgain); ; {
		select {
		case <-ctx.Done():
			return
		case <-k.ask:
		case <-time.After(pause):
		}
		k.mu.Lock()
		source := k.source
		k.asking = true
		k.mu.Unlock()
		key, ends, err := source(ctx)
		pause = k.got(key, ends, err, time.Now())
	}
}

// The times at which a source is asked again.
const (
	renewBefore = 5 * time.Minute  // the end of a key that lasts long enough
	retryAfter  = 10 * time.Second // a failure, and twice as long after the next one
	maxRetry    = 5 * time.Minute
	leastLife   = time.Second         // of a key
	neverAgain  = 1 << 20 * time.Hour // longer than quotad runs
)

// got records what the source returned at now, and returns when to ask it again.
func (k *Key) got(key string, ends time.Time, err error, now time.Time) time.Duration {
	left := ends.Sub(now)
	if err == nil && !ends.IsZero() && left < leastLife {
		err = fmt.Errorf("it printed a key that is over: it ended at %s", ends.UTC().Format(time.RFC3339))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.asked)
	k.asking, k.asked = false, make(chan struct{})
	if err != nil {
		if k.err == nil {
			k.since = now
		}
		k.err = err
		if k.text != "" {
			k.err = errors.New(hide(err.Error(), k.text))
		}
		k.fails++
		return min(retryAfter<<min(k.fails-1, 10), maxRetry)
	}
	k.text, k.ends, k.err, k.fails = key, ends, nil, 0
	if ends.IsZero() {
		return neverAgain
	}
	return max(left-min(renewBefore, left/4), leastLife)
}

// get returns the key. It waits while the source is asked for the first one, or for one after an end that came
// while the host was asleep.
func (k *Key) get(ctx context.Context) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for waited := false; !k.serves(time.Now()); waited = true {
		switch {
		case k.err != nil && (waited || !k.asking):
			return "", k.err
		case waited && k.err == nil:
			return "", errors.New("it ended at once")
		case !k.asking:
			k.renew()
		}
		asked := k.asked
		k.mu.Unlock()
		select {
		case <-asked:
		case <-ctx.Done():
		}
		k.mu.Lock()
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
	}
	return k.text, nil
}

// serves reports whether there is a key that has not ended. The caller holds mu.
func (k *Key) serves(now time.Time) bool {
	return k.text != "" && (k.ends.IsZero() || now.Before(k.ends))
}

// answered asks the source once after the upstream refused the key, and not again before an answer
// was good: a key that stays refused is no reason to ask for ever.
func (k *Key) answered(key string, status int) {
	if k.ask == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case key != k.text:
	case status < http.StatusBadRequest:
		k.once = false
	case status == http.StatusUnauthorized && !k.once && !k.asking:
		k.once = true
		k.renew()
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
