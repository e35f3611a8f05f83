package main

import (
	"sync"
	"time"
)

// Of refusals that are alike, so many are logged in so long a time: a caller may
// hammer, and must not hide what others are refused.
const (
	maxAlike  = 5
	alikeTime = 10 * time.Second
)

// maxKinds bounds what is remembered, whoever calls.
const maxKinds = 1000

// A kind of refusals is those of one caller for one reason.
type kind struct{ by, reason string }

// Refusals are sampled: the first of a kind are logged, the others counted.
type refusals struct {
	mu    sync.Mutex // guards kinds
	kinds map[kind]*alike
}

type alike struct {
	since    time.Time // when the first of them came
	logged   int
	unlogged int // since the last one that was logged
}

func newRefusals() *refusals { return &refusals{kinds: map[kind]*alike{}} }

// admit tells whether a refusal at now is to be logged, and how many of its kind
// were not before it.
func (r *refusals) admit(k kind, now time.Time) (logged bool, unlogged int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.kinds[k]
	if a == nil {
		if len(r.kinds) >= maxKinds {
			clear(r.kinds)
		}
		a = &alike{since: now}
		r.kinds[k] = a
	}
	if now.Sub(a.since) >= alikeTime {
		a.since, a.logged = now, 0
	}
	if a.logged == maxAlike {
		a.unlogged++
		return false, 0
	}
	unlogged, a.unlogged = a.unlogged, 0
	a.logged++
	return true, unlogged
}
