package jobs

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

// A hostsLog is the log of a job that all its hosts share, as far as this host has read it. It
// is kept in a store as those of credentials are: a record there has a tag, a version and some
// lines. The job's mu guards all but the first four.
type hostsLog struct {
	store slidinglog.Store
	name  string        // of the log
	turn  chan struct{} // holds one while somebody appends; it is taken before all locks
	news  chan struct{} // holds one while something is to be told

	at      slidinglog.Position // so far it is in the story
	clock   time.Time           // the store's, when it answered last
	fresh   bool                // nothing was read yet, or the store does not have what was
	lost    bool                // the store lacks what this host knows
	pending []record            // what the others do not know
	sending *attempt            // that is under way, or of which nobody knows what became of it
	known   quota.ID            // where all that is known was said last
	size    int                 // of that, in bytes
	told    int                 // of what follows it
}

const (
	// hostsTime is how long one question to the hosts may take.
	hostsTime = time.Second
	// claimMargin is how far the clock of a host may be from the store's when it claims a slot.
	claimMargin = time.Hour
	// hostsKeep is how long a line is kept at least. All that is known is said again before.
	hostsKeep = 50 * 24 * time.Hour
	// mostTold is how many bytes follow what said all that is known, or how many times that,
	// before it is said again; pastTold bounds the runs that are told with it.
	mostTold, mostTimes, pastTold = 512 << 10, 4, 128 << 10
	// linesVersion stands behind the tag of a record.
	linesVersion = 0xb1
)

var errLines = fmt.Errorf("%w: another version of quotad has written to the log of the job: run the same version on all hosts", quota.ErrUnavailable)

func newHostsLog(store slidinglog.Store, job string) *hostsLog {
	return &hostsLog{store: store, name: "job:" + job, turn: make(chan struct{}, 1), news: make(chan struct{}, 1), fresh: true}
}

// A decision returns what is to be told, given the job as all its hosts know it, or why nothing
// is. It is asked again if somebody has told something meanwhile. The job's mu is held.
type decision func() ([]record, error)

// decide tells what a decision says, so that nobody has told anything before of which it did
// not know. Then, which may be nil, is called with mu held at the moment from which this host
// knows. Kept is why it could not be written down on this host.
func (j *jobControl) decide(ctx context.Context, how decision, then func()) (kept, err error) {
	if j.hosts == nil {
		return j.decideAlone(how, then)
	}
	ctx, cancel := context.WithTimeout(ctx, hostsTime)
	defer cancel()
	select {
	case j.hosts.turn <- struct{}{}:
		defer func() { <-j.hosts.turn }()
		return j.append(ctx, how, then)
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: the hosts of job %q do not answer", quota.ErrUnavailable, j.name)
	}
}

func (j *jobControl) decideAlone(how decision, then func()) (kept, err error) {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.mu.Lock()
	list, err := how()
	if err == nil {
		j.took(list, quota.ID{})
		if then != nil {
			then()
		}
	}
	lines, kept := encodeRecords(list) // they point to what may change
	j.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return errors.Join(kept, j.log.write(lines, true)), nil
}

// took takes in lines. The caller holds mu.
func (j *jobControl) took(list []record, at quota.ID) {
	for _, one := range list {
		j.story.add(one, at)
		if one.Host != nil {
			j.here = *one.Host
		}
	}
}

// An attempt is a record on its way to the store.
type attempt struct {
	call    slidinglog.Call
	pending int      // so many of those that are pending it tells
	list    []record // what was decided
	known   bool     // it says all that is known
	err     error    // why nothing was
	then    func()
	unknown bool  // whether it was carried out
	landed  bool  // it was
	kept    error // why this host could not write down that it was
}

// append is decide among hosts, for who has the turn.
func (j *jobControl) append(ctx context.Context, how decision, then func()) (kept, err error) {
	for looked := false; ; {
		if err := j.readAgain(ctx); err != nil {
			return nil, err
		}
		past, err := j.past()
		if err != nil {
			return nil, err
		}
		a, again, err := j.next(past, how, then)
		switch {
		case err != nil:
			return nil, err
		case a.err != nil && looked && !again:
			return nil, a.err
		}
		out := j.hosts.store.Append(ctx, []slidinglog.Call{a.call})[0]
		j.writing.Lock()
		err = j.hear(a.call, out)
		j.writing.Unlock()
		if err != nil {
			return nil, err
		}
		switch landed, kept := j.become(a); {
		case out.Err != nil && !landed:
			return nil, out.Err
		case again, !landed && (len(a.call.Body) > 0 || out.Status != slidinglog.End):
			looked = false
		case a.err == nil && past == nil:
			return kept, nil
		default:
			looked = true
		}
	}
}

// become tells whether an attempt was carried out, as far as this host knows. If it is not, and
// turns out to be later, nobody acts on it any more.
func (j *jobControl) become(a *attempt) (landed bool, kept error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !a.landed {
		a.then = nil
	}
	return a.landed, a.kept
}

// next returns what is to be sent: what nobody knows about yet whether it was carried out,
// again; or what is pending and what is decided. With past runs it is all that is known.
func (j *jobControl) next(past []record, how decision, then func()) (a *attempt, again bool, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	h := j.hosts
	if h.sending != nil && h.sending.unknown {
		return h.sending, true, nil
	}
	a = &attempt{then: then}
	var list []record
	switch {
	case past != nil:
		a.then, list = nil, append(past, record{Known: &j.story})
	case h.lost:
		list = []record{{Known: &j.story}}
	}
	if past == nil && how != nil {
		if a.list, a.err = how(); a.err != nil {
			a.then = nil
		}
	}
	a.pending = len(h.pending)
	a.known = len(list) > 0
	list = append(append(list, h.pending...), a.list...)
	a.call = h.look()
	if a.call.Wipe = past != nil; a.known {
		a.call.Floor = j.story.Seen.Ms + 1
	}
	if len(list) > 0 {
		a.call.Body, err = encodeBody(list)
	}
	h.sending = a
	return a, false, err
}

func encodeBody(list []record) ([]byte, error) {
	told := make([]record, len(list))
	for i, one := range list {
		told[i] = one.outline()
	}
	lines, err := encodeRecords(told)
	tag := slidinglog.NewTag()
	return append(append(tag[:], linesVersion), lines...), err
}

// tagOf returns the tag of a record, which is its beginning.
func tagOf(body []byte) (t slidinglog.Tag) {
	copy(t[:], body)
	return t
}

// hear takes in the answer to a call, unless somebody else has taken that in meanwhile. The caller
// holds writing.
func (j *jobControl) hear(call slidinglog.Call, out slidinglog.Outcome) error {
	j.mu.Lock()
	h := j.hosts
	if a := h.sending; a != nil && sameCall(a.call, call) {
		a.unknown = out.Status == slidinglog.Unknown && len(call.Body) > 0
	}
	if out.Clock > 0 {
		h.clock = time.UnixMilli(out.Clock).UTC()
	}
	tail := out.Tail
	if out.Status == slidinglog.Done {
		tail = []slidinglog.Placed{{At: out.At, Body: call.Body}}
	}
	var lines []record
	var err error
	if h.at != call.At || h.fresh {
		tail = nil // somebody else takes it in, or has
	} else if out.Status == slidinglog.Lost {
		h.fresh = true
	}
	for _, placed := range tail {
		var more []record
		if more, err = j.take(placed); err != nil {
			break
		}
		lines = append(lines, more...)
	}
	data, kept := encodeRecords(lines)
	a := h.sending
	landed := a != nil && a.landed
	j.mu.Unlock()
	if len(data) == 0 {
		return err
	}
	kept = errors.Join(kept, j.log.write(data, landed && len(a.list) > 0))
	if landed {
		j.mu.Lock()
		a.kept = kept
		j.mu.Unlock()
	}
	return err
}

func sameCall(a, b slidinglog.Call) bool {
	return len(a.Body) > 0 && len(b.Body) > 0 && tagOf(a.Body) == tagOf(b.Body)
}

// take takes in a record of the store, and returns what is to be written down of it. The caller
// holds mu.
func (j *jobControl) take(placed slidinglog.Placed) (lines []record, err error) {
	h := j.hosts
	known := false
	if a := h.sending; a != nil && len(a.call.Body) > 0 && tagOf(placed.Body) == tagOf(a.call.Body) {
		j.land(a, placed.At)
		lines, known = a.list, a.known
	} else {
		all, err := decodeBody(placed.Body)
		if err != nil {
			return nil, err
		}
		for _, one := range all {
			if one.Known != nil {
				known = true
				j.adopt(one.Known, one.Known.Seen)
				one.Known = &j.story
			} else if one.Past == nil {
				j.took([]record{one}, placed.At)
			}
			if one.Past == nil {
				lines = append(lines, one)
			}
		}
	}
	j.story.Seen = placed.At
	return append(lines, h.read(placed, known)), nil
}

// land takes in that an attempt was carried out at a place.
func (j *jobControl) land(a *attempt, at quota.ID) {
	a.landed, a.unknown = true, false
	for _, one := range j.hosts.pending[:a.pending] {
		j.story.stamp(one, at)
	}
	j.hosts.pending = j.hosts.pending[a.pending:]
	j.hosts.lost = j.hosts.lost && !a.known
	j.took(a.list, at)
	if a.then != nil {
		a.then()
	}
}

// read notes how far the log has been read, for this host's file too.
func (h *hostsLog) read(placed slidinglog.Placed, known bool) record {
	h.at = slidinglog.Position{ID: placed.At, Tag: tagOf(placed.Body)}
	if known {
		h.known, h.size, h.told = placed.At, len(placed.Body), 0
	} else if h.told += len(placed.Body); h.known.IsZero() {
		h.known = placed.At
	}
	return h.readSoFar()
}

// readSoFar is for this host's file.
func (h *hostsLog) readSoFar() record { return record{At: h.at.ID.String() + "/" + h.at.Tag.String()} }

func (h *hostsLog) look() slidinglog.Call {
	return slidinglog.Call{Credential: h.name, At: h.at, NotAfter: math.MaxInt64, Keep: hostsKeep}
}

func decodeBody(body []byte) (list []record, err error) {
	lines, ok := bytes.CutPrefix(body[min(len(body), len(slidinglog.Tag{})):], []byte{linesVersion})
	damaged, err := eachRecord(lines, func(one record) { list = append(list, one) })
	if !ok || err != nil || damaged > 0 {
		return nil, errLines
	}
	return list, nil
}

// tell has what is pending told soon. Where there are no other hosts, nobody is told.
func (h *hostsLog) tell() {
	select {
	case h.news <- struct{}{}:
	default:
	}
}

// look takes in what the other hosts have told since, and writes nothing. What cannot be found
// out is shown as this host knows it. Where nobody has heard for long of a run's host, it is asked.
func (r *Runner) look(list []*jobControl) {
	if r.config.Store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), hostsTime)
	defer cancel()
	for looked := list; len(looked) > 0; {
		var calls []slidinglog.Call
		for _, j := range looked {
			calls = append(calls, j.lookCall())
		}
		outcomes := r.config.Store.Append(ctx, calls)
		more := looked[:0:0]
		for i, out := range outcomes {
			if !looked[i].writing.TryLock() {
				continue // whoever looks does not wait for the disk: it is seen the next time
			}
			if looked[i].hear(calls[i], out) == nil && out.More {
				more = append(more, looked[i])
			}
			looked[i].writing.Unlock()
		}
		looked = more
	}
	for _, j := range list {
		if j.isFresh() {
			_, _ = j.decide(ctx, nil, nil)
		}
		r.inquire(j)
	}
}

func (j *jobControl) lookCall() slidinglog.Call {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.hosts.look()
}

func (j *jobControl) isFresh() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.hosts.fresh
}

// recall is how far this host had read the log, as its file says.
func (h *hostsLog) recall(at string) {
	id, tag, _ := strings.Cut(at, "/")
	place, err := quota.ParseID(id)
	b, err2 := hex.DecodeString(tag)
	if err == nil && err2 == nil && len(b) == len(h.at.Tag) {
		h.at, h.fresh, h.known = slidinglog.Position{ID: place, Tag: slidinglog.Tag(b)}, false, place
	}
}
