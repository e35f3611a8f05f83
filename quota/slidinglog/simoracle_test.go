package slidinglog_test

import (
	"fmt"
	"slices"
	"time"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

// An oracle knows what clients were told and what stands in the log, and adds both up by
// itself, in the simplest way there is.
type oracle struct {
	w          *world
	credential *quota.Credential
	told       []*told // grants
	corrected  []*told
	marked     map[string]quota.ID // corrections that were appended, by who made them
	trimmed    []slidinglog.Placed // records that the store has dropped as too old
	written    map[slidinglog.Position]int64
	runs       map[quota.ID]uint32   // who wrote a grant first
	wrote      map[quota.ID]*simHost // who wrote a grant, and had the answer of the store
	loss       int64                 // when the store lost records last
	reset      int64                 // what is not later than this was voided, in ms
	decoded    map[slidinglog.Position]slidinglog.Record
	missing    map[slidinglog.Position]int64 // when a host wrote that the log lacks records
	unread     map[quota.ID]quota.ID         // grants that were appended behind another one of the same request
	// twins are the names of hosts that were cloned while they ran: until one of the two hears
	// of the other, it speaks for both.
	twins map[slidinglog.HostID]bool
}

func newOracle(w *world) oracle {
	return oracle{w: w, credential: w.credential(), wrote: make(map[quota.ID]*simHost), decoded: make(map[slidinglog.Position]slidinglog.Record),
		missing: make(map[slidinglog.Position]int64), unread: make(map[quota.ID]quota.ID), marked: make(map[string]quota.ID), written: make(map[slidinglog.Position]int64),
		runs: make(map[quota.ID]uint32), twins: make(map[slidinglog.HostID]bool)}
}

func positionOf(p slidinglog.Placed) slidinglog.Position {
	return slidinglog.Position{ID: p.At, Tag: slidinglog.Tag(p.Body)}
}

func (o *oracle) record(p slidinglog.Placed) slidinglog.Record {
	at := positionOf(p)
	if r, ok := o.decoded[at]; ok {
		return r
	}
	r, err := slidinglog.DecodeRecord(p)
	o.decoded[at] = r
	if err != nil {
		o.w.fail("record at %v: %v", p.At, err)
	}
	return r
}

// tell records a grant that a client was told of.
func (o *oracle) tell(t told, replayed bool) {
	if replayed {
		for _, other := range o.told {
			if other.id == t.id {
				return
			}
		}
		t.read = !t.outage
		if writer, known := o.wrote[t.id]; known { // another host answers first with what that one keeps
			t.by, t.read = writer, false
		}
	}
	if other, behind := o.unread[t.id]; behind && !replayed {
		o.w.fail("host %s answers a request by %v, which was granted by %v", t.by.name, t.id, other)
	}
	t.void = t.id.Ms <= o.reset
	o.same(&t)
	o.told = append(o.told, &t)
	if !t.outage || replayed {
		return
	}
	units := quota.Units(0)
	for _, other := range o.told {
		if other.outage && other.by == t.by && !other.void && other.id.Ms > t.id.Ms-o.w.window().Milliseconds() {
			units += other.units
		}
	}
	if units > simAllow {
		o.w.fail("host %s granted %d units of %d in an outage", t.by.name, units, simAllow)
	}
}

// same holds that a request has one grant while the store loses nothing. Two that hosts have appended without having
// read the other's count as one, of which the later one is the answer when the request is repeated.
func (o *oracle) same(t *told) {
	first := func(id quota.ID) quota.ID {
		for before, behind := o.unread[id]; behind; before, behind = o.unread[id] {
			id = before
		}
		return id
	}
	offline := func(id quota.ID) bool { return id.Seq >= 1<<62 }
	if t.key == "" || t.void || o.loss > 0 || offline(t.id) {
		return
	}
	for _, other := range o.told {
		if other.key == t.key && first(other.id) != first(t.id) && !other.void && !offline(other.id) && t.id.Ms-other.id.Ms < o.w.window().Milliseconds() {
			o.w.fail("host %s answers a request by %v, which was answered by %v", t.by.name, t.id, other.id)
		}
	}
}

// all returns the grants and the corrections that clients were told of.
func (o *oracle) all() []*told { return slices.Concat(o.told, o.corrected) }

// losing is called before the store loses records.
func (o *oracle) losing() { o.loss = o.w.now }

// lostFile is called as a host loses its file: what it alone knew is gone.
func (o *oracle) lostFile(h *simHost) {
	for _, t := range o.all() {
		t.void = t.void || t.by == h
	}
}

// olderFile is called as a host gets an older copy of its file: what it alone knew since then is gone. It
// is a clone of what it was: until it notices that, it speaks for both.
func (o *oracle) olderFile(h *simHost) {
	o.twins[h.ledger.Host()] = true
	for _, t := range o.all() {
		t.void = t.void || t.by == h && t.at >= h.olderAt-10
	}
}

// crashed is called as a machine crashes, and with it what was not synced.
func (o *oracle) crashed(h *simHost) {
	for _, t := range o.all() {
		t.soft = t.soft || t.by == h && !t.outage && t.at >= h.saved-10
	}
}

// killed is called as a host is killed. What it wrote stays in its tail; what it read since its
// last fold it reads again, unless the store has lost it by then.
func (o *oracle) killed(h *simHost) {
	for _, t := range o.all() {
		t.soft = t.soft || t.by == h && t.read && t.at >= h.saved-10
	}
}

// A sum is a log as a set of entries.
type sum struct {
	credential *quota.Credential
	records    []slidinglog.Record
	entries    map[quota.ID]quota.Entry
	resets     []quota.Entry
	marks      map[string]bool // who made its settlements

	corrections []quota.Entry
	clock       int64
	quiet       bool
	missing     slidinglog.Position // of the last Missing
	waits       []slidinglog.HostID
	written     map[slidinglog.HostID]int64 // when a host has written last
	here        []slidinglog.HostID
}

// sum adds up a log.
func (o *oracle) sum(log []slidinglog.Placed) sum {
	s := sum{credential: o.credential, entries: make(map[quota.ID]quota.Entry), written: make(map[slidinglog.HostID]int64), marks: make(map[string]bool)}
	for _, p := range log {
		r := o.record(p)
		s.clock = p.At.Ms
		s.records = append(s.records, r)
		s.written[r.Host] = max(s.written[r.Host], o.written[positionOf(p)])
		for _, e := range r.Entries {
			if e.Gen == quota.Unplaced {
				e.Gen = r.Gen
			}
			if was, ok := s.entries[e.ID]; ok {
				e.Gen = was.Gen // that of its first place
			}
			s.entries[e.ID] = e
			if e.Kind() == quota.KindSettlement {
				s.marks[e.By] = true
			}
			if e.Kind() == quota.KindReset {
				s.resets = append(s.resets, e)
			}
		}
		if r.Says != nil {
			s.hear(r, positionOf(p))
		}
	}
	return s
}

// has reports whether the log has what a client was told of. A settlement may be made twice, because
// the host does not know of the first time.
func (s *sum) has(t *told) bool {
	_, there := s.entries[t.id]
	return there || s.marks[t.mark]
}

func (s *sum) hear(r slidinglog.Record, at slidinglog.Position) {
	switch r.Says.Kind {
	case slidinglog.LossFound:
		if at.ID.Ms-s.missing.ID.Ms > time.Minute.Milliseconds() { // what was lost then has expired
			s.waits = nil
		}
		s.quiet, s.missing, s.here = true, at, nil
		s.waits = append(append(s.waits, r.Says.Hosts...), r.Host)
	case slidinglog.PutBack:
		s.waits = append(append(s.waits, r.Says.Hosts...), r.Host)
		s.here = append(s.here, r.Host)
	case slidinglog.Recovered:
		s.quiet, s.waits, s.here = false, nil, nil
	}
}

// used returns what each limit of c holds at a time.
func (s *sum) used(c *quota.Credential, ms int64) []quota.Units {
	used := make([]quota.Units, len(c.Limits))
	for _, e := range s.counting() {
		for i, limit := range c.Limits {
			after, _ := limit.Window.Bounds(time.UnixMilli(ms))
			if e.ID.Ms > after.UnixMilli() {
				used[i] += max(0, e.UnitsIn(c, i))
			}
		}
	}
	return used
}

// closed tells whether a limit is closed at a time: the newest closing or opening counts.
func (s *sum) closed(limit string, ms int64) bool {
	var newest quota.Entry
	for _, e := range s.entries {
		b, _ := e.Body.(quota.Changed)
		if b.Limit == limit && !s.void(e) && newest.ID.Less(e.ID) {
			newest = e
		}
	}
	b, _ := newest.Body.(quota.Changed)
	return b.Change == quota.KindClosing && b.Until.UnixMilli() > ms
}

func (s *sum) void(e quota.Entry) bool {
	return slices.ContainsFunc(s.resets, func(by quota.Entry) bool { return e.Gen < by.Gen && !e.ID.Time().After(by.Body.(quota.Reset).Until) })
}

// counting returns the entries that count, corrected: of one request, one.
func (s *sum) counting() (all []quota.Entry) {
	byKey := make(map[string][]quota.Entry)
	s.corrections = nil
	for _, e := range s.entries {
		if !s.void(e) && (e.Kind() == quota.KindSettlement || e.Kind() == quota.KindAdjustment) {
			s.corrections = append(s.corrections, e)
		}
	}
	for _, e := range s.entries {
		if s.void(e) || e.Kind() != quota.KindGrant && e.Kind() != quota.KindAdjustment {
			continue
		}
		if g, _ := e.Grant(); g.Key != "" {
			byKey[g.Key] = append(byKey[g.Key], e)
		} else {
			all = append(all, s.corrected(e, []quota.ID{e.ID}))
		}
	}
	for _, group := range byKey {
		slices.SortFunc(group, func(x, y quota.Entry) int { return x.ID.Compare(y.ID) })
		for len(group) > 0 { // those that met in the longest window are one charge
			n := 1
			for n < len(group) && group[n].ID.Ms-group[n-1].ID.Ms < s.met(group[n]) {
				n++
			}
			one, ids := group[n-1], []quota.ID(nil)
			one.Charges = slices.Clone(one.Charges)
			for _, e := range group[:n] {
				ids = append(ids, e.ID)
				for i := range one.Charges {
					units, _ := quota.ChargeIn(e.Charges, one.Charges[i].Limit)
					one.Charges[i].Units = max(one.Charges[i].Units, units)
				}
			}
			all = append(all, s.corrected(one, ids))
			group = group[n:]
		}
	}
	return all
}

// met is how long before an entry another one of its key is the same request: as long as the
// longest window reaches back.
func (s *sum) met(e quota.Entry) (ms int64) {
	for _, limit := range s.credential.Limits {
		after, _ := limit.Window.Bounds(e.ID.Time())
		ms = max(ms, e.ID.Ms-after.UnixMilli())
	}
	return ms
}

// corrected applies what settles an entry, or gives back of it.
func (s *sum) corrected(e quota.Entry, ids []quota.ID) quota.Entry {
	var newest quota.ID
	for _, by := range s.corrections {
		settled, _ := by.Body.(quota.Settled)
		if slices.Contains(ids, settled.Grant) && newest.Less(by.ID) {
			newest = by.ID
			e.Settle(settled.To, by.ID)
		}
		adjusted, _ := by.Body.(quota.Adjusted)
		for _, give := range adjusted.Gives {
			if slices.Contains(ids, give.Of) {
				e.GiveBack(by.Charges[0].Limit, give.Units)
			}
		}
	}
	return e
}

// answered is called as a host has the store's answer to what it appended. A host without it
// does not know its own record, and notices nothing if the store falls back to before that.
func (o *oracle) answered(h *simHost, p slidinglog.Placed) {
	for _, e := range o.record(p).Entries {
		if slidinglog.Fresh(p) && e.Kind() == quota.KindGrant {
			o.wrote[e.ID] = h
		}
	}
}

// appended holds a record against what stood in the log before it.
func (o *oracle) appended(h *simHost, c *quota.Credential, before []slidinglog.Placed, p slidinglog.Placed, call *slidinglog.Call) {
	r := o.record(p)
	if o.w.traces {
		o.w.say("%s writes %v %s", h.text(), p.At, o.text(r))
	}
	if call.Wipe {
		before = nil
	}
	if o.w.damaged {
		if r.Says == nil || r.Says.Kind != slidinglog.Yield { // which any record may precede
			o.w.fail("host %s writes after a record that it cannot read", h.text())
		}
		return
	}
	if o.w.mixed && h != nil && len(before) > 0 {
		o.keeps(h, before, call.Keep)
		o.claims(before, r)
	}
	if r.Says == nil || r.Says.Kind != slidinglog.Yield {
		o.written[positionOf(p)] = o.w.now
	}
	for _, e := range r.Entries {
		if e.ID.Ms > p.At.Ms {
			o.w.fail("host %s places %v before its time, at %v", h.text(), e.ID, p.At)
		}
		if was, again := o.marked[e.By]; again && was != e.ID && e.Kind() != quota.KindSettlement && e.Kind() != quota.KindGrant {
			o.w.fail("host %s makes a correction again as %v, which it has made as %v", h.text(), e.ID, was)
		}
		if e.Kind() != quota.KindGrant {
			o.marked[e.By] = e.ID
		}
		if _, again := o.runs[e.ID]; !again {
			o.runs[e.ID] = r.Run
			if reset, ok := e.Body.(quota.Reset); ok {
				o.resets(reset)
			}
		}
	}
	fresh := slidinglog.Fresh(p)
	isGrant := func(e quota.Entry) bool { return e.Kind() == quota.KindGrant }
	grants := fresh && slices.ContainsFunc(r.Entries, isGrant)
	whole := r.Says != nil && r.Says.Kind == slidinglog.Recovered
	if r.Says != nil && r.Says.Kind == slidinglog.LossFound {
		o.missing[positionOf(p)] = o.w.now
	}
	if !grants && !whole {
		return
	}
	s := o.sum(slices.Concat(o.trimmed, before))
	if whole {
		o.ended(s, p)
		return
	}
	if s.quiet && !o.past(s) {
		o.w.fail("host %s grants in the quiet period", h.text())
	}
	s.credential = c // which says how long a request is the same
	used := s.used(c, p.At.Ms)
	if !isGrant(r.Entries[0]) { // its grants count the settlements before them
		all := o.sum(append(slices.Concat(o.trimmed, before), p))
		all.credential = c
		for i, units := range all.used(c, p.At.Ms) {
			used[i] = units - added(r, c, i)
		}
	}
	o.over(h, c, s, r, p, used)
	o.once(h, c, s, r, p, before[1+slices.IndexFunc(before, func(b slidinglog.Placed) bool { return positionOf(b) == call.At }):])
	for _, t := range o.all() {
		there := s.has(t)
		if t.by == h && o.live(t, p.At.Ms) && !there && !t.soft {
			o.w.fail("host %s grants though the log lacks its grant %v", h.name, t.id)
		}
	}
}

// resets records a new reset.
func (o *oracle) resets(by quota.Reset) {
	o.reset = by.Until.UnixMilli()
	for _, t := range o.all() {
		t.void = t.void || t.id.Ms <= o.reset
	}
}

func (o *oracle) live(t *told, ms int64) bool {
	return !t.void && t.id.Ms > ms-o.w.window().Milliseconds()
}

// over holds what a record grants against what the log held.
func (o *oracle) over(h *simHost, c *quota.Credential, s sum, r slidinglog.Record, p slidinglog.Placed, used []quota.Units) {
	for i, limit := range c.Limits {
		added := added(r, c, i)
		if added > 0 && s.closed(limit.Name, p.At.Ms) {
			o.w.fail("host %s grants %d of %s, which is closed", h.text(), added, limit.Name)
		}
		if added == 0 || used[i]+added <= limit.Budget(false) {
			continue
		}
		if o.w.traces && h != nil {
			o.explain(h, s)
		}
		o.w.fail("host %s grants %d of %s, of which %d of %d are used",
			h.text(), added, limit.Name, used[i], limit.Budget(false))
	}
}

// added returns what the grants of a record add to a limit.
func added(r slidinglog.Record, c *quota.Credential, i int) (units quota.Units) {
	for _, e := range r.Entries {
		units += e.UnitsIn(c, i)
	}
	return units
}

// once holds that a request is not granted again while its grant counts. A grant that its host has not read is
// the answer all the same.
func (o *oracle) once(h *simHost, c *quota.Credential, s sum, r slidinglog.Record, p slidinglog.Placed, unread []slidinglog.Placed) {
	for _, e := range r.Entries {
		g, _ := e.Grant()
		for _, was := range s.entries {
			if earlier, _ := was.Grant(); g.Key == "" || earlier.Key != g.Key || s.void(was) {
				continue
			}
			for _, limit := range c.Limits {
				if after, _ := limit.Window.Bounds(p.At.Time()); was.ID.Ms <= after.UnixMilli() {
					continue
				}
				if !slices.ContainsFunc(unread, func(p slidinglog.Placed) bool { return has(o.record(p), was.ID) }) {
					o.w.fail("host %s grants a request again, which the log has at %v", h.text(), was.ID)
				}
				o.unread[e.ID] = was.ID
			}
		}
	}
}

func has(r slidinglog.Record, id quota.ID) bool {
	return slices.ContainsFunc(r.Entries, func(e quota.Entry) bool { return e.ID == id })
}

// fitsCopy holds an offline grant against what the copy of its host leaves.
func (o *oracle) fitsCopy(h *simHost, ask quota.Ask, id quota.ID) {
	c := h.at.c // a reload may have set another one meanwhile
	s := sum{entries: make(map[quota.ID]quota.Entry)}
	for _, e := range h.ledger.Entries(c) {
		s.entries[e.ID] = e
	}
	for i, limit := range c.Limits {
		units, charged := quota.ChargeIn(ask.Charges, limit.Name)
		after, _ := limit.Window.Bounds(id.Time())
		used := quota.Units(0)
		for _, e := range s.entries {
			if e.ID.Ms > after.UnixMilli() {
				used += e.UnitsIn(c, i)
			}
		}
		if most := limit.Budget(false); charged && units > 0 && used > most {
			o.w.fail("host %s grants offline, and has then used %d of %d of %s", h.name, used, most, limit.Name)
		}
		if charged && units > 0 && s.closed(limit.Name, id.Ms) {
			o.w.fail("host %s grants offline from %s, which is closed", h.name, limit.Name)
		}
	}
}

// retries holds the time to retry of a denial against the log up to where its host knows it: the request fits then
// if nothing else happens, and not a ms before.
func (o *oracle) retries(h *simHost, c *quota.Credential, ask quota.Ask, d quota.Decision) {
	for _, limit := range d.Limits { // what is more than a limit ever has fits at no time: quota.Service says so
		units, _ := quota.ChargeIn(ask.Charges, limit.Name)
		if !limit.CatchingUp.IsZero() || units > c.Limits[c.Index(limit.Name)].Budget(false) {
			return
		}
	}
	log, at := o.w.store.Records("api"), h.ledger.At(c)
	known := slices.IndexFunc(log, func(p slidinglog.Placed) bool { return positionOf(p) == at })
	if known < 0 || d.RetryAt.IsZero() || h.ledger.Holds(c) {
		return
	}
	s := o.sum(slices.Concat(o.trimmed, log[:known+1]))
	s.credential = c
	fits := func(ms int64) bool {
		used := s.used(c, ms)
		return !slices.ContainsFunc(ask.Charges, func(charge quota.Charge) bool {
			i := c.Index(charge.Limit)
			return s.closed(charge.Limit, ms) || used[i]+charge.Units > c.Limits[i].Budget(false)
		})
	}
	o.w.counts.retries++
	switch ms := d.RetryAt.UnixMilli(); {
	case !fits(ms):
		o.w.fail("host %s denies %v until %d, and it does not fit then", h.name, ask.Charges, ms)
	case fits(ms-1) && ms-1 > at.ID.Ms:
		o.w.fail("host %s denies %v until %d, and it fits before", h.name, ask.Charges, ms)
	}
}

// keeps holds how long the store keeps records against the windows of the hosts that have said them.
func (o *oracle) keeps(h *simHost, before []slidinglog.Placed, keep time.Duration) {
	longest := make(map[slidinglog.HostID]time.Duration)
	for _, at := range before {
		if r := o.record(at); r.Says != nil && r.Says.Kind == slidinglog.Hello {
			longest[r.Host] = r.Says.Longest
		}
	}
	for host, needs := range longest {
		if needs > keep && h.ledger.Knows(h.c, host) {
			o.w.fail("host %s has the store drop records after %v, host %v needs them for %v", h.name, keep, host, needs)
		}
	}
}

// claims holds what a log says of its beginning, with its next record, against what it lost there before: a
// host that comes with a longer window must know.
func (o *oracle) claims(before []slidinglog.Placed, next slidinglog.Record) {
	since, there := next.Since, make(map[quota.ID]bool)
	for _, p := range before {
		r := o.record(p)
		since = max(since, r.Since)
		for _, e := range r.Entries {
			there[e.ID] = true
		}
	}
	for _, p := range o.trimmed {
		for _, e := range o.record(p).Entries {
			if e.ID.Ms > max(since, o.reset) && !there[e.ID] && p.At.Less(before[0].At) {
				o.w.fail("the log lacks %v, and says that it has all since %d", e.ID, since)
			}
		}
	}
}

// current holds a denial against the log: the host must have read all that the log had when it was asked.
func (o *oracle) current(h *simHost, end slidinglog.Position) {
	there := slices.ContainsFunc(o.w.store.Records("api"), func(p slidinglog.Placed) bool { return positionOf(p) == end })
	if at := h.ledger.At(h.c); there && at.ID.Less(end.ID) {
		o.w.fail("host %s denies on a copy up to %v, the log had %v when it was asked", h.name, at.ID, end.ID)
	}
}

// past tells whether all that was lost last has expired, and maybe the record of the loss.
func (o *oracle) past(s sum) bool {
	return o.w.now-o.missing[s.missing] >= max(o.w.window(), time.Minute).Milliseconds()
}

// ended holds the end of a quiet period against who should have been waited for.
func (o *oracle) ended(s sum, p slidinglog.Placed) {
	missing := o.missing[s.missing] // not a later one, which the store may have lost
	if !s.quiet || o.past(s) {
		return
	}
	if took := o.w.now - missing; took < o.w.quiet().Milliseconds() {
		o.w.fail("a quiet period ends after %d ms", took)
	}
	absent := false
	for _, host := range s.waits {
		if slices.Contains(s.here, host) {
			continue
		}
		if absent = true; o.w.now-max(missing, s.written[host]) < absentPeriods*o.w.quiet().Milliseconds()-100 {
			o.w.fail("host %v is not waited for, %d ms after its last record", host, o.w.now-s.written[host])
		}
	}
	if absent {
		return
	}
	if missing <= o.loss {
		return // the log fell back once more, and nobody has looked
	}
	for _, t := range o.all() {
		there := s.has(t)
		if !there && o.live(t, p.At.Ms) && !t.soft && !o.twins[t.host] && slices.Contains(s.here, t.host) {
			o.w.fail("the log is called whole without %v of host %s, which is there", t.id, t.by.name)
		}
	}
	for _, h := range o.w.alive() {
		if name := h.ledger.Host(); o.twins[name] || !slices.Contains(s.here, name) {
			continue
		}
		for _, x := range o.w.alive() {
			if x != h && h.ledger.Knows(h.c, x.ledger.Host()) && !slices.Contains(s.here, x.ledger.Host()) {
				o.w.fail("host %s, whom %s knows, is not waited for", x.name, h.name)
			}
		}
	}
}

// end holds the end of a history against all that clients were told.
func (o *oracle) end() {
	w := o.w
	s := o.sum(slices.Concat(o.trimmed, w.store.Records("api")))
	now := max(w.now+w.offset, s.clock) // the log's, which does not go back when the store's does
	for _, t := range o.all() {
		if there := s.has(t); !there && o.live(t, now) && !t.soft && !t.by.gone {
			w.fail("grant or correction %v%s of host %s never came back", t.id, t.mark, t.by.name)
		}
		if e, there := s.entries[t.id]; there && t.fresh && quota.Max(e.Charges) != t.units {
			w.fail("the log has %d for grant %v, of which the caller was told %d", quota.Max(e.Charges), t.id, t.units)
		}
	}
	o.besides()
	names := make(map[slidinglog.HostID]bool)
	for _, h := range w.alive() {
		if !h.ledger.Serves(h.c) {
			w.fail("host %s does not serve", h.name)
			return
		}
		if names[h.ledger.Host()] {
			w.fail("host %s has the name of another one", h.name)
		}
		if names[h.ledger.Host()] = true; h.ledger.Hole(h.c) {
			w.fail("host %s says that records were removed", h.name)
		}
	}
	o.unheard(s)
	for _, h := range w.alive() {
		var usage quota.Usage
		var err error
		h.complete(func() { usage, err = h.ledger.Usage(h.ctx, h.c) })
		if err != nil {
			w.fail("usage of host %s: %v", h.name, err)
			return
		}
		want := o.counts(h, &s, usage)
		for i, limit := range usage.Limits {
			if limit.Used != want[i] && limit.CatchingUp.IsZero() {
				if w.traces {
					o.explain(h, s)
				}
				w.fail("host %s counts %d of %s, the log says %d", h.name, limit.Used, limit.Name, want[i])
			}
		}
	}
}

// besides holds the copies of the other credential that hosts share against its log.
func (o *oracle) besides() {
	if !o.w.beside {
		return
	}
	want := make(map[quota.ID]bool)
	for _, p := range o.w.store.Records("beside") {
		for _, e := range o.record(p).Entries {
			want[e.ID] = true
		}
	}
	for _, h := range o.w.alive() {
		entries := h.ledger.Entries(besideCredential())
		for _, e := range entries {
			if !want[e.ID] {
				o.w.fail("host %s has %v beside, which the log lacks", h.name, e.ID)
			}
		}
		if len(entries) != len(want) {
			o.w.fail("host %s has %d entries beside, the log %d", h.name, len(entries), len(want))
		}
	}
}

// counts returns what a host counts: which grants of a key are of one request, by the windows that it had as it
// read them.
func (o *oracle) counts(h *simHost, s *sum, usage quota.Usage) (want []quota.Units) {
	for _, c := range append(slices.Clone(h.had), h.c) {
		s.credential = c
		want = s.used(h.c, usage.Now.UnixMilli())
		agree := true
		for i, limit := range usage.Limits {
			agree = agree && (limit.Used == want[i] || !limit.CatchingUp.IsZero())
		}
		if agree {
			break
		}
	}
	return want
}

// unheard holds that nothing counts of which nobody was told, if the process that debited it
// still lives.
func (o *oracle) unheard(s sum) {
	alive := make(map[uint32]bool)
	for _, h := range o.w.alive() {
		alive[h.ledger.Run()] = true
	}
	told := make(map[quota.ID]bool)
	for _, t := range o.told {
		told[t.id] = true
	}
	for _, e := range s.counting() {
		recent := e.ID.Ms > s.clock-o.w.window().Milliseconds()
		if g, ok := e.Grant(); recent && ok && g.Key == "" && !e.Outage && !told[e.ID] && alive[o.runs[e.ID]] && quota.Max(e.Counts()) > 0 {
			o.w.fail("%v counts, and nobody was told of it", e.ID)
		}
	}
}

// complete has a host do something to its end.
func (h *simHost) complete(f func()) {
	for t := h.do(f); t.f != nil; h.goOn(t) {
		h.w.now = max(h.w.now, t.wake)
	}
}

func (h *simHost) text() string {
	if h == nil {
		return "late, somebody"
	}
	return h.name
}

// text says what a record holds.
func (o *oracle) text(r slidinglog.Record) string {
	names := func(ids []slidinglog.HostID) (list []string) {
		for _, id := range ids {
			name := id.String()[:4]
			for _, h := range o.w.alive() {
				if h.ledger.Host() == id {
					name = h.name
				}
			}
			list = append(list, name)
		}
		return list
	}
	text := fmt.Sprintf("gen %d", r.Gen)
	if r.Says != nil {
		kinds := []string{"hello", "lost", "here", "whole", "bye", "turn"}
		text += fmt.Sprintf(" %s waits %v", kinds[r.Says.Kind-slidinglog.Hello], names(r.Says.Hosts))
	}
	for _, e := range r.Entries {
		text += fmt.Sprintf(" %s %v %+v gen %d units %v outage %v;", e.Kind(), e.ID, e.Body, e.Gen, e.Charges, e.Outage)
	}
	return text
}

// explain says how a host's copy differs from the log.
func (o *oracle) explain(h *simHost, s sum) {
	want := make(map[quota.ID]quota.Entry)
	for _, e := range s.counting() {
		want[e.ID] = e
	}
	o.w.say("views of %s: %v", h.name, h.ledger.Views(h.c))
	for _, e := range h.ledger.Entries(h.c) {
		if e.Kind() != quota.KindGrant && e.Kind() != quota.KindAdjustment {
			continue
		}
		w, ok := want[e.ID]
		delete(want, e.ID)
		if have, should := e.UnitsIn(h.c, 0), w.UnitsIn(h.c, 0); have != should || !ok {
			o.w.say("%s has %v for %d, the log for %d (%v): %+v, %+v", h.name, e.ID, have, should, ok, e, w)
		}
	}
	for id, e := range want {
		o.w.say("%s lacks %v: %+v", h.name, id, e)
	}
}
