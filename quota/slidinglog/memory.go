package slidinglog

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	glua "github.com/yuin/gopher-lua"
	luaparse "github.com/yuin/gopher-lua/parse"

	"quotad/lua"
	"quotad/quota/journal"
)

// A Memory is the Engine of one host alone. It runs the same scripts as Redis, over hashes and sorted sets in memory,
// by the commands that the scripts use; any other command is an error. No script has a global variable, and nothing
// expires.
type Memory struct {
	now func() time.Time

	mu      sync.Mutex // guards what follows, and is held while a script runs
	state   *glua.LState
	scripts map[Script]*glua.LFunction
	keys    map[string]*key
}

// A key is a hash, or a sorted set: members by their times, of which no two are the same.
type key struct {
	hash  map[string]string
	times map[string]int64
	order []member
}

type member struct {
	at   int64
	name string
}

// NewMemory returns an empty one on a clock.
func NewMemory(now func() time.Time) *Memory {
	bounds := lua.Usual()
	bounds.QuietMicros = 0 // no other host has anything to put back
	return NewMemoryOf(now, lua.All(bounds))
}

// NewMemoryOf returns an empty one that runs other sources: a test's.
func NewMemoryOf(now func() time.Time, sources map[string]string) *Memory {
	m := &Memory{now: now, scripts: map[Script]*glua.LFunction{}, keys: map[string]*key{}}
	m.state = glua.NewState(glua.Options{SkipOpenLibs: true})
	for _, open := range []glua.LGFunction{glua.OpenBase, glua.OpenTable, glua.OpenString, glua.OpenMath} {
		open(m.state)
	}
	m.state.SetTop(0)
	m.state.SetGlobal("redis", m.state.SetFuncs(m.state.NewTable(), map[string]glua.LGFunction{"call": m.call}))
	must(m.state.DoString("local function no(_, name) error('no global variable ' .. name) end " +
		"setmetatable(_G, { __index = no, __newindex = no })"))
	for name, text := range sources {
		m.scripts[Script(name)] = m.state.NewFunctionFromProto(compile(text))
	}
	return m
}

// compiled has scripts by their texts: it takes longer to compile them than to decide a thousand calls.
var compiled sync.Map

func compile(text string) *glua.FunctionProto {
	if f, known := compiled.Load(text); known {
		return f.(*glua.FunctionProto)
	}
	chunk, err := luaparse.Parse(strings.NewReader(text), "")
	must(err)
	f, err := glua.Compile(chunk, "")
	must(err)
	compiled.Store(text, f)
	return f
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
	texts := make([]string, len(args))
	for i, arg := range args {
		texts[i] = fmt.Sprint(arg)
	}
	m.state.G.Global.RawSetString("KEYS", listOf(m.state, credential+":entries", credential+":state"))
	m.state.G.Global.RawSetString("ARGV", listOf(m.state, texts...))
	if err := m.state.CallByParam(glua.P{Fn: m.scripts[s], NRet: 1, Protect: true}); err != nil {
		return nil, fmt.Errorf("script %s of credential %s: %w", s, credential, err)
	}
	defer m.state.SetTop(0)
	reply := replyOf(m.state.Get(-1))
	if list, isList := reply.([]any); isList {
		return list, nil
	}
	return []any{reply}, nil
}

// replyOf converts what a script returned, as Redis does: an integer is cut off, and a table ends at a nil.
func replyOf(v glua.LValue) any {
	switch v := v.(type) {
	case glua.LNumber:
		return int64(v)
	case glua.LString:
		return string(v)
	case *glua.LTable:
		list := []any{}
		for i := 1; v.RawGetInt(i) != glua.LNil; i++ {
			list = append(list, replyOf(v.RawGetInt(i)))
		}
		return list
	}
	return nil
}

func listOf(l *glua.LState, texts ...string) *glua.LTable {
	list := l.CreateTable(len(texts), 0)
	for _, text := range texts {
		list.Append(glua.LString(text))
	}
	return list
}

// load begins another log with the grants and bookings of a journal, the oldest first: as restore.lua does, but a day
// of them within milliseconds. It returns what that script has to put back: corrections, and ids that are known.
func (m *Memory) load(credential string, records []journal.Record) (rest []journal.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.keys, credential+":entries") // of a credential that was removed, and is back
	delete(m.keys, credential+":state")
	log, state, newest := m.key(credential+":entries"), m.key(credential+":state").hash, int64(0)
	for _, r := range records {
		if log.times[r.ID] > 0 || strings.Contains(r.ID, "/") || !strings.HasPrefix(r.Text, " ") {
			rest = append(rest, r)
			continue
		}
		newest = max(newest+1, r.At)
		log.times[r.ID], log.order = newest, append(log.order, member{newest, r.ID})
		state["="+r.ID] = r.Text
	}
	state["epoch"], state["server"] = rand.Text(), "memory"
	state["clock"], state["count"] = strconv.FormatInt(newest, 10), strconv.Itoa(len(log.order))
	return rest
}

// key returns the key of a name.
func (m *Memory) key(name string) *key {
	if m.keys[name] == nil {
		m.keys[name] = &key{hash: map[string]string{}, times: map[string]int64{}}
	}
	return m.keys[name]
}

// call is redis.call.
func (m *Memory) call(l *glua.LState) int {
	args := make([]string, l.GetTop())
	for i := range args {
		switch v := l.Get(i + 1).(type) {
		case glua.LString:
			args[i] = string(v)
		case glua.LNumber:
			args[i] = strconv.FormatInt(int64(v), 10)
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

// hashed carries out a command on a hash. What no script reads of an answer is nil.
func (k *key) hashed(l *glua.LState, command string, args []string) glua.LValue {
	get := func(field string) glua.LValue {
		if v, ok := k.hash[field]; ok {
			return glua.LString(v)
		}
		return glua.LFalse
	}
	switch command {
	case "HGET":
		return get(args[0])
	case "HMGET":
		list := l.CreateTable(len(args), 0)
		for _, field := range args {
			list.Append(get(field))
		}
		return list
	case "HGETALL":
		list := l.NewTable()
		for _, field := range slices.Sorted(maps.Keys(k.hash)) {
			list.Append(glua.LString(field))
			list.Append(get(field))
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
		sum := integer(l, cmp.Or(k.hash[args[0]], "0")) + integer(l, args[1])
		k.hash[args[0]] = strconv.FormatInt(sum, 10)
	case "PEXPIRE":
	default:
		l.RaiseError("no such command: %s", command)
	}
	return glua.LNil
}

// sorted carries out a command on a sorted set.
func (k *key) sorted(l *glua.LState, command string, args []string) glua.LValue {
	switch command {
	case "ZADD":
		at, name := integer(l, args[0]), args[1]
		k.order, k.times[name] = slices.Insert(k.order, k.find(at), member{at, name}), at
	case "ZREMRANGEBYRANK":
		from, to := integer(l, args[0]), integer(l, args[1])+1
		for _, m := range k.order[from:to] {
			delete(k.times, m.name)
		}
		k.order = slices.Delete(k.order, int(from), int(to))
	case "ZSCORE":
		if at, ok := k.times[args[0]]; ok {
			return glua.LString(strconv.FormatInt(at, 10))
		}
		return glua.LFalse
	case "ZCARD":
		return glua.LNumber(len(k.order))
	case "ZCOUNT":
		return glua.LNumber(len(k.between(l, args[0], args[1])))
	case "ZRANGEBYSCORE": // with WITHSCORES LIMIT 0 count
		page := k.between(l, args[0], args[1])
		return pageOfMembers(l, page[:min(len(page), int(integer(l, args[5])))])
	case "ZREVRANGEBYSCORE":
		page := k.between(l, args[1], args[0])
		page = slices.Clone(page[max(0, len(page)-int(integer(l, args[5]))):])
		slices.Reverse(page)
		return pageOfMembers(l, page)
	default:
		l.RaiseError("no such command: %s", command)
	}
	return glua.LNil
}

func pageOfMembers(l *glua.LState, page []member) *glua.LTable {
	list := l.CreateTable(2*len(page), 0)
	for _, m := range page {
		list.Append(glua.LString(m.name))
		list.Append(glua.LString(strconv.FormatInt(m.at, 10)))
	}
	return list
}

func integer(l *glua.LState, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		l.RaiseError("%q is not an integer", text)
	}
	return n
}

// find returns the index of the first member that is not before a time.
func (k *key) find(at int64) int {
	i, _ := slices.BinarySearchFunc(k.order, at, func(m member, at int64) int { return cmp.Compare(m.at, at) })
	return i
}

// between returns the members between two bounds: 5, (5, -inf, +inf.
func (k *key) between(l *glua.LState, low, high string) []member {
	bound := func(text string, open int64) int64 {
		switch number, isOpen := strings.CutPrefix(text, "("); {
		case text == "-inf":
			return math.MinInt64
		case text == "+inf":
			return math.MaxInt64 - 1
		case isOpen:
			return integer(l, number) + open
		default:
			return integer(l, number)
		}
	}
	from := k.find(bound(low, 1))
	return k.order[from:max(from, k.find(bound(high, -1)+1))]
}
