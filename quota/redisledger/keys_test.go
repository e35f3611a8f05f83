package redisledger

import (
	"fmt"
	"strings"
	"testing"

	"quotad/quota/redisledger/redistest"
)

// rewritten returns the scripts, each changed by f.
func rewritten(scripts map[string]string, f func(string) string) map[string]string {
	for name, text := range scripts {
		scripts[name] = f(text)
	}
	return scripts
}

// onClock returns the scripts, of which those of clients read the time, in milliseconds, from a key. For tests that
// take days; a server's clock cannot be set.
func onClock(t testing.TB, key string) map[string]string {
	t.Helper()
	scripts := noQuiet()
	for _, name := range []string{"client_log", "client_counter"} {
		const text = "redis.call('TIME')"
		if strings.Count(scripts[name], text) != 1 {
			t.Fatalf("a script of clients does not read the clock once by %s", text)
		}
		ms := "redis.call('GET', " + key + ")"
		scripts[name] = strings.Replace(scripts[name], text, "{ math.floor("+ms+" / 1000), "+ms+" % 1000 * 1000 }", 1)
	}
	return scripts
}

// guard stands in front of a script and fails it when it touches a key, other
// than the one named, that was not declared. DEL alone takes several keys.
const guard = `
local declared = { [%s] = true }
for _, key in ipairs(KEYS) do declared[key] = true end
local function guarded(call)
  return function(command, ...)
    if command == 'TIME' or command == 'INFO' then return call(command, ...) end
    for i, key in ipairs({ ... }) do
      if (i == 1 or command == 'DEL') and not declared[key] then
        error(command .. ' of the undeclared key ' .. tostring(key))
      end
    end
    return call(command, ...)
  end
end
local redis = { call = guarded(redis.call), pcall = guarded(redis.pcall), sha1hex = redis.sha1hex }
`

func guarded(t testing.TB, clock string) map[string]string {
	return rewritten(onClock(t, clock), func(script string) string { return fmt.Sprintf(guard, clock) + script })
}

func TestTheGuardWorks(t *testing.T) {
	script := fmt.Sprintf(guard, "'clock'") + "redis.call('GET', 'clock') return redis.call('GET', KEYS[1] .. 'x')"
	err := connect(t, Config{Addrs: []string{redistest.Start(t).Addr}}).Eval(t.Context(), script, []string{"key"}).Err()
	if err == nil || !strings.Contains(err.Error(), "undeclared key keyx") {
		t.Errorf("got %v from a script that builds a key", err)
	}
}

// A key that is not declared is on another node of a Cluster.
func TestScriptsTouchDeclaredKeysOnly(t *testing.T) {
	scripts := rewritten(noQuiet(), func(script string) string { return fmt.Sprintf(guard, "'none'") + script })
	s, err := openStore(Config{Addrs: []string{redistest.Start(t).Addr}}, scripts)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := useScripts(t.Context(), s); err != nil {
		t.Error(err)
	}
}
