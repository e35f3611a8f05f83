package jobs

import (
	"context"
	"errors"
	"slices"
	"time"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

// adopt takes in what the log says anew, whose writer knew the log before up to a place. What
// this host knew besides is told the others again.
func (j *jobControl) adopt(told *story, before quota.ID) {
	if told.join(&j.story, before) {
		j.hosts.lost = true
	}
	if j.own != nil && told.Last != nil && told.Last.ID == j.own.ID {
		told.Last = j.own
	}
	for _, one := range j.hosts.pending {
		told.add(one, quota.ID{})
	}
	j.story = *told
}

// readAgain reads the log from its beginning where this host has read nothing yet, or the store
// has lost what it read.
func (j *jobControl) readAgain(ctx context.Context) error {
	j.mu.Lock()
	fresh := j.hosts.fresh
	j.mu.Unlock()
	if !fresh {
		return nil
	}
	told, before, lines := &story{}, quota.ID{}, []record(nil)
	read := hostsLog{name: j.hosts.name}
	for {
		out := j.hosts.store.Append(ctx, []slidinglog.Call{read.look()})[0]
		if out.Err != nil {
			return out.Err
		}
		if out.Status == slidinglog.Lost { // right now
			told, before, lines, read = &story{}, quota.ID{}, nil, hostsLog{name: read.name}
			continue
		}
		for _, placed := range out.Tail {
			list, err := decodeBody(placed.Body)
			if err != nil {
				return err
			}
			known := false
			for _, one := range list {
				if one.Known != nil {
					known, before = true, later(before, one.Known.Seen)
				}
				if one.Past == nil {
					told.add(one, placed.At)
				}
				lines = append(lines, one)
			}
			read.read(placed, known)
		}
		if out.Status == slidinglog.End {
			return j.readAnew(told, before, lines, read, out.Clock)
		}
	}
}

// readAnew takes in a log that was read from its beginning. Of its lines, those about runs of
// which this host does not know how they ended are written down.
func (j *jobControl) readAnew(told *story, before quota.ID, lines []record, read hostsLog, clock int64) error {
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
	lines = slices.DeleteFunc(lines, func(one record) bool { return over[one.run()] && one.Known == nil })
	j.mu.Lock()
	h := j.hosts
	j.adopt(told, before)
	h.at, h.known, h.size, h.told, h.fresh, h.clock = read.at, read.known, read.size, read.told, false, time.UnixMilli(clock).UTC()
	data, err := encodeRecords(append(lines, record{Known: &j.story}, record{Host: &j.here}, h.readSoFar()))
	j.mu.Unlock()
	return errors.Join(err, j.log.write(data, false))
}

// past returns runs that are over, for who does not know them, when it is time to say again all
// that is known; nil while it is not.
func (j *jobControl) past() ([]record, error) {
	j.mu.Lock()
	h := j.hosts
	due := !h.at.IsZero() && (h.told > max(mostTold, mostTimes*h.size) || h.clock.Sub(h.known.Time()) > hostsKeep/2)
	j.mu.Unlock()
	if !due {
		return nil, nil
	}
	runs, err := j.log.read()
	if err != nil {
		return nil, err
	}
	list, left := []record{}, pastTold
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
