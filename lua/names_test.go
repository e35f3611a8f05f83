package lua

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// given is what a script finds in Redis and in slidinglog.Memory, as far as ours use it, and Lua's words.
const given = `KEYS ARGV redis string table math unpack ipairs
	and break do else elseif end false for function if in local nil not or return then true while`

var (
	names       = regexp.MustCompile(`[A-Za-z_]\w*`)
	localNames  = regexp.MustCompile(`\blocal (?:function )?([\w, ]+)|\bfor ([\w, ]+?) (?:=|in)`)
	parameters  = regexp.MustCompile(`\bfunction ?[\w.]*\(([\w, ]*)\)`)
	fieldBegin  = regexp.MustCompile(`^\s*=[^=]`)
	comments    = regexp.MustCompile(`--[^\n]*`)
	texts       = regexp.MustCompile(`'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|--[^\n]*`)
	calls       = regexp.MustCompile(`redis\.call\('(\w+)'(?:, ([^\n]*))?`)
	declared    = regexp.MustCompile(`^(?:KEYS\[[\dk]\]|log|state|record)$`)
	bindings    = regexp.MustCompile(`(?m)^\s*local [^=\n]*\b(?:log|state|record)\b[^=\n]* = (.*)$`)
	definitions = regexp.MustCompile(`(?m)^local function (\w+)`)
)

// code blanks out strings and comments, so that what is left is names and signs.
func code(text string) string {
	return texts.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, "--") {
			return ""
		}
		return "''"
	})
}

// unknownNames lists the names in a script that nobody has declared local: what is assigned to them would be global,
// what is read from them nothing.
func unknownNames(text string) (unknown []string) {
	text = code(text)
	known := strings.Fields(given)
	for _, expression := range []*regexp.Regexp{localNames, parameters} {
		for _, found := range expression.FindAllStringSubmatch(text, -1) {
			known = append(known, names.FindAllString(strings.Join(found[1:], " "), -1)...)
		}
	}
	for _, at := range names.FindAllStringIndex(text, -1) {
		name := text[at[0]:at[1]]
		if !isField(text, at[0], at[1]) && !isDigit(text, at[0]) && !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// isField reports whether the name at text[from:to] is one of a table's: t.name, or { name = … }.
func isField(text string, from, to int) bool {
	before := strings.TrimRight(text[:from], " \n")
	if strings.HasSuffix(before, ".") && !strings.HasSuffix(before, "..") {
		return true
	}
	inTable := strings.Count(before, "{") > strings.Count(before, "}")
	return inTable && fieldBegin.MatchString(text[to:])
}

// isDigit reports whether what begins at text[from:] is the tail of a number.
func isDigit(text string, from int) bool {
	return from > 0 && text[from-1] >= '0' && text[from-1] <= '9'
}

func TestNoGlobalNames(t *testing.T) {
	for verb, script := range loaded() {
		if unknown := unknownNames(script); unknown != nil {
			t.Errorf("%s uses the global names %q", verb, unknown)
		}
	}
	const wrong = "local a = { b = 1, c = d }\ne = a.b .. f\n" +
		"for g, h in ipairs(a) do local function i(j) return g.x + j + k end end"
	if got, want := unknownNames(wrong), []string{"d", "e", "f", "k"}; !slices.Equal(got, want) {
		t.Errorf("found the global names %q in a script made for it, want %q", got, want)
	}
}

// commands are those that slidinglog.Memory carries out.
var commands = strings.Fields(`TIME INFO DEL PEXPIRE HGET HMGET HGETALL HSET HSETNX HDEL HINCRBY
	ZADD ZREMRANGEBYRANK ZSCORE ZCARD ZCOUNT ZRANGEBYSCORE ZREVRANGEBYSCORE`)

func TestOnlyCommandsThatMemoryHas(t *testing.T) {
	for verb, script := range loaded() {
		for _, found := range calls.FindAllStringSubmatch(script, -1) {
			if !slices.Contains(commands, found[1]) && !clients(verb) {
				t.Errorf("%s calls %s: one host alone cannot", verb, found[1])
			}
		}
		if strings.Contains(script, "redis.pcall") {
			t.Errorf("%s uses pcall: one host alone cannot", verb)
		}
	}
}

// A key that is not declared is on another node of a Cluster: the key of each command is a name that was bound to one
// of KEYS, and never put together.
func TestNoKeyIsBuilt(t *testing.T) {
	for verb, text := range loaded() {
		if wrong := builtKeys(text); wrong != nil {
			t.Errorf("%s uses keys that are not declared: %q", verb, wrong)
		}
	}
	const wrong = "redis.call('GET', 'x')\nredis.call('GET', key .. 'x')\nredis.call('GET', log)\n" +
		"redis.call('DEL', KEYS[1], x)\nlocal log = x"
	if got := builtKeys(wrong); len(got) != 4 {
		t.Errorf("found %q in a script made for it, want 4 wrong places", got)
	}
}

// builtKeys lists what is given to a command as its key and is no declared one, and what else is bound to a name that
// stands for a key.
func builtKeys(text string) (wrong []string) {
	for _, found := range calls.FindAllStringSubmatch(text, -1) {
		command, arguments := found[1], found[2]
		arguments, _, _ = strings.Cut(arguments, ")")
		keys := strings.Split(arguments, ", ")
		switch command {
		case "TIME", "INFO":
			keys = nil
		case "DEL":
		default:
			keys = keys[:1]
		}
		for _, key := range keys {
			if !declared.MatchString(key) {
				wrong = append(wrong, command+" "+key)
			}
		}
	}
	for _, found := range bindings.FindAllStringSubmatch(text, -1) {
		if !strings.HasPrefix(found[1], "KEYS[") && !strings.HasPrefix(found[1], "redis.call('ZRANGE") {
			wrong = append(wrong, strings.TrimSpace(found[0]))
		}
	}
	return wrong
}
