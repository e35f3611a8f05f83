package slidinglog

import (
	"context"
	"slices"
	"time"
)

// work follows all logs until Close, and writes the tables about once a second.
func (l *Ledger) work() {
	timer := time.NewTicker(min(time.Second, l.retry()))
	defer timer.Stop()
	folded := l.config.Clock()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.kick:
		case <-timer.C:
		}
		if l.config.Store != nil {
			l.followAll()
		}
		if time.Since(folded) >= time.Second {
			folded = time.Now()
			l.Fold() // Health tells of its error
		}
	}
}

// followAll looks at the logs that are due, all in one call, and has each that is not as it
// was left followed on its own.
func (l *Ledger) followAll() {
	ctx, cancel := context.WithTimeout(l.ctx, l.config.Deadline)
	defer cancel()
	var calls []Call
	idle := make(map[string]*replica)
	for _, r := range l.due() {
		if !r.tryLock() {
			continue // a call is under way
		}
		if owed, hello := r.owed(); len(owed) > 0 || hello != nil || r.serving() != nil {
			r.unlock()
			l.goFollow(r)
			continue
		}
		calls = append(calls, r.newCall(nil))
		idle[r.name] = r
	}
	if len(calls) == 0 {
		return
	}
	for i, out := range l.config.Store.Append(ctx, calls) {
		r := idle[calls[i].Credential]
		r.hear(out)
		known, err := false, error(nil)
		if out.Status != Lost { // which takes longer than the others are to wait
			known, err = r.learn(ctx, out)
		}
		r.unlock()
		if !known && err == nil {
			l.goFollow(r)
		}
	}
}

// goFollow has a log followed on its own, so that one that is long keeps no other waiting.
func (l *Ledger) goFollow(r *replica) {
	r.mu.Lock()
	r.following = true
	r.mu.Unlock()
	l.workers.Go(func() {
		r.follow(l.ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.following, r.tried = false, l.config.Clock()
	})
}

// due returns the replicas that are to be looked at now.
func (l *Ledger) due() []*replica {
	now := l.config.Clock()
	return slices.DeleteFunc(l.all(), func(r *replica) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.refused != nil || r.ready() != nil {
			return r.following || now.Sub(r.tried) < l.retry()
		}
		return r.following || now.Sub(r.heardAt) < l.config.Quiet/3
	})
}

// bye says of each log that all that this host knows is in it.
func (l *Ledger) bye() {
	if l.config.Store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.config.Deadline)
	defer cancel()
	for _, r := range l.all() {
		if r.serving() == nil && r.lock(ctx) == nil {
			r.say(ctx, &Statement{Kind: Bye}) // a host that says nothing is waited for
			r.unlock()
		}
	}
}
