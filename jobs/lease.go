package jobs

import (
	"sync"
	"time"
)

// A lease keeps a job to a run, and the other hosts told of it, for as long as the
// run is under way. It ends with its host, a little later. A nil lease is that of
// a run that no other host could begin.
type lease struct {
	walk   *walk
	length time.Duration // for which the job is held at a time
	over   chan struct{} // closed when nothing more is to be told
	ended  chan struct{} // closed when nothing more will be

	mu   sync.Mutex // held while something is told, so that the latest is told last
	told bool       // of the run itself, and guarded by mu
}

// newLease returns the lease of a run for which the job is held.
func newLease(w *walk, length time.Duration) *lease {
	return &lease{walk: w, length: length, over: make(chan struct{}), ended: make(chan struct{})}
}

// keep renews the lease until it is stopped.
func (l *lease) keep() {
	defer close(l.ended)
	renewal := time.NewTicker(l.length / 3)
	defer renewal.Stop()
	for l.tell(); ; {
		select {
		case <-l.over:
			return
		case <-renewal.C:
			l.renew(nil)
		}
	}
}

// tell renews the lease and tells how the run stands. When it returns, a host that
// takes the job from a dead one goes on from here, unless nobody could be told.
func (l *lease) tell() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.walk.desk
	d.mu.Lock()
	parts, err := d.tell(l.walk.run, !l.told)
	d.mu.Unlock()
	l.walk.runner.trouble(d.name, err)
	l.renew(parts)
	l.told = true
}

// renew renews the lease. If another host has taken the job, because this one could
// not renew its lease for too long, the run launches nothing more. A fleet that
// does not answer is asked again soon enough.
func (l *lease) renew(parts map[string]string) {
	held, err := l.walk.runner.save(l.walk.desk, l.walk.id, l.length, parts)
	if err == nil && !held {
		l.walk.halt(&stop{reason: Overlap, detail: "another host has taken the job, which could not be held meanwhile"})
	}
}

// stop ends the renewals. The job is held for a little longer.
func (l *lease) stop() {
	if l != nil {
		close(l.over)
		<-l.ended
	}
}

// end lets the job go, of which it was noted how it ended. If that cannot be told
// now, it is as soon as this host asks the fleet anything.
func (l *lease) end() {
	if l != nil {
		_ = l.walk.runner.tellRest(l.walk.desk)
	}
}
