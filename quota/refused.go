package quota

import "time"

// refusedFor bounds how long a refusal may be answered from memory: what other
// hosts give back is heard of no later.
const refusedFor = time.Second

// maxRefused bounds how many different refusals a lane remembers.
const maxRefused = 256

// A refusedKey is what a refusal depends on: a request of the same operation,
// count and rights would be refused alike. The request id belongs to it unless it
// is fresh, because another id may have been granted before.
type refusedKey struct {
	operation  string
	count      Units
	useReserve bool
	key        string
}

func keyOf(ask Ask) refusedKey {
	k := refusedKey{operation: ask.Operation, count: ask.Count, useReserve: ask.UseReserve}
	if !ask.Fresh {
		k.key = ask.Key()
	}
	return k
}

// A refusals remembers denials that cannot change before a known time unless
// something is given back. The lane's lock guards it.
type refusals struct {
	generation int // counts the reasons to forget
	byKey      map[refusedKey]refusal
}

type refusal struct {
	decision Decision
	begun    time.Time // when the call that was refused began: it is as stale as that
	heard    time.Time // when its answer came: from then on its caller waits
}

// find returns a remembered refusal as it reads now.
func (r *refusals) find(ask Ask, now time.Time) (Decision, bool) {
	if len(r.byKey) == 0 || ask.Peek {
		return Decision{}, false
	}
	found, ok := r.byKey[keyOf(ask)]
	if !ok {
		return Decision{}, false
	}
	d := found.decision
	d.RetryAfter -= now.Sub(found.heard).Truncate(time.Millisecond)
	if now.Sub(found.begun) >= refusedFor || d.RetryAfter <= 0 {
		return Decision{}, false
	}
	return d, true
}

// learn takes in what a call decided that was begun at a time, in a generation.
func (r *refusals) learn(batch []*waiter, decisions []Decision, begun time.Time, generation int) {
	for _, d := range decisions {
		if d.GrantID != "" && !d.Replayed {
			r.forget()
			return
		}
	}
	if r.generation != generation {
		return
	}
	for i, d := range decisions {
		if d.Reason != LimitExceeded || batch[i].ask.Peek {
			continue
		}
		if r.byKey == nil || len(r.byKey) >= maxRefused {
			r.byKey = make(map[refusedKey]refusal)
		}
		r.byKey[keyOf(batch[i].ask)] = refusal{decision: d, begun: begun, heard: time.Now()}
	}
}

// forget drops every refusal, also those of calls that are in flight.
func (r *refusals) forget() {
	r.generation++
	r.byKey = nil
}
