package jobs

import (
	"context"
	"fmt"
	"time"

	"quotad/regions"
)

// A Fleet is what several hosts share that run the same jobs: who runs which
// slot, where a job's next run begins, and how its last one went. Nothing in it
// must be given back, so that a host may die at any time, and no host's clock is
// compared with another's. Any number of goroutines may use it at the same time.
// An error means that nobody can tell; then it may be asked again.
type Fleet interface {
	// Claim takes a slot of a job for whoever asks first: of all claimants one is
	// told that it is theirs, whenever they ask until span after the slot, and the
	// same one is told so again. Before is the newest slot that was claimed until
	// now, zero if none is known.
	Claim(ctx context.Context, job, claimant string, slot time.Time, span time.Duration) (mine bool, before time.Time, err error)
	// Hold gives a job to a holder for a time. If another one holds it, left is
	// for how long still, unless that one goes on.
	Hold(ctx context.Context, job, holder string, length time.Duration) (left time.Duration, err error)
	// Save replaces parts of what is shared about a job, the others stay, and has
	// the holder go on for a time, or let go after no time. It is false, and
	// nothing is replaced, if another one has taken the job since. An empty holder
	// replaces parts whoever holds the job.
	Save(ctx context.Context, job, holder string, length time.Duration, parts map[string]string) (held bool, err error)
	// Load returns what is shared about a job, by part, and who holds it now.
	Load(ctx context.Context, job string) (parts map[string]string, holder string, err error)
}

const (
	// fleetTime is how long one question to the fleet may take.
	fleetTime = time.Second
	// claimMargin is for how long a slot may be claimed beyond the time in which
	// somebody wants to: for hosts whose clocks are slow, or who are.
	claimMargin = time.Hour
)

// leaseOf is for how long a run that begins now holds its job at a time: so long
// does the death of its host hold up the next slot, of which the one after it is
// not to know.
func leaseOf(schedule Schedule, now time.Time) time.Duration {
	const shortest, longest = 250 * time.Millisecond, 10 * time.Second
	next := schedule.Next(now)
	if next.IsZero() {
		return longest
	}
	after := schedule.Next(next)
	if after.IsZero() {
		return longest
	}
	return min(max(after.Sub(next)/2, shortest), longest)
}

// spanOf is for how long after a slot somebody may want to claim it: to make up
// for it, or at least until the next one.
func (j *Job) spanOf(slot time.Time) time.Duration {
	span := j.MissedWithin
	if next := j.Schedule.Next(slot); !next.IsZero() {
		span = max(span, next.Sub(slot))
	}
	return span + claimMargin
}

// hold takes a job for a holder, and waits with some patience until nobody else
// has it. The errors are ErrUnderWay and ErrStopping, or the fleet's.
func (r *Runner) hold(ctx context.Context, d *desk, holder string, length, patience time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for pause := length / 128; ; pause = min(2*pause, length/8) {
		left, err := r.askToHold(ctx, d, holder, length)
		if err != nil || left == 0 {
			return err
		}
		if sleep(waiting, min(left, pause)) {
			continue
		}
		if ctx.Err() != nil {
			return ErrStopping
		}
		if w := d.underWay(); w != nil {
			return fmt.Errorf("%w: %s", ErrUnderWay, w.id)
		}
		return fmt.Errorf("%w on another host", ErrUnderWay)
	}
}

func (r *Runner) askToHold(ctx context.Context, d *desk, holder string, length time.Duration) (left time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, fleetTime)
	defer cancel()
	return r.config.Fleet.Hold(ctx, d.name, holder, length)
}

// save tells the fleet. It is not cut short: what must be known elsewhere is told
// also while the daemon stops.
func (r *Runner) save(d *desk, holder string, length time.Duration, parts map[string]string) (held bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), fleetTime)
	defer cancel()
	return r.config.Fleet.Save(ctx, d.name, holder, length, parts)
}

// letGo gives a job back for which nothing is to be told. That it fails is no
// trouble: the hold ends by itself.
func (r *Runner) letGo(d *desk, holder string) {
	_, _ = r.save(d, holder, 0, nil)
}

// refresh takes in what other hosts have told about a job since, after telling
// what they could not be told before.
func (r *Runner) refresh(ctx context.Context, d *desk) error {
	if r.config.Fleet == nil {
		return nil
	}
	if err := r.tellRest(d); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, fleetTime)
	defer cancel()
	parts, holder, err := r.config.Fleet.Load(ctx, d.name)
	if err != nil {
		return err
	}
	forgotten, err := d.adopt(parts, holder)
	r.trouble(d.name, err)
	if len(forgotten) == 0 {
		return nil
	}
	_, err = r.save(d, "", 0, forgotten)
	return err
}

// refreshAll is refresh for a look at several jobs. What cannot be found out is
// shown as this host knows it.
func (r *Runner) refreshAll(desks []*desk) {
	for _, d := range desks {
		if r.refresh(context.Background(), d) != nil {
			return
		}
	}
}

// tellRest tells how the last run of this host ended, if the others do not know.
func (r *Runner) tellRest(d *desk) error {
	holder, parts, err := d.untold()
	if holder == "" || err != nil {
		return err
	}
	if _, err := r.save(d, holder, 0, parts); err != nil {
		return err
	}
	d.told(holder)
	return nil
}

// tellSkips tells of the ticks that this host skipped. That it fails is no trouble:
// they are in its own history.
func (r *Runner) tellSkips(d *desk, skips Run) {
	parts := map[string]string{}
	if encode(parts, skipsPart+r.config.Host, skips.outline()) == nil {
		_, _ = r.save(d, "", 0, parts)
	}
}

// shareCursor tells the cursor, for which it holds the job, so that it disturbs no
// run.
func (r *Runner) shareCursor(d *desk, region regions.Region) error {
	const length = 2 * fleetTime
	holder := NewRunID(r.now())
	if err := r.hold(context.Background(), d, holder, length, 0); err != nil {
		return err
	}
	parts := map[string]string{}
	if err := encode(parts, turnPart, turn{Cursor: regions.Cursor(region)}); err != nil {
		return err
	}
	_, err := r.save(d, holder, 0, parts)
	return err
}

func (r *Runner) sharePause(d *desk, p *Pause) error {
	parts := map[string]string{}
	if err := encode(parts, pausePart, p); err != nil {
		return err
	}
	_, err := r.save(d, "", 0, parts)
	return err
}
