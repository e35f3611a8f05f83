package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

// A hostsLog is the log of a job that all its hosts share, as far as this host has read it. A
// store keeps it like the logs of credentials: a record there has a tag, a version and some
// lines. The job's mu guards all but the first four.
type hostsLog struct {
	store     slidinglog.Store
	name      string        // of the log
	appending chan struct{} // holds one while a goroutine appends; it is locked before all others
	news      chan struct{} // holds one while records are pending

	readUntil           // how far the log is in the state
	clock     time.Time // the store's, at its last answer
	fresh     bool      // nothing was read yet, or the store lost what was
	lost      bool      // the store lacks what this host knows
	pending   []record  // what the other hosts do not know yet
	sending   *attempt  // that is under way, or whose outcome is unknown
}

// A readUntil is how far a log has been read.
type readUntil struct {
	at       slidinglog.Position
	snapshot quota.ID // the place of the last snapshot
	size     int      // of that record, in bytes
	since    int      // how many bytes follow it
}

const (
	// hostsTime is how long one question to the hosts may take.
	hostsTime = time.Second
	// claimMargin is how far the clock of a host may be from the store's when it claims a slot.
	claimMargin = time.Hour
	// hostsKeep is how long the store keeps a record at least. Another snapshot is appended before.
	hostsKeep = 50 * 24 * time.Hour
	// Another snapshot is appended when maxSince bytes follow the last, or maxTimes its size;
	// maxPast bounds the runs that are appended with it.
	maxSince, maxTimes, maxPast = 512 << 10, 4, 128 << 10
	// linesVersion follows the tag of a record.
	linesVersion = 0xb1
)

var errLines = fmt.Errorf("%w: another version of quotad has written to the log of the job: run the same version on all hosts", quota.ErrUnavailable)

func newHostsLog(store slidinglog.Store, job string) *hostsLog {
	return &hostsLog{store: store, name: "job:" + job, appending: make(chan struct{}, 1), news: make(chan struct{}, 1), fresh: true}
}

// A decision returns the records to append, given the job as all its hosts know it, or why there
// are none. It is called again if another host has appended meanwhile. The job's mu is held.
type decision func() ([]record, error)

// decide appends what a decision returns, only if this host knew all that was appended before.
// Then, which may be nil, is called with mu held as soon as the records count. The first error is
// why this host could not write them down.
func (j *jobControl) decide(ctx context.Context, how decision, then func()) (writeErr, err error) {
	if j.hosts == nil {
		return j.commit(true, false, how, then)
	}
	ctx, cancel := context.WithTimeout(ctx, hostsTime)
	defer cancel()
	select {
	case j.hosts.appending <- struct{}{}:
		defer func() { <-j.hosts.appending }()
		return j.append(ctx, how, then)
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: the hosts of job %q do not answer", quota.ErrUnavailable, j.name)
	}
}

// An attempt is a record of the store that this host tries to append.
type attempt struct {
	call     slidinglog.Call
	pending  int      // how many of the pending records it holds
	list     []record // what was decided
	snapshot bool     // it holds a snapshot
	err      error    // why nothing was decided
	then     func()   // nil once its caller has given up
	unknown  bool     // its outcome is unknown
	landed   bool     // it was appended
	writeErr error    // why this host could not write that down
}

// isOf returns whether a record of the store is that of the attempt, which may be nil.
func (a *attempt) isOf(body []byte) bool {
	return a != nil && len(a.call.Body) > 0 && tagOf(a.call.Body) == tagOf(body)
}

// tagOf returns the tag of a record, which is its beginning.
func tagOf(body []byte) (t slidinglog.Tag) {
	copy(t[:], body)
	return t
}

// append is decide among hosts. The caller holds appending.
func (j *jobControl) append(ctx context.Context, how decision, then func()) (writeErr, err error) {
	for upToDate := false; ; {
		if err := j.readAgain(ctx); err != nil {
			return nil, err
		}
		past, err := j.past()
		if err != nil {
			return nil, err
		}
		a, resent, err := j.next(past, how, then)
		switch {
		case err != nil:
			return nil, err
		case a.err != nil && upToDate && !resent:
			return nil, a.err
		}
		out := j.hosts.store.Append(ctx, []slidinglog.Call{a.call})[0]
		j.writing.Lock()
		err = j.receive(a, a.call, out)
		j.writing.Unlock()
		if err != nil {
			return nil, err
		}
		j.mu.Lock()
		landed, writeErr := a.landed, a.writeErr
		if !landed {
			a.then = nil // if it lands later, its caller has given up
		}
		j.mu.Unlock()
		switch {
		case out.Err != nil && !landed:
			return nil, out.Err
		case resent, !landed && (len(a.call.Body) > 0 || out.Status != slidinglog.End):
			upToDate = false
		case a.err == nil && past == nil:
			return writeErr, nil
		default:
			upToDate = true
		}
	}
}

// next returns what to append: an attempt whose outcome is unknown, again; or what is pending and
// what is decided. With past runs it is a snapshot.
func (j *jobControl) next(past []record, how decision, then func()) (a *attempt, resent bool, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	h := j.hosts
	if h.sending != nil && h.sending.unknown {
		return h.sending, true, nil
	}
	a = &attempt{call: h.readCall(), pending: len(h.pending), snapshot: past != nil || h.lost}
	var list []record
	if a.snapshot {
		list = append(past, record{Known: &j.state})
		a.call.Floor = j.state.Seen.Ms + 1
	}
	a.call.Wipe = past != nil
	if past == nil && how != nil {
		a.list, a.err = how()
	}
	if past == nil && a.err == nil {
		a.then = then
	}
	if list = append(append(list, h.pending...), a.list...); len(list) > 0 {
		a.call.Body, err = encodeBody(list)
	}
	h.sending = a
	return a, false, err
}

func encodeBody(list []record) ([]byte, error) {
	shared := make([]record, len(list))
	for i, one := range list {
		shared[i] = one.outline()
	}
	lines, err := encodeRecords(shared)
	tag := slidinglog.NewTag()
	return append(append(tag[:], linesVersion), lines...), err
}

func decodeBody(body []byte) (list []record, err error) {
	lines, ok := bytes.CutPrefix(body[min(len(body), len(slidinglog.Tag{})):], []byte{linesVersion})
	damaged, err := eachRecord(lines, func(one record) { list = append(list, one) })
	if !ok || err != nil || damaged > 0 {
		return nil, errLines
	}
	return list, nil
}

// receive applies and writes the answer to a call, unless another goroutine has done so. The
// attempt is nil for a call that only reads. The caller holds writing.
func (j *jobControl) receive(a *attempt, call slidinglog.Call, out slidinglog.Outcome) error {
	j.mu.Lock()
	h := j.hosts
	if a != nil {
		a.unknown = !a.landed && out.Status == slidinglog.Unknown && len(call.Body) > 0
	}
	if out.Clock > 0 {
		h.clock = time.UnixMilli(out.Clock).UTC()
	}
	tail := out.Tail
	if out.Status == slidinglog.Done {
		tail = []slidinglog.Placed{{At: out.At, Body: call.Body}}
	}
	if h.at != call.At || h.fresh {
		tail = nil // another goroutine applies it, or has
	} else if out.Status == slidinglog.Lost {
		h.fresh = true
	}
	var lines []record
	var err error
	for _, placed := range tail {
		var more []record
		if more, err = j.applyPlaced(placed); err != nil {
			break
		}
		lines = append(lines, more...)
	}
	data, writeErr := encodeRecords(lines)
	sending := h.sending
	landed := sending != nil && sending.landed
	j.mu.Unlock()
	if len(data) == 0 {
		return err
	}
	writeErr = errors.Join(writeErr, j.log.write(data, landed && len(sending.list) > 0))
	if landed {
		j.mu.Lock()
		sending.writeErr = writeErr
		j.mu.Unlock()
	}
	return err
}

// applyPlaced applies a record of the store, and returns the records to write to this host's
// file. The caller holds mu.
func (j *jobControl) applyPlaced(placed slidinglog.Placed) (lines []record, err error) {
	h, known := j.hosts, false
	if a := h.sending; a.isOf(placed.Body) {
		j.land(a, placed.At)
		lines, known = a.list, a.snapshot
	} else {
		all, err := decodeBody(placed.Body)
		if err != nil {
			return nil, err
		}
		for _, one := range all {
			if one.Past != nil {
				continue
			}
			if one.Known != nil {
				known = true
				j.adopt(one.Known, one.Known.Seen)
				one.Known = &j.state
			} else {
				j.state.apply(one, placed.At)
			}
			lines = append(lines, one)
		}
	}
	j.state.Seen = placed.At
	h.advance(placed, known)
	return append(lines, record{Read: h.at}), nil
}

// land applies that an attempt was appended at a place.
func (j *jobControl) land(a *attempt, at quota.ID) {
	a.landed, a.unknown = true, false
	for _, one := range j.hosts.pending[:a.pending] {
		j.state.place(one, at)
	}
	j.hosts.pending = j.hosts.pending[a.pending:]
	j.hosts.lost = j.hosts.lost && !a.snapshot
	j.apply(a.list, j.own(), at)
	if a.then != nil {
		a.then()
	}
}

// advance records that a log was read up to a record, which may hold a snapshot.
func (r *readUntil) advance(placed slidinglog.Placed, known bool) {
	r.at = slidinglog.Position{ID: placed.At, Tag: tagOf(placed.Body)}
	if known {
		r.snapshot, r.size, r.since = placed.At, len(placed.Body), 0
	} else if r.since += len(placed.Body); r.snapshot.IsZero() {
		r.snapshot = placed.At
	}
}

// readCall returns a call that reads what follows the position.
func (h *hostsLog) readCall() slidinglog.Call {
	return slidinglog.Call{Credential: h.name, At: h.at, NotAfter: math.MaxInt64, Keep: hostsKeep}
}

// refresh reads what the other hosts have appended since, and appends nothing. If they cannot be
// asked, the jobs stay as this host knows them. It asks after a run's host that has been silent
// for long. A reader does not wait for the disk: while a job is written, it stays as it is.
func (r *Runner) refresh(list ...*jobControl) { r.read(list, (*sync.Mutex).TryLock) }

// readAll is refresh, but it returns only when this host knows all that was appended before.
func (r *Runner) readAll(list []*jobControl) {
	r.read(list, func(mu *sync.Mutex) bool { mu.Lock(); return true })
}

func (r *Runner) read(list []*jobControl, lock func(*sync.Mutex) bool) {
	if r.config.Store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), hostsTime)
	defer cancel()
	for behind := list; len(behind) > 0; {
		calls := make([]slidinglog.Call, len(behind))
		for i, j := range behind {
			calls[i] = j.readCall()
		}
		more := behind[:0:0]
		for i, out := range r.config.Store.Append(ctx, calls) {
			j := behind[i]
			if !lock(&j.writing) {
				continue
			}
			overtaken := len(out.Tail) > 0 && j.readCall().At != calls[i].At // what was read meanwhile may be less
			if j.receive(nil, calls[i], out) == nil && (out.More || overtaken) {
				more = append(more, j)
			}
			j.writing.Unlock()
		}
		behind = more
	}
	for _, j := range list {
		if j.isFresh() {
			_, _ = j.decide(ctx, nil, nil)
		}
		r.inquire(j)
	}
}

func (j *jobControl) readCall() slidinglog.Call {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.hosts.readCall()
}

func (j *jobControl) isFresh() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.hosts.fresh
}
