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
	m.state.SetGlobal("redis", m.state.SetFuncs(m.state.NewTable(), map[string]glua.LGFunction{"call": m.call}))
	must(m.state.DoString("local function no(_, name) error('no global variable ' .. name) end " +
		"setmetatable(_G, { __index = no, __newindex = no })"))
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

// key returns the key of a name.
func (m *Memory) key(name string) *key {
	if m.keys[name] == nil {
		m.keys[name] = &key{hash: map[string]string{}, scores: map[string]float64{}}
	}
	return m.keys[name]
}

// forget drops a log.
func (m *Memory) forget(credential string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.keys, credential+":entries")
	delete(m.keys, credential+":state")
}

// load adds grants and bookings that nothing corrects yet to a log that has been begun, the oldest first: as restore.lua
// does, but a day of them at a start within milliseconds.
func (m *Memory) load(credential string, records []journal.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	log, state := m.key(credential+":entries"), m.key(credential+":state").hash
	newest := 0.0
	for _, r := range records {
		newest = max(newest+1, float64(r.At)) // no two are the same
		log.scores[r.ID] = newest
		log.order = append(log.order, member{newest, r.ID})
		state["="+r.ID] = r.Text
	}
	if len(records) > 0 {
		state["clock"], state["count"] = strconv.FormatInt(int64(newest), 10), strconv.Itoa(len(records))
	}
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
	switch command, args := args[0], args[1:]; {
	case command == "TIME":
		now := m.now().UnixMicro()
		l.Push(listOf(l, strconv.FormatInt(now/1e6, 10), strconv.FormatInt(now%1e6, 10)))
	case command == "INFO":
		l.Push(glua.LString("run_id:memory master_replid:memory"))
	case command == "DEL":
		for _, name := range args {
			delete(m.keys, name)
		}
		return 0
	case command[0] == 'Z':
		l.Push(m.key(args[0]).sorted(l, command, args[1:]))
	default:
		l.Push(m.key(args[0]).hashed(l, command, args[1:]))
	}
	return 1
}

func listOf(l *glua.LState, texts ...string) *glua.LTable {
	list := l.CreateTable(len(texts), 0)
	for _, text := range texts {
		list.Append(glua.LString(text))
	}
	return list
}

// hashed carries out a command on a hash. What no script reads of an answer is nil.
func (k *key) hashed(l *glua.LState, command string, args []string) glua.LValue {
	list := l.CreateTable(len(args), 0)
	switch command {
	case "HGET", "HMGET":
		for _, field := range args {
			one := glua.LValue(glua.LFalse)
			if v, ok := k.hash[field]; ok {
				one = glua.LString(v)
			}
			if command == "HGET" {
				return one
			}
			list.Append(one)
		}
		return list
	case "HGETALL":
		for _, field := range slices.Sorted(maps.Keys(k.hash)) {
			list.Append(glua.LString(field))
			list.Append(glua.LString(k.hash[field]))
		}
		return list
	case "HSETNX":
		if _, there := k.hash[args[0]]; there {
			return glua.LNumber(0)
		}
		k.hash[args[0]] = args[1]
		return glua.LNumber(1)
	case "HSET":
		for i := 0; i < len(args); i += 2 {
			k.hash[args[i]] = args[i+1]
		}
	case "HDEL":
		for _, field := range args {
			delete(k.hash, field)
		}
	case "HINCRBY":
		was, err := strconv.ParseInt(cmp.Or(k.hash[args[0]], "0"), 10, 64)
		by, wrong := strconv.ParseInt(args[1], 10, 64)
		if err != nil || wrong != nil {
			l.RaiseError("%q or %q is not an integer", k.hash[args[0]], args[1])
		}
		k.hash[args[0]] = strconv.FormatInt(was+by, 10)
	case "PEXPIRE":
	default:
		l.RaiseError("no such command: %s", command)
	}
	return glua.LNil
}

// sorted carries out a command on a sorted set.
func (k *key) sorted(l *glua.LState, command string, args []string) glua.LValue {
	num := func(text string) float64 {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			l.RaiseError("%s: %q is not a number", command, text)
		}
		return f
	}
	switch command {
	case "ZADD":
		score, name := num(args[0]), args[1]
		k.order, k.scores[name] = slices.Insert(k.order, k.find(score, name), member{score, name}), score
	case "ZREMRANGEBYRANK":
		from, to := int(num(args[0])), min(int(num(args[1]))+1, len(k.order))
		for _, m := range k.order[from:to] {
			delete(k.scores, m.name)
		}
		k.order = slices.Delete(k.order, from, to)
	case "ZSCORE":
		if score, ok := k.scores[args[0]]; ok {
			return glua.LString(number(score))
		}
		return glua.LFalse
	case "ZCARD":
		return glua.LNumber(len(k.order))
	case "ZCOUNT":
		return glua.LNumber(len(k.between(args[0], args[1], num)))
	case "ZRANGEBYSCORE", "ZREVRANGEBYSCORE": // with WITHSCORES LIMIT 0 count
		back := command == "ZREVRANGEBYSCORE"
		if back {
			args[0], args[1] = args[1], args[0]
		}
		page, list := k.between(args[0], args[1], num), l.CreateTable(0, 0)
		for i := range min(int(num(args[5])), len(page)) {
			if back {
				i = len(page) - 1 - i
			}
			list.Append(glua.LString(page[i].name))
			list.Append(glua.LString(number(page[i].score)))
		}
		return list
	default:
		l.RaiseError("no such command: %s", command)
	}
	return glua.LNil
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
