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
	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
)

// declares is declare.lua, which only Redis needs.
const declares Script = "declare"

// A record is an entry as a journal has it.
type record struct {
	id, text string
	at       int64
	alone    bool
}

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
	if s == Hosts {
		sortRows(want)
		sortRows(got)
	}
	if !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
		return nil, fmt.Errorf("Go answers\n%v, Redis\n%v", got, want)
	}
	return got, nil
}

// sortRows sorts the rows of hosts by id: a hash of Redis has no order.
func sortRows(reply []any) {
	for i := 1; i+5 < len(reply); i++ {
		for j := 1; j+5 < len(reply); j += 3 {
			if reply[j].(string) > reply[j+3].(string) {
				for k := range 3 {
					reply[j+k], reply[j+3+k] = reply[j+3+k], reply[j+k]
				}
			}
		}
	}
}

// mostPages is more than what any history needs.
const mostPages = 10_000

// ask has a call answered, in as many pages as that takes.
func (w *twin) ask(c call, drawn string) (r reply, err error) {
	script, args := Acquire, c.args()
	if c.correct {
		script = Correct
	}
	args[7] = drawn
	for r.word = busy; r.word == busy; w.pages++ {
		if w.pages > mostPages {
			return r, fmt.Errorf("it is busy for ever")
		}
		values, err := w.run(script, args...)
		if err != nil {
			return r, err
		}
		if r, err = parseReply(values); err != nil {
			return r, fmt.Errorf("%w: %v", err, values)
		}
	}
	w.pages--
	for i := range r.limits {
		limit := &r.limits[i]
		if limit.missing > 0 {
			at, _, err := w.walk(c.checks[i].Limit, limit.from, limit.missing, c.checks[i].Length.Microseconds())
			if err != nil {
				return r, err
			}
			limit.retry = max(limit.retry, at)
		}
		limit.missing, limit.from = 0, 0
	}
	return r, nil
}

func (w *twin) walk(limit string, from, missing, length int64) (at, units int64, err error) {
	for at = from; missing > 0; w.pages++ {
		if w.pages > mostPages {
			return 0, 0, fmt.Errorf("a walk does not end")
		}
		values, err := w.run(Walk, limit, at, missing, length)
		if err != nil {
			return 0, 0, err
		}
		at, missing, units = values[0].(int64), values[1].(int64), values[2].(int64)
	}
	w.pages--
	return at, units, nil
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

// A history is random calls of all scripts, in a log and in a model of it.
type history struct {
	*rand.Rand
	*twin
	model    *model
	copy     *model // an older one, if there is a copy
	damaged  bool   // one key was deleted: what is counted until somebody notices is not known
	great    bool   // with numbers up to the greatest, which the model does not count
	limits   []quota.Limit
	steps    []string
	words    map[string]int
	n        int // of ids
	keep     int64
	journal  []record
	host     struct{ epoch, last string }
	seen, at int64 // the newest time that the host knows, and that of its last entry
}

// unit is a time of the histories: long enough that no key expires while one is played.
const unit = time.Minute

func (h *history) note(format string, args ...any) {
	h.steps = append(h.steps, fmt.Sprintf("%d ", h.clock)+fmt.Sprintf(format, args...))
}

func (h *history) id() string {
	h.n++
	return "i" + strconv.Itoa(h.n)
}

func (h *history) chance(of int) bool { return h.IntN(of) == 0 }

// drawLimits draws limits with new windows.
func (h *history) drawLimits() {
	h.limits = nil
	for _, name := range []string{"daily", "re-search", "search"}[:1+h.IntN(3)] {
		h.limits = append(h.limits, h.drawLimit(name))
	}
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

// check returns what a limit asks at a time.
func (h *history) check(l quota.Limit, now int64) quota.Check {
	if h.chance(25) {
		now -= l.Window.Span().Microseconds() // a host whose clock is behind
	}
	c := quota.Credential{Limits: []quota.Limit{l}}
	cost := quota.Units(h.IntN(1 + int(min(l.Units, 60))/3))
	if h.great && h.chance(2) {
		cost = l.Units / quota.Units(1+h.IntN(3))
	}
	return c.Checks([]quota.Charge{{Limit: l.Name, Units: cost}}, h.chance(4), atMicros(now))[0]
}

// knows fills in what the host knows, sometimes too little or too much.
func (h *history) knows(c call) call {
	c.epoch, c.last, c.lastAt, c.seen, c.keep = h.host.epoch, h.host.last, h.at, h.seen, h.keep
	switch h.IntN(40) {
	case 0:
		c.epoch = "another"
	case 1:
		c.seen = h.clock + h.Int64N(unit.Microseconds())
	case 2:
		c.last, c.lastAt = "unknown", h.clock-h.Int64N(40*unit.Microseconds())
	case 3:
		c.until = h.clock - 2e6 + h.Int64N(4e6)
	case 4:
		c.keep = h.Int64N(h.keep + 1)
	case 5:
		c.last = ""
	}
	return c
}

// put asks a call of both, and compares.
func (h *history) put(c call) (r reply, err error) {
	drawn := "e" + h.id()
	h.note("%+v", c)
	if r, err = h.ask(c, drawn); err != nil {
		return r, err
	}
	h.words[r.word]++
	if h.damaged || h.great {
		return r, h.afterDamage(r)
	}
	var want reply
	if c.correct {
		want = h.model.correct(h.clock, c, drawn)
	} else {
		want = h.model.acquire(h.clock, c, drawn)
	}
	if len(r.limits) == 0 {
		r.limits = nil
	}
	if len(want.limits) == 0 {
		want.limits = nil
	}
	if !reflect.DeepEqual(r, want) {
		return r, fmt.Errorf("got\n%+v, the model has\n%+v", r, want)
	}
	return r, nil
}

// afterDamage begins anew where a loss was noticed: what a log has that lacks one key is no promise.
func (h *history) afterDamage(r reply) error {
	if r.word != lost || !h.damaged {
		return nil
	}
	h.damaged, h.model = false, newModel(h.model.bounds)
	return h.forget(h.keys()...)
}

// learns is what a host does with an answer.
func (h *history) learns(c call, r reply) error {
	if r.word == lost {
		return h.putBack(h.journal)
	}
	h.seen = max(h.seen, r.clock)
	if r.word == granted || r.word == again || r.word == done && r.text != "" {
		h.journal = append(h.journal, record{id: c.id, at: r.at, text: r.text})
		if r.at > h.at {
			h.host.last, h.at = c.id, r.at
		}
	}
	return nil
}

// putBack restores records in pages, perhaps not to the end.
func (h *history) putBack(records []record) error {
	records = slices.Clone(records)
	if len(records) > 40 {
		records = records[len(records)-40:]
	}
	if h.chance(2) {
		slices.SortStableFunc(records, func(a, b record) int { return cmp.Compare(a.at, b.at) })
	}
	epoch, size, keep := "", 1+h.IntN(20), h.keep
	for first := true; first || len(records) > 0; first = false {
		n := min(size, len(records))
		more, drawn := n < len(records), "r"+h.id()
		args := []any{drawn, epoch, keep, asInt(more)}
		for _, r := range records[:n] {
			args = append(args, r.id, r.at, asInt(r.alone), r.text)
		}
		h.note("restore %v", args)
		values, err := h.run(Restore, args...)
		if err != nil {
			return err
		}
		h.words["restore"]++
		if len(values) == 1 {
			values = []any{"", int64(0), int64(0), int64(0)}
		}
		if !h.damaged && !h.great {
			of, newest, added := h.model.restore(h.clock, h.server, drawn, epoch, keep, more, records[:n])
			if values[0] != of || of != "" && (values[2] != newest || values[3] != added) {
				return fmt.Errorf("restore answers %v, the model %v %v %v", values, of, newest, added)
			}
		}
		if records, epoch = records[n:], values[0].(string); epoch == "" {
			return nil
		}
		h.host.epoch, h.seen = epoch, values[2].(int64)
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
	h.note("DEL %q", keys)
	if len(keys) == 1 && keys[0] == h.keys()[0] {
		h.damaged = true
	} else {
		h.damaged, h.model = false, newModel(h.model.bounds)
	}
	return h.forget(keys...)
}

// step plays one call.
func (h *history) step() error {
	switch h.IntN(12) {
	case 0, 1, 2, 3:
		h.clock += h.Int64N(unit.Microseconds())
	case 4:
		h.clock += h.Int64N(3e6)
	case 5:
		h.clock += h.Int64N(20 * unit.Microseconds())
	case 6:
		h.clock -= h.Int64N(5 * unit.Microseconds())
	case 7:
		h.clock = h.clock / (unit / 2).Microseconds() * (unit / 2).Microseconds()
	}
	switch n := h.IntN(64); {
	case n < 28:
		return h.acquire()
	case n < 36:
		return h.correction()
	case n < 44:
		return h.look()
	case n < 48:
		return h.putBackAlone()
	case n < 51:
		return h.mirror()
	case n < 53:
		return h.walks()
	case n < 56:
		i := h.IntN(len(h.limits))
		h.limits[i] = h.drawLimit(h.limits[i].Name)
	case n == 56:
		h.drawLimits()
	case n == 57:
		h.server = "s" + h.id()
		return h.declare()
	case n == 58:
		return h.declare()
	case n == 59 && h.chance(2):
		return h.lose(h.keys()[:1]...)
	case n == 60 && h.chance(2):
		return h.lose(h.keys()[1:]...)
	case n == 61 && h.chance(2):
		return h.lose(h.keys()...)
	case n == 62 && !h.damaged:
		h.note("a copy")
		h.copy = h.model.clone()
		return h.copyKeys(h.name, h.name+" copy")
	case n == 63 && h.copy != nil:
		h.note("the copy")
		h.model, h.damaged = h.copy.clone(), false
		return h.copyKeys(h.name+" copy", h.name)
	}
	return nil
}

func (h *history) acquire() error {
	c := call{id: h.id()}
	if h.chance(12) && len(h.journal) > 0 {
		c.id = h.journal[h.IntN(len(h.journal))].id
	}
	books := h.chance(12)
	now := max(h.clock, h.model.clock+1)
	var charges []quota.Charge
	for _, l := range h.limits {
		if h.chance(4) {
			continue
		}
		if h.chance(10) {
			l.Window = quota.Sliding(unit / 2 * time.Duration(1+h.IntN(40))) // as another host has it
		}
		k := h.check(l, now)
		if books {
			k.Max, k.Observes = quota.MaxUnits, false
		}
		if k.Cost <= k.Max { // else it is refused before
			c.checks, charges = append(c.checks, k), append(charges, quota.Charge{Limit: k.Limit, Units: k.Cost})
		}
	}
	grant := quota.Grant{Operation: "search=9 daily=7", Count: 1}
	c.text = textOf(quota.Entry{Charges: charges, Body: grant, By: "job", Note: "é\n%"})
	c = h.knows(c)
	r, err := h.put(c)
	if err != nil {
		return err
	}
	return h.learns(c, r)
}

func (h *history) look() error {
	c := call{}
	now := max(h.clock, h.model.clock+1)
	for _, l := range h.limits {
		k := h.check(l, now)
		k.Cost = min(k.Cost, k.Max)
		if h.chance(2) {
			k.Max, k.Cost = quota.MaxUnits-1, 0
		}
		c.checks = append(c.checks, k)
	}
	c = h.knows(c)
	r, err := h.put(c)
	if err != nil {
		return err
	}
	return h.learns(c, r)
}

func (h *history) correction() error {
	c := call{id: h.id(), correct: true}
	if h.chance(20) && len(h.journal) > 0 {
		c.id = h.journal[h.IntN(len(h.journal))].id
	}
	e := h.drawCorrection(h.clock)
	if _, settles := e.Body.(quota.Settled); settles && len(h.journal) == 0 {
		return nil
	}
	c.text = textOf(e)
	c = h.knows(c)
	r, err := h.put(c)
	if err != nil {
		return err
	}
	return h.learns(c, r)
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
		id := "unknown"
		if n := len(h.journal); n > 0 {
			id = h.journal[max(0, n-1-h.IntN(8))].id
		}
		to := quota.Units(h.IntN(40))
		if h.great && h.chance(2) {
			to = quota.MaxUnits - quota.Units(h.IntN(2))
		}
		e.Body = quota.Settled{Grant: quota.ID(id), To: to}
	}
	return e
}

// putBackAlone restores what a host granted alone, and what a journal may have besides.
func (h *history) putBackAlone() error {
	var records []record
	taken := map[int64]bool{}
	for range 1 + h.IntN(4) {
		r := record{id: h.id(), alone: h.chance(2)}
		r.at = h.clock + unit.Microseconds()/2 - h.Int64N(10*unit.Microseconds())
		if h.chance(4) && len(h.journal) > 0 {
			r.at = h.journal[h.IntN(len(h.journal))].at // the same time as another one's
		}
		e := quota.Entry{Body: quota.Grant{Operation: "video", Count: 2}, By: "job", Outage: true}
		if h.chance(3) {
			if e = h.drawCorrection(r.at); h.chance(3) {
				later := quota.ID("i" + strconv.Itoa(h.n+1))
				e.Body = quota.Settled{Grant: later, To: quota.Units(h.IntN(9))}
			}
			r.alone = false // a host alone corrects nothing, and no two corrections have one time
			for taken[r.at] || slices.ContainsFunc(h.journal, func(j record) bool { return j.at == r.at }) {
				r.at++
			}
			taken[r.at] = true
		} else {
			for _, l := range h.limits {
				e.Charges = append(e.Charges, quota.Charge{Limit: l.Name, Units: quota.Units(h.IntN(5))})
			}
		}
		r.text = textOf(e)
		records = append(records, r)
	}
	h.journal = append(h.journal, records...)
	return h.putBack(records)
}

func (h *history) mirror() error {
	after, before, count := h.clock-h.Int64N(20*unit.Microseconds()), int64(0), 1+h.IntN(5)
	args := []any{after, "", count}
	if h.chance(2) {
		before = h.clock + h.Int64N(unit.Microseconds())
		args[1] = before
	}
	id := ""
	if h.chance(4) && len(h.journal) > 0 {
		id = h.journal[h.IntN(len(h.journal))].id
		args = append(args, id)
	}
	h.note("mirror %v", args)
	values, err := h.run(Mirror, args...)
	if err != nil || h.damaged || h.great {
		return err
	}
	page := h.model.mirror(after, before, count)
	if id != "" {
		page = slices.DeleteFunc(slices.Clone(h.model.entries), func(e *modelEntry) bool { return e.id != id })
	}
	want := []any{h.model.epoch, h.model.times}
	for _, e := range page {
		want = append(want, e.id, e.at, e.text())
		if h.chance(4) && e.now != nil { // another host's journal has it as it is now
			h.journal = append(h.journal, record{id: e.id, at: e.at, text: e.text()})
		}
	}
	if !reflect.DeepEqual(values, want) {
		return fmt.Errorf("mirror answers\n%v, the model\n%v", values, want)
	}
	return nil
}

func (h *history) walks() error {
	l := h.limits[h.IntN(len(h.limits))]
	from, missing, length := h.clock-h.Int64N(20*unit.Microseconds()), 1+h.Int64N(4), unit.Microseconds()
	if h.model.epoch == "" {
		return nil
	}
	h.note("walk %s %d %d", l.Name, from, missing)
	at, units, err := h.walk(l.Name, from, missing, length)
	if err != nil || h.damaged || h.great {
		return err
	}
	if wantAt, wantUnits := h.model.walk(h.clock, l.Name, from, missing, length); at != wantAt || units != wantUnits {
		return fmt.Errorf("a walk ends at %d with %d, by the model at %d with %d", at, units, wantAt, wantUnits)
	}
	return nil
}

func (h *history) declare() error {
	drawn := "d" + h.id()
	h.note("declare %s %s", h.server, drawn)
	values, err := h.run(declares, drawn)
	if err != nil || h.damaged || h.great {
		return err
	}
	if want := h.model.declare(h.clock, h.server, drawn); values[0] != want {
		return fmt.Errorf("declare answers %v, the model %v", values, want)
	}
	return nil
}

// sums holds what the log keeps of each window against its entries.
func (h *history) sums() error {
	if h.damaged || h.great || h.model.epoch == "" {
		return nil
	}
	state := h.memory.keys[h.keys()[1]].hash
	number := func(field string) int64 {
		n, err := strconv.ParseFloat(state[field], 64)
		if err != nil {
			return -1
		}
		return int64(n)
	}
	entries := 0
	for field, value := range state {
		switch field[0] {
		case '=':
			entries++
			if e := h.model.find(field[1:]); e == nil || e.text() != value {
				return fmt.Errorf("the log has entry %q, the model %+v", value, e)
			}
		case '>':
			sum, through, oldest := number("+"+field[1:]), number(field), number("<"+field[1:])
			name, _, _ := strings.Cut(field[1:], " ")
			if through < h.model.trimmed {
				continue // it is counted anew when it is asked for
			}
			if used := h.model.used(name, through); sum != used {
				return fmt.Errorf("%s holds %d, its entries %d", field, sum, used)
			}
			for _, e := range h.model.entries {
				if e.at > through && e.at < oldest && e.units(name) > 0 {
					return fmt.Errorf("%s has an entry at %d, before its oldest at %d", field, e.at, oldest)
				}
			}
		}
	}
	if n := len(h.model.entries); entries != n || number("count") != int64(n) {
		return fmt.Errorf("the log has %d entries and counts %s, the model has %d", entries, state["count"], n)
	}
	return nil
}

// play plays one history.
func (h *history) play() error {
	h.name, h.server = "h", "s"
	h.clock = 1_764_000_000e6 + h.Int64N(1000)
	if err := h.forget(append(h.keys(), "h copy entries", "h copy state")...); err != nil {
		return err
	}
	h.great = h.chance(20)
	h.drawLimits()
	if h.chance(3) {
		h.keep = h.Int64N(h.keep) + 1e6
	}
	if err := h.putBack(nil); err != nil {
		return err
	}
	for range 8 + h.IntN(12)*(1+h.IntN(3)) {
		err := h.step()
		if err == nil {
			err = h.same()
		}
		if err == nil {
			err = h.sums()
		}
		if err != nil {
			return fmt.Errorf("%w\n%s", err, strings.Join(h.steps, "\n"))
		}
	}
	return nil
}

// playHistories plays n histories, each from a seed of its own.
func playHistories(t *testing.T, n int, conn *redistest.Conn) {
	t.Helper()
	seed := seedtest.Seed(t, 1)
	small := lua.Bounds{Work: 3, Walk: 2, Page: 2, Trim: 2, QuietMicros: 2e6}
	bounds := []lua.Bounds{lua.Usual(), small, {Work: 7, Walk: 3, Page: 3, Trim: 3, QuietMicros: 2e6}}
	var twins []*twin
	for _, b := range bounds {
		twins = append(twins, newTwin(t, b, conn))
	}
	words, pages := map[string]int{}, 0
	for i := range n {
		k := i % len(bounds)
		twins[k].pages = 0
		h := &history{Rand: rand.New(rand.NewPCG(seed, uint64(i))), twin: twins[k], words: words}
		h.model = newModel(bounds[k])
		if err := h.play(); err != nil {
			t.Fatalf("history %d of seed %d: %v", i, seed, err)
		}
		pages += h.pages
	}
	t.Logf("%d histories, %d times a call went on: %v", n, pages, words)
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
