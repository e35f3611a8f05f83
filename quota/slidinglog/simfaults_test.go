package slidinglog_test

import (
	"bytes"
	"math"
	"slices"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
)

// strike does to the world what may happen to it.
func (w *world) strike() {
	w.counts.faults++
	alive := w.alive()
	var h *simHost
	if len(alive) > 0 {
		h = alive[w.rand.IntN(len(alive))]
	}
	n := w.rand.IntN(24)
	switch {
	case w.odd != nil && !w.damaged && w.odd.IntN(60) == 0:
		w.damage()
		return
	case w.odd != nil && w.temper == ages && w.mixed && w.odd.IntN(5) == 0: // so a host has a longer window than the log
		n = 21
	case w.odd != nil && w.temper == resets && w.odd.IntN(3) == 0: // so a reset finds the log ahead of the clock
		n = 17
	case w.temper == outages && n < 9:
		n = 15 + n%2
	case w.temper == ages && (w.rand.IntN(4) == 0 || w.odd != nil && w.odd.IntN(4) == 0):
		most := int64(40_000)
		if w.mixed || w.odd != nil { // the store drops what says that it has dropped others
			most = 130_000
		}
		w.now += w.rand.Int64N(most)
		w.say("time passes")
		return
	}
	switch {
	case n < 3:
		w.say("flush")
		w.losing()
		w.store.Flush("api")
		w.lookForDamage()
		if w.temper == far && len(w.hosts) < 4 { // and a host comes that knows nothing, and is near
			w.counts.newHosts++
			near := w.addHost(ledgertest.NewMemFile())
			near.trip = 3
			w.say("%s is new", near.name)
		}
	case n < 5 && len(w.past) > 0:
		back := 1 + w.rand.IntN(min(len(w.past), 6))
		w.say("restore an older copy, of %d before", back)
		w.losing()
		w.store.Restore(w.past[len(w.past)-back])
		w.lookForDamage()
	case n < 7:
		n := 1 + w.rand.IntN(4)
		w.say("failover loses %d", n)
		w.losing()
		w.store.DropLast(n)
		w.lookForDamage()
		if step := w.rand.Int64N(600) - 500; w.grain == 1 {
			w.offset += step
		}
	case n < 9:
		if !w.damaged {
			w.past = append(w.past, w.store.Snapshot())
		}
	case h == nil:
		w.revive()
	case n < 12:
		w.counts.freezes++
		h.frozen = w.now + w.rand.Int64N(5000)
		w.say("freeze %s until %d", h.name, h.frozen%1_000_000)
	case n < 14:
		w.counts.kills++
		w.say("kill %s", h.name)
		w.oracle.killed(h)
		h.end(false)
		h.begin()
	case n == 14:
		w.counts.crashes++
		w.say("the machine of %s crashes", h.name)
		w.oracle.crashed(h)
		h.end(true)
		h.begin()
	case n == 15:
		w.counts.cuts++
		h.cutUntil = w.now + w.rand.Int64N(4000)
		w.say("cut off %s until %d", h.name, h.cutUntil%1_000_000)
	case n == 16:
		w.counts.cuts++
		for _, h := range alive {
			h.cutUntil = w.now + w.rand.Int64N(2500)
		}
		w.say("cut off all")
	case n == 17:
		w.counts.clocks++
		by := []int64{1000, -1000, 3000, -3000}[w.rand.IntN(4)]
		if w.temper == ages {
			by *= 8
		}
		w.say("the store's clock steps by %d", by)
		w.offset += by
	case n == 18 && len(w.hosts) < 6:
		w.counts.newHosts++
		if file := h.file.Clone(); w.rand.IntN(3) == 0 && len(h.does) == 0 {
			w.counts.clones++
			w.oracle.twins[h.ledger.Host()] = true
			clone := w.addHost(file)
			clone.hasRead, clone.readAll = h.hasRead, h.hasRead
			w.say("%s is a clone of %s", clone.name, h.name)
		} else {
			w.say("%s is new", w.addHost(ledgertest.NewMemFile()).name)
		}
	case n == 19:
		w.counts.lostFiles++
		w.say("%s loses its file", h.name)
		w.oracle.lostFile(h)
		h.end(false)
		h.file, h.hasRead = ledgertest.NewMemFile(), false
		h.begin()
	case n >= 22 && h.older == nil:
		h.older, h.olderAt, h.olderSaved, h.olderRead = h.file.Clone(), w.now, h.saved, h.hasRead
	case n >= 22:
		w.counts.olderFiles++
		w.say("%s gets an older copy of its file", h.name)
		w.oracle.olderFile(h)
		h.end(false)
		h.file, h.saved, h.hasRead = h.older.Clone(), h.olderSaved, h.olderRead
		h.begin()
	case n == 20:
		w.counts.fullDisks++
		h.fullUntil = w.now + w.rand.Int64N(3000)
		w.say("the disk of %s is full until %d", h.name, h.fullUntil%1_000_000)
	case n == 21:
		w.counts.reloads++
		h.had, h.c = append(h.had, h.c), w.configured()
		if w.rand.IntN(2) == 0 {
			h.c.Limits[1].Units = 20
		}
		if w.odd != nil && w.odd.IntN(3) == 0 {
			h.c.Operations["seven"] = quota.Cost{Every: 5}
			h.c = h.c.Prepared()
		}
		w.say("%s reads its configuration again", h.name)
		if err := h.ledger.SetCredentials(h.creds(), simPolicies()); err != nil {
			w.fail("reload: %v", err)
		}
	}
}

// foreign is a record that no host can read.
var foreign = []byte("no record of quotad")

// lookForDamage records whether the log still has such a record.
func (w *world) lookForDamage() {
	w.damaged = slices.ContainsFunc(w.store.Records("api"), func(p slidinglog.Placed) bool { return bytes.Equal(p.Body, foreign) })
}

// damage has a record at the end of the log that no host can read: a program that is no quotad wrote it.
func (w *world) damage() {
	w.say("a foreign record")
	w.damaged, w.repairAt = true, w.now+w.odd.Int64N(3000)
	w.store.Do(&slidinglog.Call{Credential: "api", Body: foreign, NotAfter: math.MaxInt64, Keep: quota.LongestWindow, Blind: true})
}

// repair removes a log that no host can read, so that they put back what they have of it.
func (w *world) repair() {
	w.say("the log is removed")
	w.losing()
	w.store.Flush("api")
	w.lookForDamage()
}

// losing notes that the store loses records.
func (w *world) losing() {
	w.oracle.trimmed = nil
	w.counts.losses++
	w.oracle.losing()
}

func (w *world) alive() (alive []*simHost) {
	for _, h := range w.hosts {
		if !h.gone && h.ledger != nil {
			alive = append(alive, h)
		}
	}
	return alive
}

func (w *world) revive() {
	for _, h := range w.hosts {
		if !h.gone && h.ledger == nil {
			h.begin()
		}
	}
}

// heal ends all faults.
func (w *world) heal() {
	w.say("peace")
	w.peace = true
	for _, call := range w.late {
		w.carryOut(nil, call.c, call.calls)
	}
	w.late = nil
	if w.damaged {
		w.repair()
	}
	w.offset = max(w.offset, -1000)
	for _, h := range w.hosts {
		h.frozen, h.cutUntil, h.fullUntil = 0, 0, 0
	}
	w.revive()
}
