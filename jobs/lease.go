package jobs

import "time"

// A lease keeps a job to a run, and the other hosts told of it, for as long as the
// run is under way. It ends with its host, a little later. A nil lease is that of
// a run that no other host could begin.
type lease struct {
	walk    *walk
	length  time.Duration // for which the job is held at a time
	changed chan struct{} // there is something to tell
	over    chan struct{} // closed when nothing more is to be told
	ended   chan struct{} // closed when nothing more will be
}

// newLease returns the lease of a run for which the job is held.
func newLease(w *walk, length time.Duration) *lease {
	return &lease{
		walk: w, length: length,
		changed: make(chan struct{}, 1), over: make(chan struct{}), ended: make(chan struct{}),
	}
}

// keep renews the lease until it is stopped. If another host has taken the job,
// because nothing could be renewed for too long, the run launches nothing more.
func (l *lease) keep() {
	defer close(l.ended)
	renewal := time.NewTicker(l.length / 3)
	defer renewal.Stop()
	for held := l.tell(true); held; {
		select {
		case <-l.over:
			return
		case <-l.changed:
			held = l.tell(false)
		case <-renewal.C:
			held = l.renew(nil)
		}
	}
	l.walk.halt(&stop{reason: Overlap, detail: "another host has taken the job, which could not be held meanwhile"})
}

// tell renews the lease and tells how the run stands.
func (l *lease) tell(begins bool) (held bool) {
	d := l.walk.desk
	d.mu.Lock()
	parts, err := d.tell(l.walk.run, begins)
	d.mu.Unlock()
	l.walk.runner.trouble(d.name, err)
	return l.renew(parts)
}

// renew is false only if the job is known to be another's: a fleet that does not
// answer is asked again.
func (l *lease) renew(parts map[string]string) (held bool) {
	held, err := l.walk.runner.save(l.walk.desk, l.walk.id, l.length, parts)
	return held || err != nil
}

// note tells that the run stands differently.
func (l *lease) note() {
	if l == nil {
		return
	}
	select {
	case l.changed <- struct{}{}:
	default: // it is going to be told anyway
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
