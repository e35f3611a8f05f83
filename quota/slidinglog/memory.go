package slidinglog

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	glua "github.com/yuin/gopher-lua"

	"quotad/lua"
	"quotad/quota/journal"
)

// A Memory is the Engine of one host alone. It runs the same scripts as Redis, over hashes and sorted sets in memory,
// with Redis' conversions, by the commands that the scripts use; any other command is an error. No script has a global
// variable, and nothing expires.
type Memory struct {
	now func() time.Time

	mu      sync.Mutex // guards what follows, and is held while a script runs
	state   *glua.LState
	scripts map[Script]*glua.LFunction
	keys    map[string]*key
}

// A key is a hash, or a sorted set.
type key struct {
	hash   map[string]string
	scores map[string]float64
	order  []member // by score, then by name
}

type member struct {
	score float64
	name  string
}

// NewMemory returns an empty one. now is its clock; nil: time.Now.
func NewMemory(now func() time.Time) *Memory {
	bounds := lua.Usual()
	bounds.QuietMicros = 0 // no other host has anything to put back
	return NewMemoryOf(now, lua.All(bounds))
}

// NewMemoryOf returns an empty one that runs other sources: a test's.
func NewMemoryOf(now func() time.Time, sources lua.Scripts) *Memory {
	if now == nil {
		now = time.Now
	}
	m := &Memory{now: now, scripts: map[Script]*glua.LFunction{}, keys: map[string]*key{}}
	m.state = glua.NewState(glua.Options{SkipOpenLibs: true})
	for _, open := range []glua.LGFunction{glua.OpenBase, glua.OpenTable, glua.OpenString, glua.OpenMath} {
		open(m.state)
	}
	m.state.SetTop(0)
	call := map[string]glua.LGFunction{"call": m.call}
	m.state.SetGlobal("redis", m.state.SetFuncs(m.state.NewTable(), call))
	strict := "local function no(_, name) error('no global variable ' .. name) end " +
		"setmetatable(_G, { __index = no, __newindex = no })"
	must(m.state.DoString(strict))
	texts := map[Script]string{Acquire: sources.Acquire, Correct: sources.Correct, Walk: sources.Walk,
		Restore: sources.Restore, Mirror: sources.Mirror, Hosts: sources.Hosts}
	for s, text := range texts {
		f, err := m.state.LoadString(text)
		must(err)
		m.scripts[s] = f
	}
	return m
}

// must panics: the scripts are part of the program.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// Shared implements Engine.
func (m *Memory) Shared() bool { return false }

// Health implements Engine.
func (m *Memory) Health(context.Context) ([]string, error) { return nil, nil }

// Close implements Engine.
func (m *Memory) Close() error { return nil }

// Run implements Engine.
func (m *Memory) Run(_ context.Context, credential string, s Script, args []any) ([]any, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, a := m.state.CreateTable(2, 0), m.state.CreateTable(len(args), 0)
	k.Append(glua.LString(credential + ":entries"))
	k.Append(glua.LString(credential + ":state"))
	for _, arg := range args {
		a.Append(glua.LString(fmt.Sprint(arg)))
	}
	m.state.G.Global.RawSetString("KEYS", k)
	m.state.G.Global.RawSetString("ARGV", a)
	if err := m.state.CallByParam(glua.P{Fn: m.scripts[s], NRet: 1, Protect: true}); err != nil {
		return nil, fmt.Errorf("script %d of credential %s: %w", s, credential, err)
	}
	defer m.state.SetTop(0)
	switch reply := replyOf(m.state.Get(-1)).(type) {
	case []any:
		return reply, nil
	case nil:
		return nil, nil
	default:
		return []any{reply}, nil
	}
}

// forget drops a log.
func (m *Memory) forget(credential string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.keys, credential+":entries")
	delete(m.keys, credential+":state")
}

// load adds grants and bookings that nothing corrects yet to a log that counts nothing yet, the oldest first: as
// restore.lua does, but a day of them at a start within milliseconds.
func (m *Memory) load(credential string, records []journal.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	log, state := m.keys[credential+":entries"], m.keys[credential+":state"]
	if log == nil { // the log has been begun, without an entry
		log = &key{hash: map[string]string{}, scores: map[string]float64{}}
		m.keys[credential+":entries"] = log
	}
	newest := 0.0
	for _, r := range records {
		newest = max(newest+1, float64(r.At)) // no two are the same
		log.scores[r.ID] = newest
		log.order = append(log.order, member{newest, r.ID})
		state.hash["="+r.ID] = r.Text
	}
	state.hash["clock"], state.hash["count"] = strconv.FormatInt(int64(newest), 10), strconv.Itoa(len(records))
}

// takeBack removes a grant that the journal did not take, as if it had not been decided.
func (m *Memory) takeBack(credential, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	log, state := m.keys[credential+":entries"], m.keys[credential+":state"].hash
	at := log.scores[id]
	add := func(field string, n int64) {
		was, _ := strconv.ParseInt(state[field], 10, 64)
		state[field] = strconv.FormatInt(was+n, 10)
	}
	line, _, _ := strings.Cut(state["="+id], "\n")
	charges, _ := chargesOf(line)
	for _, c := range charges {
		for window := range strings.FieldsSeq(state["@"+c.Limit]) {
			of := c.Limit + " " + window
			if through, _ := strconv.ParseFloat(state[">"+of], 64); at > through {
				add("+"+of, -int64(c.Units))
			}
		}
	}
	add("count", -1)
	delete(state, "="+id)
	i := log.find(at, id)
	log.order = slices.Delete(log.order, i, i+1)
	delete(log.scores, id)
}

// replyOf converts what a script returned, as Redis does: an integer is cut off, and a table ends at a nil.
func replyOf(v glua.LValue) any {
	switch v := v.(type) {
	case glua.LNumber:
		return int64(v)
	case glua.LString:
		return string(v)
	case *glua.LTable:
		var list []any
		for i := 1; v.RawGetInt(i) != glua.LNil; i++ {
			list = append(list, replyOf(v.RawGetInt(i)))
		}
		return list
	}
	return nil
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', 17, 64) }

// find returns the index of the first member that is not before another.
func (k *key) find(score float64, name string) int {
	return sort.Search(len(k.order), func(i int) bool {
		m := &k.order[i]
		return m.score > score || m.score == score && m.name >= name
	})
}

// between returns the members between two bounds: 5, (5, -inf, +inf.
func (k *key) between(low, high string, num func(string) float64) []member {
	edge := func(bound string, past bool) int {
		text, open := strings.CutPrefix(bound, "(")
		score := num(text)
		if open != past {
			score = math.Nextafter(score, math.Inf(1))
		}
		return k.find(score, "")
	}
	from := edge(low, false)
	return k.order[from:max(from, edge(high, true))]
}

// call is redis.call.
func (m *Memory) call(l *glua.LState) int {
	args := make([]string, l.GetTop())
	for i := range args {
		switch v := l.Get(i + 1).(type) {
		case glua.LString:
			args[i] = string(v)
		case glua.LNumber:
			args[i] = number(float64(v))
		default:
			l.RaiseError("%v: argument %d is neither a string nor a number", args[:i], i)
		}
	}
	l.Push(m.do(l, args[0], args[1:]))
	return 1
}

// do carries out a command.
func (m *Memory) do(l *glua.LState, command string, args []string) glua.LValue {
	list := l.CreateTable(0, 0)
	add := func(text string, there bool) glua.LValue {
		v := glua.LValue(glua.LFalse)
		if there {
			v = glua.LString(text)
		}
		list.Append(v)
		return v
	}
	switch command {
	case "TIME":
		now := m.now().UnixMicro()
		add(strconv.FormatInt(now/1e6, 10), true)
		add(strconv.FormatInt(now%1e6, 10), true)
		return list
	case "INFO":
		return glua.LString("run_id:memory master_replid:memory")
	case "DEL":
		for _, name := range args {
			delete(m.keys, name)
		}
		return glua.LNumber(len(args))
	case "PEXPIRE":
		return glua.LNumber(1)
	}
	k := m.keys[args[0]]
	if k == nil {
		k = &key{hash: map[string]string{}, scores: map[string]float64{}}
		m.keys[args[0]] = k
	}
	if strings.HasPrefix(command, "Z") {
		return k.sorted(l, list, add, command, args[1:])
	}
	return k.hashed(l, list, add, command, args[1:])
}

// numbers returns what reads a number, as an argument of a command.
func numbers(l *glua.LState, command string) func(string) float64 {
	return func(text string) float64 {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			l.RaiseError("%s: %q is not a number", command, text)
		}
		return f
	}
}

// hashed carries out a command on a hash.
func (k *key) hashed(l *glua.LState, list *glua.LTable, add func(string, bool) glua.LValue, command string, args []string) glua.LValue {
	before := len(k.hash)
	switch command {
	case "HGET", "HMGET":
		for _, field := range args {
			v, ok := k.hash[field]
			if one := add(v, ok); command == "HGET" {
				return one
			}
		}
		return list
	case "HGETALL":
		for _, field := range slices.Sorted(maps.Keys(k.hash)) {
			add(field, true)
			add(k.hash[field], true)
		}
		return list
	case "HSET", "HSETNX":
		for i := 0; i < len(args); i += 2 {
			if _, ok := k.hash[args[i]]; command == "HSET" || !ok {
				k.hash[args[i]] = args[i+1]
			}
		}
	case "HDEL":
		for _, field := range args {
			delete(k.hash, field)
		}
	case "HINCRBY":
		was, err := strconv.ParseInt(cmp.Or(k.hash[args[0]], "0"), 10, 64)
		by, wrong := strconv.ParseInt(args[1], 10, 64)
		if err != nil || wrong != nil {
			l.RaiseError("%s: %q or %q is not an integer", command, k.hash[args[0]], args[1])
		}
		k.hash[args[0]] = strconv.FormatInt(was+by, 10)
		return glua.LNumber(was + by)
	default:
		l.RaiseError("no such command: %s", command)
	}
	return glua.LNumber(math.Abs(float64(len(k.hash) - before))) // how many were added, or removed
}

// sorted carries out a command on a sorted set.
func (k *key) sorted(l *glua.LState, list *glua.LTable, add func(string, bool) glua.LValue, command string, args []string) glua.LValue {
	num := numbers(l, command)
	switch command {
	case "ZADD":
		score, name := num(args[0]), args[1]
		if was, ok := k.scores[name]; ok {
			i := k.find(was, name)
			k.order = slices.Delete(k.order, i, i+1)
		}
		k.order, k.scores[name] = slices.Insert(k.order, k.find(score, name), member{score, name}), score
		return glua.LNumber(1)
	case "ZREMRANGEBYRANK":
		from, to := int(num(args[0])), min(int(num(args[1]))+1, len(k.order))
		for _, m := range k.order[from:to] {
			delete(k.scores, m.name)
		}
		k.order = slices.Delete(k.order, from, to)
		return glua.LNumber(to - from)
	case "ZSCORE":
		score, ok := k.scores[args[0]]
		return add(number(score), ok)
	case "ZCARD":
		return glua.LNumber(len(k.order))
	case "ZCOUNT":
		return glua.LNumber(len(k.between(args[0], args[1], num)))
	case "ZRANGEBYSCORE", "ZREVRANGEBYSCORE": // with WITHSCORES LIMIT 0 count
		back := command == "ZREVRANGEBYSCORE"
		if back {
			args[0], args[1] = args[1], args[0]
		}
		page := k.between(args[0], args[1], num)
		for i := range min(int(num(args[5])), len(page)) {
			if back {
				i = len(page) - 1 - i
			}
			add(page[i].name, true)
			add(number(page[i].score), true)
		}
		return list
	}
	l.RaiseError("no such command: %s", command)
	return nil
}
