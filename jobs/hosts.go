package jobs

import (
	"context"
	"time"
)

// Hosts is what the hosts that run the same jobs share about them: who runs which
// slot, who runs a job now, where its next run begins, and what became of its runs.
// Nothing in it must be given back, so that a host may die at any time, and no host's
// clock is compared with another's. Any number of goroutines may use it at the same
// time. An error means that nobody can tell; then it may be asked again.
type Hosts interface {
	// Claim takes a slot of a job for whoever asks first: of all claimants one is
	// told that it is theirs, whenever they ask until span after the slot, and the
	// same one is told so again. With a line, it is only theirs while they hold the
	// job, and the line is added to what became of the job's runs in the same moment.
	// Before is the newest slot that was claimed until now, zero if none is known.
	Claim(ctx context.Context, job, claimant string, slot time.Time, span time.Duration, line string) (mine bool, before time.Time, err error)

	// Lock gives a job to a holder for a time. If another one holds it, left is for
	// how long still, unless that one goes on. A lock that was not given back in time
	// is first watched: then lapsed names it, and the job is given to who names it
	// again, unless its holder has come back meanwhile. If it is for a slot, not zero,
	// that somebody else has claimed, the job is not given, and taken is true.
	Lock(ctx context.Context, job, holder string, length time.Duration, watched string, slot time.Time) (left time.Duration, lapsed string, taken bool, err error)

	// Append adds lines to what became of the job's runs. It replaces parts of what is
	// shared about the job, and has the holder keep the lock for a time, or give it
	// back after no time: unless another one has taken the job since, then only the
	// lines are added, and held is false. An empty holder replaces parts whoever holds
	// the job.
	Append(ctx context.Context, job, holder string, length time.Duration, parts map[string]string, lines []string) (held bool, err error)

	// Load returns what is shared about a job, by part, and the lines that were added
	// behind the one named after, of which last is the name of the last. It returns as
	// well who holds the job now, and it writes nothing.
	Load(ctx context.Context, job, after string) (parts map[string]string, holder string, lines []string, last string, err error)
}

// alone is Hosts where no other host runs the jobs.
type alone struct{}

var _ Hosts = alone{}

func (alone) Claim(context.Context, string, string, time.Time, time.Duration, string) (bool, time.Time, error) {
	return true, time.Time{}, nil
}

func (alone) Lock(context.Context, string, string, time.Duration, string, time.Time) (time.Duration, string, bool, error) {
	return 0, "", false, nil
}

func (alone) Append(context.Context, string, string, time.Duration, map[string]string, []string) (bool, error) {
	return true, nil
}

func (alone) Load(context.Context, string, string) (map[string]string, string, []string, string, error) {
	return nil, "", nil, "", nil
}

const (
	// hostsTime is how long one question to the hosts may take.
	hostsTime = time.Second
	// claimMargin is for how long a slot may be claimed beyond the time in which
	// somebody wants to: for hosts whose clocks are slow, or who are.
	claimMargin = time.Hour
)

// lockTime is for how long a run that begins now locks its job at a time: so long
// does the death of its host hold up the next slot, of which the one after it is
// not to know. With the time for which a lapsed lock is watched it ends within ten
// seconds.
func lockTime(schedule Schedule, now time.Time) time.Duration {
	const shortest, longest = 250 * time.Millisecond, 7 * time.Second
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

// renewal is how often a lock is renewed, and watchTime for how long one that has
// lapsed is watched: its holder, who was cut off like everybody, comes back first.
func renewal(length time.Duration) time.Duration   { return length / 4 }
func watchTime(length time.Duration) time.Duration { return length / 3 }

// spanOf is for how long after a slot somebody may want to claim it: to make up
// for it, or at least until the next one.
func (j *Job) spanOf(slot time.Time) time.Duration {
	span := j.MissedWithin
	if next := j.Schedule.Next(slot); !next.IsZero() {
		span = max(span, next.Sub(slot))
	}
	return span + claimMargin
}
