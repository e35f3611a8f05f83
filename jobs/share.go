package jobs

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// A RecordStore keeps small values for all hosts, each until 400 days after it was written last. It has
// a clock of its own. Any number of goroutines may use it at the same time. An error is a
// quota.ErrUnavailable if nothing was written, and a quota.ErrOutcomeUnknown if something may have been,
// or may still be.
type RecordStore interface {
	// ReadRecords returns the values of keys, empty where there is none, and when each was read; the zero
	// time for one that could not be read. Then err says why.
	ReadRecords(ctx context.Context, keys []string) (values [][]byte, clocks []time.Time, err error)
	// SwapRecord writes the values of all keys if the first key still has the value that was read, and if the
	// clock is not past notAfter. Else it returns what that key has. All keys have the same hash tag.
	SwapRecord(ctx context.Context, keys []string, read []byte, values [][]byte, notAfter time.Time) (swapped bool, found []byte, clock time.Time, err error)
}

// A share is what a host has of the record of one job. Each method with a context calls the store; no
// lock is held then.
type share struct {
	store RecordStore
	name  string                   // of the job
	host  func() (id, name string) // of this host; the id may change
	now   func() time.Time         // monotonic
	sleep func(context.Context, time.Duration) bool
	draw  func() string // a random text

	mu       sync.Mutex // guards what follows
	schedule Schedule
	lease    time.Duration
	digest   string
	seen     reading
	known    sharedRecord // what was read, with what this host knew before
	marks    map[regions.Region]bookmark
	restored time.Time // the loss after which this host has put back its bookmarks
	run      string    // that is under way here
	begins   []string  // that are being claimed
	drawn    []string  // the last runs that this host has tried to claim, and gave up
	owed     *owed
	watch    watch
	died     []sharedRun // to be reported
	kept     int64       // Seq of what changed returned last
	unkept   map[regions.Region]bookmark
	differs  string // the name of a host with another plan
}

// A reading is what the store had.
type reading struct {
	value  []byte
	record sharedRecord
	clock  time.Time // the store's, when it was read
	sent   time.Time // when that was asked, by this host's clock,
	at     time.Time // and when it was answered
	number int       // counts readings
	err    error     // why the value cannot be understood
}

// estimate is the store's clock at now. It is not ahead: nothing is done early.
func (r *reading) estimate(now time.Time) time.Time {
	return r.clock.Add(now.Sub(r.at)).Truncate(time.Millisecond)
}

// local is an instant of the store's clock by this host's. It is not late: a lease ends here before it ends for others.
func (r *reading) local(clock time.Time) time.Time { return r.sent.Add(clock.Sub(r.clock)) }

// An owed end is that of this host's last run, which the hosts may not know of. If its daemon was killed, the run
// dies as that of another host does: a copy of this host's directory says that it died, too.
type owed struct {
	sharedProgress
	last sharedRun
	good bool
}

// A watch is since when a run of another host has not been renewed, though its lease is over: silence of
// the store does not count, so a failed read begins it again, and so do readings that are far apart.
type watch struct {
	run          string
	beat         int64
	clock, local time.Time // of its first reading,
	last         time.Time // and of its last one
	silent       bool      // another reading was late enough
}

const (
	swapTime      = time.Second     // how long a swap may take to be carried out
	changeTime    = 2 * time.Second // how long a change is tried
	idleTime      = 10 * time.Second
	longestHold   = time.Minute
	leastHold     = 5 * time.Second
	keepDrawn     = 64
	maxSharedNote = 512 // bytes
	marksAtOnce   = 64  // bookmarks that are put back, of up to 4 KiB each
)

func newShare(store RecordStore, name string, host func() (id, name string)) *share {
	return &share{
		store: store, name: name, host: host, now: time.Now, sleep: quota.Sleep, draw: rand.Text,
		schedule: Unscheduled{}, lease: longestHold,
		marks: map[regions.Region]bookmark{}, unkept: map[regions.Region]bookmark{},
	}
}

// recall restores what this host knew before it was started. Last is the end of the run that it began last; nil:
// there was none.
func (s *share) recall(known sharedRecord, marks map[regions.Region]bookmark, last *owed) {
	s.known, s.kept, s.owed = known, known.Seq, last
	maps.Copy(s.marks, marks)
}

// define has the share follow the job's definition.
func (s *share) define(job *Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.schedule, s.lease = job.Schedule, holdTime(job.Schedule)
	digest := sha256.New()
	_ = json.NewEncoder(digest).Encode([]any{job.Schedule.String(), job.Regions, job.Expects})
	s.digest = hex.EncodeToString(digest.Sum(nil)[:8])
}

// holdTime is how long a run holds its job after each renewal: at most half of the shortest time between two slots.
func holdTime(s Schedule) time.Duration {
	return max(leastHold, min(longestHold, shortestPeriod(s)/2))
}

func (s *share) key() string                          { return "{job:" + s.name + "}" }
func (s *share) markKey(region regions.Region) string { return s.key() + ":mark:" + string(region) }

// renewTime is how often a lease is renewed: between two readings of a host that watches it, also if an answer is lost.
func (s *share) renewTime() time.Duration { return s.claimant().lease / 6 }

// again is how long to wait between two attempts: a living host renews a lease several times while another one
// watches it.
func (s *share) again() time.Duration { return s.claimant().lease / 12 }

// note records what was read, unless something else was read since it was asked.
func (s *share) note(value []byte, clock, sent time.Time, number int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen.number != number {
		return false
	}
	found, err := s.seen.record, s.seen.err
	if number == 0 || !bytes.Equal(value, s.seen.value) {
		found, err = decodeShared(value)
	}
	s.seen = reading{value, found, clock, sent, s.now(), number + 1, err}
	if err != nil {
		return true
	}
	mine := s.known.Run.Is
	if found.join(&s.known, clock) {
		found.Lost.set(clock, clock)
		if mine.ID != "" && mine.ID == s.run && found.Run.Is.ID == "" && found.Last.Is.ID != mine.ID {
			found.Run.set(clock, mine) // the run that has ended meanwhile is one of an older copy
		}
	}
	s.known = found
	s.observe(clock)
	id, _ := s.host()
	if plan := s.known.Plan.Is; plan.Host != "" && plan.Host != id {
		s.differs = ""
		if plan.Digest != s.digest {
			s.differs = plan.Name
		}
	}
	return true
}

// observe watches the run of another host whose lease is over. The caller holds mu.
func (s *share) observe(clock time.Time) {
	held := s.known.Run.Is
	over := !clock.Before(held.Until) || held.Until.After(clock.Add(longestHold))
	switch {
	case held.ID == "" || !over:
		s.watch = watch{}
	case s.watch.run != held.ID || s.watch.beat != held.Beat || clock.Before(s.watch.clock), s.now().Sub(s.watch.last) > s.lease/5: // the store may have been silent since
		s.watch = watch{run: held.ID, beat: held.Beat, clock: clock, local: s.now(), last: s.now()}
	default:
		s.watch.last = s.now()
		s.watch.silent = clock.Sub(s.watch.clock) >= s.lease/3 && s.now().Sub(s.watch.local) >= s.lease/3
	}
}

// tidied returns what is known without a run that is over: one of this host whose end could not be written, or that
// it gave up; or that of a host that is silent, which died. The caller holds mu.
func (s *share) tidied() (r sharedRecord, died bool) {
	r = s.known
	id := r.Run.Is.ID
	own := s.owed != nil && s.owed.last.ID == id
	switch {
	case id == "" || id == s.run || slices.Contains(s.begins, id):
	case own && s.owed.last.Why != Died:
		_ = r.end(s.owed.sharedProgress, s.owed.last, s.owed.good, s.seen.clock)
	case slices.Contains(s.drawn, id):
		r.Run.set(s.seen.clock, holding{})
	case s.watch.silent:
		r.free(s.seen.clock)
		if own {
			r.Turn.set(s.seen.clock, s.owed.Turn)
		}
		return r, true
	}
	return r, false
}

// read reads the record, and other keys of the job.
func (s *share) read(ctx context.Context, others ...string) (values [][]byte, err error) {
	for {
		s.mu.Lock()
		number, sent := s.seen.number, s.now()
		s.mu.Unlock()
		values, clocks, err := s.store.ReadRecords(ctx, append([]string{s.key()}, others...))
		if err != nil {
			s.failed()
			return nil, err
		}
		if s.note(values[0], clocks[0], sent, number) {
			return values, nil
		}
	}
}

// failed begins the watch over a silent host again.
func (s *share) failed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch = watch{}
}

var errChanged = fmt.Errorf("%w: the record of a job changes too fast", quota.ErrUnavailable)

// change replaces the record by what a function makes of it, which may be called several times. An error
// of the function changes nothing, and is final only if the record was read in this call. What the
// store has lost, and what is over, is written in any case.
func (s *share) change(ctx context.Context, how func(r *sharedRecord, clock time.Time) error) error {
	fresh := false
	for began := s.now(); s.now().Sub(began) <= changeTime; fresh = true {
		s.mu.Lock()
		seen := s.seen
		base, died := s.tidied()
		s.mu.Unlock()
		r, clock := base, seen.estimate(s.now())
		err := seen.err
		if err == nil && seen.number > 0 {
			if err = how(&r, clock); err != nil {
				r = base
			}
		}
		same := seen.err != nil || len(r.marks) == 0 && bytes.Equal(r.encode(), seen.value)
		switch {
		case !fresh && (seen.number == 0 || err != nil || same):
			if _, err := s.read(ctx); err != nil {
				return err
			}
			continue
		case same:
			return err
		}
		r.Seq, r.Tag = r.Seq+1, s.draw()
		keys, values := []string{s.key()}, [][]byte{r.encode()}
		for region, mark := range r.marks {
			keys, values = append(keys, s.markKey(region)), append(values, encoded(mark))
		}
		landed, failure := s.swap(ctx, seen, keys, values, clock.Add(swapTime))
		switch {
		case failure != nil:
			return failure
		case landed:
			s.mu.Lock()
			defer s.mu.Unlock()
			if died {
				s.died = append(s.died, r.Last.Is)
			}
			s.keep(r.marks)
			return err
		}
	}
	return errChanged
}

// swap replaces what was seen. After a lost answer it finds out what became of it. If it was not replaced, what the
// store has instead is seen now.
func (s *share) swap(ctx context.Context, seen reading, keys []string, values [][]byte, notAfter time.Time) (landed bool, err error) {
	next, sent := values[0], s.now()
	swapped, found, clock, err := s.store.SwapRecord(ctx, keys, seen.value, values, notAfter)
	for err != nil {
		s.failed()
		if !errors.Is(err, quota.ErrOutcomeUnknown) {
			return false, err
		}
		values, err2 := s.read(ctx)
		switch {
		case err2 == nil && bytes.Equal(values[0], next):
			return true, nil
		case err2 == nil && (!bytes.Equal(values[0], seen.value) || s.clock().After(notAfter)):
			return false, nil
		case !s.sleep(ctx, swapTime/8) || s.now().Sub(sent) > changeTime:
			return false, err
		}
	}
	if swapped {
		found = next
	}
	if !s.note(found, clock, sent, seen.number) { // something else was read meanwhile, perhaps before
		_, _ = s.read(ctx)
	}
	return swapped, nil
}

// clock is the store's when it was read last.
func (s *share) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.clock
}

// claim claims a slot, or for an operator only the job. It waits for the store's clock, and until the
// slot's period is over for a run on another host. After an error nothing is known to be claimed; it may be
// called again with the same run.
func (s *share) claim(ctx context.Context, c *claim) (result claimed, err error) {
	s.mu.Lock()
	s.begins = append(s.begins, c.Run)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.begins = slices.DeleteFunc(s.begins, func(run string) bool { return run == c.Run })
		if s.run != c.Run {
			s.drawn = append(s.drawn, c.Run)[max(0, len(s.drawn)+1-keepDrawn):]
		}
	}()
	for {
		_, err := s.read(ctx)
		if err == nil {
			err = s.change(ctx, func(r *sharedRecord, clock time.Time) (err error) {
				result, err = r.claim(c, s.claimant(), clock)
				return err
			})
		}
		if wait, is := errors.AsType[*notYet](err); is {
			pause := s.again()
			if !wait.at.IsZero() {
				pause = min(wait.at.Sub(s.clock()), idleTime)
			}
			if s.sleep(ctx, pause) {
				continue
			}
			err = fmt.Errorf("%w: %v", quota.ErrUnavailable, err)
		}
		if err == nil && result.Skipped == "" {
			s.mu.Lock()
			s.run = c.Run
			s.mu.Unlock()
		}
		return result, err
	}
}

func (s *share) claimant() claimant {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, name := s.host()
	return claimant{id, name, s.run, s.schedule, s.lease, s.digest}
}

// renew extends the lease of the run under way.
func (s *share) renew(ctx context.Context, run string, p sharedProgress) error {
	lease := s.claimant().lease
	return s.change(ctx, func(r *sharedRecord, clock time.Time) error { return r.renew(run, p, lease, clock) })
}

// mayLaunch reports whether a run holds the job, and its lease is not over.
func (s *share) mayLaunch(run string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.known.Run.Is
	left := min(s.seen.local(held.Until).Sub(s.now()), s.lease-s.now().Sub(s.seen.sent))
	return held.ID == run && left > 0
}

// end ends the run under way. After an error, settle is to be called until it returns none; the job may be
// claimed meanwhile.
func (s *share) end(ctx context.Context, p sharedProgress, last sharedRun, good bool) error {
	s.mu.Lock()
	s.run, s.owed = "", &owed{p, last, good}
	s.mu.Unlock()
	return s.settle(ctx)
}

// settle writes what the store has lost, and what is over.
func (s *share) settle(ctx context.Context) error {
	return s.change(ctx, func(*sharedRecord, time.Time) error { return nil })
}

// pause keeps the schedule from running the job, for a time or, if length is 0, until resume.
func (s *share) pause(ctx context.Context, by, note string, length time.Duration) error {
	return s.change(ctx, func(r *sharedRecord, clock time.Time) error {
		p := &Pause{Since: clock, By: by, Note: strings.ToValidUTF8(note[:min(len(note), maxSharedNote)], "")}
		if length > 0 {
			p.Until = clock.Add(length)
		}
		r.pause(p, clock)
		return nil
	})
}

func (s *share) resume(ctx context.Context) error {
	return s.change(ctx, func(r *sharedRecord, clock time.Time) error { r.pause(nil, clock); return nil })
}

// move sets where the next run begins. The error is ErrUnderWay while a run is.
func (s *share) move(ctx context.Context, cursor regions.Cursor) error {
	return s.change(ctx, func(r *sharedRecord, clock time.Time) error { return r.move(cursor, clock) })
}

// setMark replaces the bookmark of a region; no text removes it. With a run, which is that of the pass that
// leaves it, the job is to be held by that run.
func (s *share) setMark(ctx context.Context, region regions.Region, run, text string) error {
	return s.change(ctx, func(r *sharedRecord, clock time.Time) error {
		if run != "" && r.Run.Is.ID != run {
			return errTakenOver
		}
		if run != "" {
			r.Run.Is.Beat++
		}
		r.mark(region, text, clock)
		return nil
	})
}

// readMarks returns the bookmarks of regions. What the store has lost of them is put back.
func (s *share) readMarks(ctx context.Context, list ...regions.Region) (marks map[regions.Region]bookmark, err error) {
	keys := []string{}
	for _, region := range list {
		keys = append(keys, s.markKey(region))
	}
	for began := s.now(); ; {
		values, err := s.read(ctx, keys...)
		if err != nil {
			return nil, err
		}
		marks, lost := s.joinMarks(list, values[1:])
		if len(lost) == 0 {
			return marks, nil
		}
		seen, _ := decodeShared(values[0])
		err = s.change(ctx, func(r *sharedRecord, _ time.Time) error {
			if r.Tag != seen.Tag { // another bookmark may have been written
				return errChanged
			}
			r.marks = lost
			return nil
		})
		if !errors.Is(err, errChanged) || s.now().Sub(began) > changeTime {
			return marks, err
		}
	}
}

// joinMarks returns the bookmarks that the store has or this host knows, whichever were set later, and those of
// them that the store lacks. One that is damaged is none.
func (s *share) joinMarks(list []regions.Region, values [][]byte) (all, lost map[regions.Region]bookmark) {
	all, lost = map[regions.Region]bookmark{}, map[regions.Region]bookmark{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, region := range list {
		var found bookmark
		_ = json.Unmarshal(values[i], &found)
		if known := s.marks[region]; isLater(known.At, found.At, s.seen.clock) {
			found, lost[region] = known, known
		}
		all[region] = found
	}
	s.keep(all)
	return all, lost
}

// keep records bookmarks that the store has. The caller holds mu.
func (s *share) keep(marks map[regions.Region]bookmark) {
	for region, mark := range marks {
		if known := s.marks[region]; mark != known && !isLater(known.At, mark.At, s.seen.clock) {
			s.marks[region], s.unkept[region] = mark, mark
		}
	}
}

// lookAll reads the records of jobs, and writes to them what was lost and what is over.
func lookAll(ctx context.Context, store RecordStore, list []*share) {
	keys, numbers, sent := make([]string, len(list)), make([]int, len(list)), make([]time.Time, len(list))
	for i, s := range list {
		s.mu.Lock()
		keys[i], numbers[i], sent[i] = s.key(), s.seen.number, s.now()
		s.mu.Unlock()
	}
	values, clocks, _ := store.ReadRecords(ctx, keys)
	for i, s := range list {
		if clocks[i].IsZero() {
			s.failed()
		} else if s.note(values[i], clocks[i], sent[i], numbers[i]) {
			s.look(ctx)
		}
	}
}

// look writes what the record lacks.
func (s *share) look(ctx context.Context) {
	s.mu.Lock()
	r, _ := s.tidied()
	due := s.seen.err == nil && !bytes.Equal(r.encode(), s.seen.value)
	lost := r.Lost.At.After(s.restored)
	marked := slices.Collect(maps.Keys(s.marks))
	s.mu.Unlock()
	if due && s.settle(ctx) != nil || !lost {
		return
	}
	for list := range slices.Chunk(marked, marksAtOnce) {
		if _, err := s.readMarks(ctx, list...); err != nil {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restored = quota.Later(s.restored, r.Lost.At)
}

// last returns what was read last, and the name of a host whose schedule, regions or expected calls are others;
// empty: there is none.
func (s *share) last() (seen reading, differs string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen, s.differs
}

// changed returns what the host's file is to have from now on, if that has changed: the record, bookmarks, and the
// runs of silent hosts that this host has ended.
func (s *share) changed() (record *sharedRecord, marks map[regions.Region]bookmark, died []sharedRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known.Seq != s.kept {
		r := s.known
		record, s.kept = &r, r.Seq
	}
	marks, died = s.unkept, s.died
	s.unkept, s.died = map[regions.Region]bookmark{}, nil
	return record, marks, died
}
