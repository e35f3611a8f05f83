package jobs

import (
	"context"
	"errors"
	"slices"
	"time"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

// adopt replaces the state by a snapshot, whose writer had read the log up to a place. What this
// host knows beyond that is appended again.
func (j *jobControl) adopt(snapshot *logState, before quota.ID) {
	if snapshot.join(&j.state, before) {
		j.hosts.lost = true
	}
	if mine := j.state.Last; mine != nil && mine.Host == j.here.Name && snapshot.Last != nil && snapshot.Last.ID == mine.ID {
		snapshot.Last = mine
	}
	for _, one := range j.hosts.pending {
		snapshot.apply(one, quota.ID{})
	}
	j.state = *snapshot
}

// A rereading is what a log holds that is read from its beginning.
type rereading struct {
	readUntil
	story  logState
	before quota.ID // up to where the writers of snapshots had read the log
	lines  []record
}

// readAgain reads the log from its beginning if this host has read nothing yet, or the store
// has lost what it read.
func (j *jobControl) readAgain(ctx context.Context) error {
	if !j.isFresh() {
		return nil
	}
	for all := (rereading{}); ; {
		call := (&hostsLog{name: j.hosts.name, readUntil: all.readUntil}).readCall()
		out := j.hosts.store.Append(ctx, []slidinglog.Call{call})[0]
		if out.Err != nil {
			return out.Err
		}
		if out.Status == slidinglog.Lost { // right now
			all = rereading{}
			continue
		}
		for _, placed := range out.Tail {
			if err := all.add(placed); err != nil {
				return err
			}
		}
		if out.Status == slidinglog.End {
			return j.replace(&all, out.Clock)
		}
	}
}

func (r *rereading) add(placed slidinglog.Placed) error {
	list, err := decodeBody(placed.Body)
	if err != nil {
		return err
	}
	known := false
	for _, one := range list {
		if one.Known != nil {
			known, r.before = true, later(r.before, one.Known.Seen)
		}
		if one.Past == nil {
			r.story.apply(one, placed.At)
		}
		r.lines = append(r.lines, one)
	}
	r.advance(placed, known)
	return nil
}

// replace adopts a log that was read from its beginning. It writes those of its lines that
// are about runs whose end this host does not know.
func (j *jobControl) replace(all *rereading, clock int64) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	runs, err := j.log.read()
	if err != nil {
		return err
	}
	over := map[string]bool{"": true}
	for _, run := range runs {
		over[run.ID] = run.State != RunRunning
	}
	lines := slices.DeleteFunc(all.lines, func(one record) bool { return over[one.run()] && one.Known == nil })
	j.mu.Lock()
	h := j.hosts
	j.adopt(&all.story, all.before)
	h.readUntil, h.fresh, h.clock = all.readUntil, false, time.UnixMilli(clock).UTC()
	data, err := encodeRecords(append(lines, record{Known: &j.state}, record{Host: &j.here}, record{Read: h.at}))
	j.mu.Unlock()
	return errors.Join(err, j.log.write(data, false))
}

// past returns runs that are over, for hosts that do not know them, when it is time to append
// another snapshot; nil while it is not.
func (j *jobControl) past() ([]record, error) {
	j.mu.Lock()
	h := j.hosts
	due := !h.at.IsZero() && (h.since > max(maxSince, maxTimes*h.size) || h.clock.Sub(h.snapshot.Time()) > hostsKeep/2)
	j.mu.Unlock()
	if !due {
		return nil, nil
	}
	runs, err := j.log.read()
	if err != nil {
		return nil, err
	}
	list, left := []record{}, maxPast
	for _, run := range slices.Backward(runs) {
		one := record{Past: run.outline()}
		line, err := encodeRecords([]record{one})
		if left -= len(line); err != nil || left < 0 {
			break
		}
		if run.State != RunRunning {
			list = append(list, one)
		}
	}
	slices.Reverse(list)
	return list, nil
}
