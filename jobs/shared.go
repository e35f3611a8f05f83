package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"quotad/quota"
	"quotad/regions"
)

// A sharedRecord is what the hosts of a job decide together. A store keeps it as one small value, which a
// host replaces only if it is still the one that the host has read. Every time in it is of the store's
// clock. What follows changes a record in memory; a share has it replaced.
type sharedRecord struct {
	Version int                   `json:"v"`
	Seq     int64                 `json:"seq"` // each swap raises it,
	Tag     string                `json:"tag"` // and draws another one
	Slot    dated[slotTaken]      `json:"slot,omitzero"`
	Run     dated[holding]        `json:"run,omitzero"`
	Plan    dated[hostPlan]       `json:"plan,omitzero"`
	Paused  dated[*Pause]         `json:"paused,omitzero"` // a resume is a value, too
	Turn    dated[turn]           `json:"turn,omitzero"`
	Good    dated[time.Time]      `json:"good,omitzero"` // when the last good run ended, or the job was resumed
	Bad     dated[[]Failing]      `json:"bad,omitzero"`
	Last    dated[sharedRun]      `json:"last,omitzero"`
	Marked  dated[regions.Region] `json:"marked,omitzero"` // whose bookmark was written last
	Lost    dated[time.Time]      `json:"lost,omitzero"`   // when a host saw that the store had lost what it knew

	marks map[regions.Region]bookmark // that are written with it
}

// A dated is a field with the time at which it was set. Of two values the one that was set later counts.
type dated[T any] struct {
	At time.Time `json:"at"`
	Is T         `json:"is,omitzero"`
}

// isLater reports whether what a host knew was set later than what the store has. What lies too far ahead of the
// clock was set while that was wrong: it hides nothing that was not.
func isLater(known, found, clock time.Time) bool {
	ahead := clock.Add(claimAhead)
	return known.After(found) && (found.IsZero() || !known.After(ahead) || found.After(ahead))
}

// set replaces a field. Its time passes that of the value before even if the clock was set back.
func (d *dated[T]) set(now time.Time, is T) {
	*d = dated[T]{quota.Later(now, d.At.Add(time.Millisecond)), is}
}

// join reports whether the other value was set later: then that counts.
func (d *dated[T]) join(known dated[T], clock time.Time) bool {
	later := isLater(known.At, d.At, clock)
	if later {
		*d = known
	}
	return later
}

// A slotTaken is the newest slot that a host has claimed, for a run or as one that is skipped.
type slotTaken struct {
	Slot time.Time `json:"slot"`
	Run  string    `json:"run"` // the id that the host drew for it
}

// A holding is the run that holds the job, on one host; no id: none does.
type holding struct {
	ID    string    `json:"id"`
	Host  string    `json:"host"`
	Name  string    `json:"name"` // of the host, for people
	Slot  time.Time `json:"slot,omitzero"`
	Until time.Time `json:"until"` // the end of its lease
	Beat  int64     `json:"beat"`  // its host raises it: other hosts, which skip slots meanwhile, do not
}

// underWay says which run is in the way.
func (h holding) underWay() error { return fmt.Errorf("%w on host %s: %s", ErrUnderWay, h.Name, h.ID) }

// A hostPlan is a digest of a job's schedule, regions and expected calls, by the host that has claimed a slot.
type hostPlan struct {
	Host   string `json:"host"`
	Name   string `json:"name"`
	Digest string `json:"digest"`
}

// A turn is where the next run begins, and how many runs in a row have run dry there.
type turn struct {
	Cursor regions.Cursor `json:"cursor,omitempty"`
	Dry    int            `json:"dry,omitempty"`
}

// A sharedRun is what the hosts know of the run that ended last.
type sharedRun struct {
	ID    string      `json:"id"`
	Host  string      `json:"host"`
	Name  string      `json:"name"`
	Slot  time.Time   `json:"slot,omitzero"`
	State RunState    `json:"state"`
	Why   Reason      `json:"reason,omitempty"`
	OK    int         `json:"ok"` // regions served,
	Of    int         `json:"of"` // of this many
	Units quota.Units `json:"units"`
	Calls Made        `json:"calls,omitempty"` // of a pass, on average
	Ended time.Time   `json:"ended"`
}

const (
	sharedVersion = 1
	maxShared     = 4 << 10 // bytes of a record
	maxSharedBad  = 16      // regions in Bad
	// lossTime is how long no run begins after a loss: by then each host that is up has read the
	// record, and has put back what it knows.
	lossTime = 15 * time.Second
)

var errShared = errors.New("no run begins by schedule until the hosts can read the record of the job")

func decodeShared(value []byte) (r sharedRecord, err error) {
	if len(value) == 0 {
		return r, nil
	}
	switch err := json.Unmarshal(value, &r); {
	case r.Version != 0 && r.Version != sharedVersion:
		return r, fmt.Errorf("%w: %w: it has version %d, this quotad knows %d; run the same version on all hosts", quota.ErrUnavailable, errShared, r.Version, sharedVersion)
	case err != nil || r.Version == 0:
		return r, fmt.Errorf("%w: %w: it is damaged; delete the key, and the hosts put back what they know", quota.ErrUnavailable, errShared)
	}
	return r, nil
}

// encode leaves out what no decision needs rather than exceed maxShared.
func (r sharedRecord) encode() []byte {
	r.Version = sharedVersion
	r.Bad.Is = r.Bad.Is[:min(len(r.Bad.Is), maxSharedBad)]
	for {
		switch value := encoded(r); {
		case len(value) <= maxShared:
			return value
		case r.Last.Is.Calls != nil:
			r.Last.Is.Calls = nil
		case len(r.Bad.Is) > 0:
			r.Bad.Is = r.Bad.Is[:len(r.Bad.Is)-1]
		default:
			return value
		}
	}
}

// join adds to a record that was read what a host knew last, field by field. It reports whether that
// was more: the store has lost it.
func (r *sharedRecord) join(known *sharedRecord, clock time.Time) (lost bool) {
	lost = r.Seq < known.Seq || r.Seq == known.Seq && r.Tag != known.Tag
	r.Seq = max(r.Seq, known.Seq)
	for _, more := range []bool{
		r.Slot.join(known.Slot, clock), r.Run.join(known.Run, clock), r.Plan.join(known.Plan, clock), r.Paused.join(known.Paused, clock), r.Turn.join(known.Turn, clock),
		r.Good.join(known.Good, clock), r.Bad.join(known.Bad, clock), r.Last.join(known.Last, clock), r.Marked.join(known.Marked, clock), r.Lost.join(known.Lost, clock),
	} {
		lost = lost || more
	}
	if r.Run.At.Equal(known.Run.At) && r.Run.Is.ID == known.Run.Is.ID && r.Run.Is.Beat < known.Run.Is.Beat {
		r.Run.Is = known.Run.Is
		lost = true
	}
	return lost
}

// A claim is a host's attempt to begin a run.
type claim struct {
	Run    string    // the id of the run. A claim that is tried again keeps it
	Slot   time.Time // zero: an operator's run, which claims none
	Paused bool      // it begins although the job is paused

	placed bool      // the slot is one by the store's clock
	since  time.Time // the slot that was claimed before this one
}

// A claimed is what became of a claim.
type claimed struct {
	Slot    time.Time // that was claimed
	Since   time.Time // no host claimed a slot between this one and Slot; zero: unknown
	Skipped Reason    // why no run begins, Paused or Overlap; empty: this host holds the job for the run
	Detail  string
	Turn    turn
}

// A notYet is why a claim is to be tried again.
type notYet struct {
	at     time.Time // by the store's clock; zero: soon
	reason string
}

func (e *notYet) Error() string { return e.reason }

// A claimant is the host that claims.
type claimant struct {
	host, name string
	run        string // that is under way on this host; empty: none
	schedule   Schedule
	lease      time.Duration
	digest     string
}

// taken is the newest slot that was claimed; one that lies too far ahead of the clock is none.
func (r *sharedRecord) taken(now time.Time) time.Time {
	if r.Slot.Is.Slot.After(now.Add(claimAhead)) {
		return time.Time{}
	}
	return r.Slot.Is.Slot
}

// place makes the slot one by the store's clock: its latest one or, if this host's clock is ahead, the next one. It
// reports whether there is one.
func (c *claim) place(schedule Schedule, now time.Time) bool {
	switch {
	case c.Slot.IsZero():
		return true
	case c.Slot.After(now):
		c.Slot = schedule.Next(now.Add(-1))
	case !c.placed:
		c.Slot = Latest(schedule, now)
	}
	c.placed = true
	return !c.Slot.IsZero()
}

// late reports whether another slot has come since this one.
func (c *claim) late(schedule Schedule, now time.Time) bool {
	next := schedule.Next(c.Slot)
	return !c.Slot.IsZero() && !next.IsZero() && !now.Before(next)
}

// claim claims a slot, or nothing but the job.
func (r *sharedRecord) claim(c *claim, by claimant, now time.Time) (claimed, error) {
	if !c.place(by.schedule, now) {
		return claimed{}, errClaimed
	}
	again := r.Slot.Is.Run == c.Run
	switch {
	case c.Slot.IsZero(), again:
	case !r.taken(now).Before(c.Slot):
		return claimed{}, errClaimed
	default:
		c.since = r.taken(now)
	}
	held := r.Run.Is
	switch lost := now.Sub(r.Lost.Is); {
	case held.ID == c.Run: // an answer was lost
		return r.begun(c), nil
	case c.Slot.After(now):
		return claimed{}, &notYet{c.Slot, "the slot lies ahead of the clock"}
	case lost >= 0 && lost < lossTime:
		return claimed{}, &notYet{reason: "the hosts put back what the store has lost"}
	case !c.Slot.IsZero() && !c.Paused && r.Paused.Is.Active(now):
		return r.skip(c, now, Paused, ""), nil
	case by.run != "" && by.run != held.ID: // another host has taken the job from it
		held = holding{ID: by.run, Name: by.name}
		fallthrough
	case held.ID != "":
		return r.overlap(c, held, by, now)
	case c.late(by.schedule, now):
		return claimed{}, fmt.Errorf("%w: the next slot has come meanwhile", quota.ErrUnavailable)
	}
	r.Run.set(now, holding{c.Run, by.host, by.name, c.Slot, now.Add(by.lease), 0})
	if r.Plan.Is.Host != by.host || r.Plan.Is.Digest != by.digest {
		r.Plan.set(now, hostPlan{by.host, by.name, by.digest})
	}
	if !c.Slot.IsZero() {
		r.Slot.set(now, slotTaken{c.Slot, c.Run})
	}
	return r.begun(c), nil
}

func (r *sharedRecord) begun(c *claim) claimed {
	return claimed{Slot: c.Slot, Since: c.since, Turn: r.Turn.Is}
}

// overlap waits for the end of a run on another host, within the slot's own period.
func (r *sharedRecord) overlap(c *claim, held holding, by claimant, now time.Time) (claimed, error) {
	switch {
	case c.Slot.IsZero():
		return claimed{}, held.underWay()
	case held.ID == by.run || c.late(by.schedule, now):
		return r.skip(c, now, Overlap, held.underWay().Error()), nil
	}
	return claimed{}, &notYet{reason: held.underWay().Error()}
}

// skip claims a slot without a run.
func (r *sharedRecord) skip(c *claim, now time.Time, why Reason, detail string) claimed {
	r.Slot.set(now, slotTaken{c.Slot, c.Run})
	return claimed{Slot: c.Slot, Since: c.since, Skipped: why, Detail: detail}
}

// A sharedProgress is what a run changes while it is under way.
type sharedProgress struct {
	Turn turn
	Bad  []Failing
	Done []regions.Region // their work is done: the bookmarks that their passes left are dropped
}

// errTakenOver means that the record names another run.
var errTakenOver = errors.New("another host has taken the job")

// renew extends the lease of a run, and records how far it has come.
func (r *sharedRecord) renew(run string, p sharedProgress, lease time.Duration, now time.Time) error {
	if r.Run.Is.ID != run {
		return errTakenOver
	}
	r.Run.Is.Until, r.Run.Is.Beat = now.Add(lease), r.Run.Is.Beat+1
	if r.Turn.Is != p.Turn {
		r.Turn.set(now, p.Turn)
	}
	if len(p.Bad) > 0 || len(r.Bad.Is) > 0 {
		r.Bad.set(now, p.Bad)
	}
	for _, region := range p.Done {
		r.mark(region, "", now)
	}
	return nil
}

// end ends a run.
func (r *sharedRecord) end(p sharedProgress, last sharedRun, good bool, now time.Time) error {
	held := r.Run.Is
	if err := r.renew(last.ID, p, 0, now); err != nil {
		return err
	}
	last.Host, last.Name, last.Slot, last.Ended = held.Host, held.Name, held.Slot, now
	r.Last.set(now, last)
	r.Run.set(now, holding{})
	if good {
		r.Good.set(now, now)
	}
	return nil
}

// free ends the run of a host that is silent.
func (r *sharedRecord) free(now time.Time) {
	h := r.Run.Is
	r.Last.set(now, sharedRun{ID: h.ID, Host: h.Host, Name: h.Name, Slot: h.Slot, State: RunInterrupted, Why: Died, Ended: now})
	r.Run.set(now, holding{})
}

// pause keeps the schedule from running the job; nil ends that.
func (r *sharedRecord) pause(p *Pause, now time.Time) {
	if p == nil && r.Paused.Is != nil { // no good run was expected meanwhile
		r.Good.set(now, now)
	}
	r.Paused.set(now, p)
}

// move sets where the next run begins. A run under way does that itself.
func (r *sharedRecord) move(cursor regions.Cursor, now time.Time) error {
	if r.Run.Is.ID != "" {
		return r.Run.Is.underWay()
	}
	r.Turn.set(now, turn{Cursor: cursor})
	return nil
}

// mark has a bookmark be written; no text removes it. Its time passes that of every one before it.
func (r *sharedRecord) mark(region regions.Region, text string, now time.Time) {
	r.Marked.set(now, region)
	if r.marks == nil {
		r.marks = map[regions.Region]bookmark{}
	}
	r.marks[region] = bookmark{text, r.Marked.At}
}
