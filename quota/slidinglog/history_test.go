package slidinglog

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"quotad/lua"
	"quotad/quota"
	"quotad/quota/journal"
	"quotad/quota/ledgertest"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
)

// declares is declare.lua, which only Redis needs.
const declares Script = "declare"

// A twin runs each script in a Memory and, if it has one, in Redis, at the time and on the server that the test says.
// Both have to answer the same, and to store the same.
type twin struct {
	memory *Memory
	conn   *redistest.Conn // nil: Memory alone
	hashes map[Script]string
	pages  int // how often a call went on

	name, server string
	clock        int64
}

// onClock has scripts read the time, and the server, from their last arguments.
var onClock = strings.NewReplacer(
	"local time = redis.call('TIME')\nlocal clock = time[1] * 1000000 + time[2]", "local clock = ARGV[#ARGV - 1] * 1\n"+
		"local this = ARGV[#ARGV]\nARGV[#ARGV] = nil\nARGV[#ARGV] = nil",
	"local info, replication = redis.call('INFO', 'server'), redis.call('INFO', 'replication')\n"+
		"  return string.match(info, 'run_id:(%w+)') .. string.match(replication, 'master_replid:(%w+)')", "return this",
)

// scriptsOnClock returns the scripts with the time, and the server, as their last arguments.
func scriptsOnClock(b lua.Bounds) map[string]string {
	texts := lua.All(b)
	delete(texts, "client_log")
	delete(texts, "client_counter")
	for s, text := range texts {
		text = onClock.Replace(text)
		if strings.Contains(text, "'TIME'") || strings.Contains(text, "'INFO'") {
			panic("a script reads a clock or the server in another way")
		}
		texts[s] = text
	}
	return texts
}

func newTwin(t *testing.T, b lua.Bounds, conn *redistest.Conn) *twin {
	t.Helper()
	sources := scriptsOnClock(b)
	w := &twin{memory: NewMemoryOf(time.Now, sources), conn: conn, hashes: map[Script]string{}}
	for name, text := range sources {
		if conn != nil {
			hash, err := conn.Do("SCRIPT", "LOAD", text)
			must(err)
			w.hashes[Script(name)] = hash.(string)
		}
	}
	return w
}

func (w *twin) keys() []string { return []string{w.name + ":entries", w.name + ":state"} }

// run runs a script in both.
func (w *twin) run(s Script, args ...any) ([]any, error) {
	args = append(slices.Clone(args), w.clock, w.server)
	got, err := w.memory.Run(context.Background(), w.name, s, args)
	if err != nil || w.conn == nil {
		return got, err
	}
	command := append([]string{"EVALSHA", w.hashes[s], "2"}, w.keys()...)
	for _, arg := range args {
		command = append(command, fmt.Sprint(arg))
	}
	value, err := w.conn.Do(command...)
	if err != nil {
		return nil, err
	}
	want, isList := value.([]any)
	if !isList {
		want = []any{value}
	}
	if !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
		return nil, fmt.Errorf("Go answers\n%v, Redis\n%v", got, want)
	}
	return got, nil
}

// mostPages is more than what any history needs.
const mostPages = 10_000

// Run implements Engine, for a log that asks.
func (w *twin) Run(_ context.Context, _ string, s Script, args []any) ([]any, error) {
	if w.pages++; w.pages > mostPages {
		return nil, fmt.Errorf("it does not end")
	}
	if s == Acquire || s == Correct {
		args[7] = fmt.Sprint("e", w.clock, w.pages) // no other epoch is drawn for both
	}
	return w.run(s, args...)
}

func (w *twin) Shared() bool                             { return true }
func (w *twin) Health(context.Context) ([]string, error) { return nil, nil }
func (w *twin) Close() error                             { return nil }

// ask has a call answered, in as many pages as that takes.
func (w *twin) ask(c call) (reply, error) {
	w.pages = 0
	return (&log{engine: w, name: w.name}).run(context.Background(), &c)
}

// command sends a command to Redis.
func (w *twin) command(args ...string) error {
	if w.conn == nil {
		return nil
	}
	value, err := w.conn.Do(args...)
	if refused, isErr := value.(error); isErr {
		err = refused
	}
	return err
}

func (w *twin) forget(keys ...string) error {
	for _, key := range keys {
		delete(w.memory.keys, key)
	}
	return w.command(append([]string{"DEL"}, keys...)...)
}

// copyKeys copies both keys.
func (w *twin) copyKeys(from, to string) error {
	for _, part := range []string{":entries", ":state"} {
		if err := w.forget(to + part); err != nil {
			return err
		}
		if k := w.memory.keys[from+part]; k != nil {
			w.memory.keys[to+part] = &key{maps.Clone(k.hash), maps.Clone(k.times), slices.Clone(k.order)}
		}
		if err := w.command("COPY", from+part, to+part); err != nil {
			return err
		}
	}
	return nil
}

// same compares what both have stored, field by field.
func (w *twin) same() error {
	if w.conn == nil {
		return nil
	}
	keys := w.keys()
	inGo := map[string]string{}
	if k := w.memory.keys[keys[1]]; k != nil {
		inGo = k.hash
	}
	value, err := w.conn.Do("HGETALL", keys[1])
	if err != nil {
		return err
	}
	inRedis, list := map[string]string{}, value.([]any)
	for i := 0; i < len(list); i += 2 {
		inRedis[list[i].(string)] = list[i+1].(string)
	}
	if !maps.Equal(inGo, inRedis) {
		return fmt.Errorf("the state in Go\n%v, in Redis\n%v", inGo, inRedis)
	}
	if value, err = w.conn.Do("ZRANGE", keys[0], "0", "-1", "WITHSCORES"); err != nil {
		return err
	}
	var order []any
	if k := w.memory.keys[keys[0]]; k != nil {
		for _, m := range k.order {
			order = append(order, m.name, strconv.FormatInt(m.at, 10))
		}
	}
	if list := value.([]any); len(list)+len(order) > 0 && !reflect.DeepEqual(list, order) {
		return fmt.Errorf("the entries in Go\n%v, in Redis\n%v", order, list)
	}
	return nil
}

// A history is random calls of all scripts. Both engines have to answer the same and to store the same, and a sum has to
// be that of the entries that it counts.
type history struct {
	*rand.Rand
	*twin
	known
	ledgertest.Transcript
	damaged, copied bool // one key was deleted; there is a copy
	great           bool // with numbers up to the greatest, of which sums are not exact
	limits          []quota.Limit
	words           map[string]int
	n               int // of ids
	journal         []journal.Record
}

// unit is a time of the histories: long enough that no key expires while one is played.
const unit = time.Minute

func (h *history) id() string {
	h.n++
	return "i" + strconv.Itoa(h.n)
}

func (h *history) chance(of int) bool { return h.IntN(of) == 0 }

func (h *history) units(n int64) int64 { return h.Int64N(n * unit.Microseconds()) }

// oneOf draws an entry that the host knows of.
func (h *history) oneOf() (r journal.Record, known bool) {
	if len(h.journal) == 0 {
		return r, false
	}
	return h.journal[max(0, len(h.journal)-1-h.IntN(8))], true
}

func (h *history) drawLimit(name string) quota.Limit {
	l := quota.Limit{Name: name, Units: quota.Units(1 + h.IntN(30)), DryRun: h.chance(6)}
	l.Reserve = quota.Units(h.IntN(min(int(l.Units), 4)))
	if h.great {
		l.Units = quota.MaxUnits - quota.Units(h.IntN(3))
	}
	l.Window = quota.Sliding(unit / 2 * time.Duration(1+h.IntN(40)))
	if h.chance(3) {
		l.Window = quota.Window{Every: unit / 2 * time.Duration(1+h.IntN(30)), From: time.Unix(0, 0)}
	}
	h.keep = max(h.keep, l.Window.Span().Microseconds())
	return l
}

// check returns what a limit asks.
func (h *history) check(l quota.Limit) quota.Check {
	now := max(h.clock, h.seen+1)
	if h.chance(25) {
		now -= l.Window.Span().Microseconds() // a host whose clock is behind
	}
	if h.chance(10) {
		l.Window = quota.Sliding(unit / 2 * time.Duration(1+h.IntN(40))) // as another host has it
	}
	c := quota.Credential{Limits: []quota.Limit{l}}
	cost := quota.Units(h.IntN(1 + int(min(l.Units, 60))/3))
	if h.great && h.chance(2) {
		cost = l.Units / quota.Units(1+h.IntN(3))
	}
	k := c.Checks([]quota.Charge{{Limit: l.Name, Units: cost}}, h.chance(4), atMicros(now))[0]
	k.Cost = min(k.Cost, k.Max) // what is more is refused before
	return k
}

// put asks a call as the host would, which sometimes knows too little or too much.
func (h *history) put(c call) error {
	c.known = h.known
	switch h.IntN(80) {
	case 0:
		c.epoch = "another"
	case 1:
		c.seen = h.clock + h.units(1)
	case 2:
		c.last, c.lastAt = "unknown", h.clock-h.units(40)
	case 3:
		c.until = h.clock - 2e6 + h.Int64N(4e6)
	case 4:
		c.keep = h.Int64N(h.keep + 1)
	case 5:
		c.last = ""
	}
	h.Say("%+v", c)
	r, err := h.ask(c)
	if err != nil {
		return err
	}
	h.words[r.word]++
	switch {
	case r.word == lost && h.damaged:
		h.damaged = false
		return h.forget(h.keys()...)
	case r.word == lost:
		return h.putBack(h.journal)
	case r.word == granted || r.word == again || r.word == done && r.text != "":
		h.journal = append(h.journal, journal.Record{ID: c.id, At: r.at, Text: r.text})
		if r.at > h.lastAt {
			h.last, h.lastAt = c.id, r.at
		}
	}
	h.seen = max(h.seen, r.clock)
	return nil
}

// putBack restores records in pages, perhaps not to the end.
func (h *history) putBack(records []journal.Record) error {
	records = slices.Clone(records[max(0, len(records)-20):])
	if h.chance(2) {
		slices.SortStableFunc(records, func(a, b journal.Record) int { return cmp.Compare(a.At, b.At) })
	}
	size, epoch := 1+h.IntN(20), ""
	for more := true; more; {
		n := min(size, len(records))
		more = n < len(records)
		args := []any{"r" + h.id(), epoch, h.keep, asInt(more)}
		for _, r := range records[:n] {
			args = append(args, r.ID, r.At, asInt(r.Kind == journal.Alone), r.Text)
		}
		h.Say("restore %v", args)
		values, err := h.run(Restore, args...)
		if err != nil || len(values) == 1 {
			return err
		}
		records, epoch = records[n:], values[0].(string)
		h.epoch, h.seen = epoch, values[2].(int64)
		if more && h.chance(20) { // the host stops, or the log is lost again
			if h.chance(2) {
				return nil
			}
			if err := h.lose(h.keys()...); err != nil {
				return err
			}
		}
	}
	return nil
}

// lose deletes keys.
func (h *history) lose(keys ...string) error {
	h.Say("DEL %q", keys)
	h.damaged = len(keys) == 1 && keys[0] == h.keys()[0]
	return h.forget(keys...)
}

// step plays one call.
func (h *history) step() error {
	switch h.IntN(12) {
	case 0, 1, 2, 3:
		h.clock += h.units(1)
	case 4:
		h.clock += h.Int64N(3e6)
	case 5:
		h.clock += h.units(20)
	case 6:
		h.clock -= h.units(5)
	case 7:
		h.clock -= h.clock % (unit / 2).Microseconds()
	}
	switch n := h.IntN(64); {
	case n < 28:
		return h.acquire()
	case n < 36:
		return h.correction()
	case n < 44:
		c := call{}
		for _, l := range h.limits {
			c.checks = append(c.checks, h.check(l))
		}
		return h.put(c)
	case n < 48:
		return h.putBackAlone()
	case n < 51:
		return h.mirror()
	case n < 53 && h.epoch != "":
		h.Say("walk")
		_, err := h.run(Walk, h.limits[0].Name, h.clock-h.units(20), 1+h.Int64N(4), unit.Microseconds())
		return err
	case n < 56:
		i := h.IntN(len(h.limits))
		h.limits[i] = h.drawLimit(h.limits[i].Name)
	case n < 58:
		if n == 57 {
			h.server = "s" + h.id()
		}
		h.Say("declare %s", h.server)
		_, err := h.run(declares, "d"+h.id())
		return err
	case n == 59 && h.chance(2):
		return h.lose(h.keys()[:1]...)
	case n == 60 && h.chance(2):
		return h.lose(h.keys()[1:]...)
	case n == 61 && h.chance(2):
		return h.lose(h.keys()...)
	case n == 62 && !h.damaged:
		h.Say("a copy")
		h.copied = true
		return h.copyKeys(h.name, h.name+" copy")
	case n == 63 && h.copied:
		h.Say("the copy")
		h.damaged = false
		return h.copyKeys(h.name+" copy", h.name)
	}
	return nil
}

func (h *history) acquire() error {
	c := call{id: h.id()}
	if r, known := h.oneOf(); known && h.chance(12) {
		c.id = r.ID
	}
	books := h.chance(12)
	e := quota.Entry{Body: quota.Grant{Operation: "search=9 daily=7", Count: 1}, By: "job", Note: "é\n%"}
	for _, l := range h.limits {
		if h.chance(4) {
			continue
		}
		k := h.check(l)
		if books {
			k.Max, k.Observes = quota.MaxUnits, false
		}
		c.checks, e.Charges = append(c.checks, k), append(e.Charges, quota.Charge{Limit: k.Limit, Units: k.Cost})
	}
	c.text = textOf(e)
	return h.put(c)
}

func (h *history) correction() error {
	c := call{id: h.id(), correct: true}
	if r, known := h.oneOf(); known && h.chance(20) {
		c.id = r.ID
	}
	c.text = textOf(h.drawCorrection(h.clock))
	return h.put(c)
}

func (h *history) drawCorrection(now int64) quota.Entry {
	e := quota.Entry{By: "@0", Note: "because"}
	switch n := h.IntN(20); {
	case n == 0:
		e.Body = quota.Reset{}
	case n < 5:
		k := quota.Changed{Limit: h.limits[h.IntN(len(h.limits))].Name}
		if !h.chance(3) {
			half := (unit / 2).Microseconds()
			k.Until = atMicros(now/half*half + half*h.Int64N(10))
		}
		e.Body = k
	default:
		r, _ := h.oneOf()
		to := quota.Units(h.IntN(40))
		if h.great && h.chance(2) {
			to = quota.MaxUnits - quota.Units(h.IntN(2))
		}
		e.Body = quota.Settled{Grant: quota.ID(cmp.Or(r.ID, "unknown")), To: to}
	}
	return e
}

// putBackAlone restores what a host granted alone, and what a journal may have besides.
func (h *history) putBackAlone() error {
	var records []journal.Record
	for range 1 + h.IntN(4) {
		r := journal.Record{ID: h.id(), At: h.clock + unit.Microseconds()/2 - h.units(10)}
		if same, known := h.oneOf(); known && h.chance(4) {
			r.At = same.At
			if h.chance(4) {
				r.ID = same.ID
			}
		}
		e := quota.Entry{Body: quota.Grant{Operation: "video", Count: 2}, By: "job", Outage: true}
		switch h.IntN(6) {
		case 0:
			e = h.drawCorrection(r.At)
		case 1: // of a grant that comes later
			e.Body = quota.Settled{Grant: quota.ID("i" + strconv.Itoa(h.n+1)), To: quota.Units(h.IntN(9))}
		default:
			if h.chance(2) {
				r.Kind = journal.Alone
			}
			for _, l := range h.limits {
				e.Charges = append(e.Charges, quota.Charge{Limit: l.Name, Units: quota.Units(h.IntN(5))})
			}
		}
		r.Text = textOf(e)
		records = append(records, r)
	}
	h.journal = append(h.journal, records...)
	return h.putBack(records)
}

func (h *history) mirror() error {
	args := []any{h.clock - h.units(20), "", 1 + h.IntN(5)}
	if h.chance(2) {
		args[1] = h.clock + h.units(1)
	}
	if r, known := h.oneOf(); known && h.chance(4) {
		args = append(args, r.ID)
	}
	h.Say("mirror %v", args)
	_, err := h.run(Mirror, args...)
	return err
}

// sums holds what the log keeps of each window against its entries.
func (h *history) sums() error {
	entries, state := h.memory.keys[h.keys()[0]], h.memory.keys[h.keys()[1]]
	if h.damaged || h.great || entries == nil || state == nil || state.hash["epoch"] == "" {
		return nil
	}
	number := func(field string) int64 {
		n, _ := strconv.ParseInt(state.hash[field], 10, 64)
		return n
	}
	if n := len(entries.order); number("count") != int64(n) || len(entries.times) != n {
		return fmt.Errorf("the log has %d entries and counts %d", n, number("count"))
	}
	for field := range state.hash {
		if field[0] != '>' || number(field) < number("trimmed") { // such a one is counted again when it is asked for
			continue
		}
		name, _, _ := strings.Cut(field[1:], " ")
		sum := int64(0)
		for _, m := range entries.order {
			charges, _ := chargesOf(strings.Split(state.hash["="+m.name], "\n")[0])
			units, _ := quota.ChargeIn(charges, name)
			if m.at > number(field) {
				sum += int64(units)
			}
			if m.at > number(field) && m.at < number("<"+field[1:]) && units > 0 {
				return fmt.Errorf("%s has an entry at %d, before its oldest", field, m.at)
			}
		}
		if got := number("+" + field[1:]); got != sum {
			return fmt.Errorf("%s holds %d, its entries %d", field, got, sum)
		}
	}
	return nil
}

// play plays one history.
func (h *history) play() error {
	h.name, h.server = "h", "s"
	h.clock = 1_764_000_000e6 + h.Int64N(1000)
	if err := h.forget(h.keys()...); err != nil {
		return err
	}
	h.great = h.chance(20)
	for _, name := range []string{"daily", "re-search", "search"}[:1+h.IntN(3)] {
		h.limits = append(h.limits, h.drawLimit(name))
	}
	err := h.putBack(nil)
	for n := 6 + h.IntN(10)*(1+h.IntN(3)); n > 0 && err == nil; n-- {
		if err = h.step(); err == nil {
			err = h.same()
		}
		if err == nil && n%4 == 1 { // the last step, and some before
			err = h.sums()
		}
	}
	return err
}

// playHistories plays n histories, each from a seed of its own.
func playHistories(t *testing.T, n int, conn *redistest.Conn) {
	t.Helper()
	seed := seedtest.Seed(t, 1)
	small := lua.Bounds{Work: 3, Walk: 2, Page: 2, Trim: 2, QuietMicros: 2e6}
	var twins []*twin
	for _, b := range []lua.Bounds{lua.Usual(), small, {Work: 7, Walk: 3, Page: 3, Trim: 3, QuietMicros: 2e6}} {
		twins = append(twins, newTwin(t, b, conn))
	}
	words := map[string]int{}
	for i := range n {
		h := &history{Rand: rand.New(rand.NewPCG(seed, uint64(i))), twin: twins[i%len(twins)], words: words}
		h.Now = func() time.Time { return atMicros(h.clock) }
		if err := h.play(); err != nil {
			t.Fatalf("history %d of seed %d: %v\n%s", i, seed, err, &h.Transcript)
		}
	}
	t.Logf("%d histories: %v", n, words)
	for _, word := range []string{granted, fits, denied, done, again, gone, lost, quiet, late, clock} {
		if words[word] == 0 && n >= 300 {
			t.Errorf("no call was answered %s", word)
		}
	}
}

func TestHistories(t *testing.T) {
	seedtest.SkipUnderRace(t)
	playHistories(t, seedtest.Long(t, 3000), nil)
}

func TestHistoriesInRedis(t *testing.T) {
	seedtest.SkipUnderRace(t)
	playHistories(t, seedtest.Long(t, 300), redistest.Start(t).Dial(t))
}
