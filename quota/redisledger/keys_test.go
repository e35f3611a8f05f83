package redisledger

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"quotad/lua"
	"quotad/quota/ledgertest"
	"quotad/quota/redisledger/redistest"
)

// rewritten returns the scripts changed by f, each of them, also those that are
// added later.
func rewritten(t testing.TB, scripts lua.Scripts, f func(string) string) lua.Scripts {
	t.Helper()
	text, err := json.Marshal(scripts)
	if err != nil {
		t.Fatal(err)
	}
	var verbs map[string]string
	if err := json.Unmarshal(text, &verbs); err != nil {
		t.Fatal(err)
	}
	for verb, script := range verbs {
		verbs[verb] = f(script)
	}
	if text, err = json.Marshal(verbs); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &scripts); err != nil {
		t.Fatal(err)
	}
	return scripts
}

// guard stands in front of a script and fails it when it touches a key, other
// than the one named, that was not declared. DEL alone takes several keys.
const guard = `
local declared = { ['%s'] = true }
for _, key in ipairs(KEYS) do declared[key] = true end
local redis = { call = function(command, ...)
  if command == 'TIME' then return redis.call('TIME') end
  for i, key in ipairs({ ... }) do
    if (i == 1 or command == 'DEL') and not declared[key] then
      error(command .. ' of the undeclared key ' .. tostring(key))
    end
  end
  return redis.call(command, ...)
end }
`

func guarded(t testing.TB, clock string) lua.Scripts {
	return rewritten(t, lua.AllOnTestClock(clock), func(script string) string { return fmt.Sprintf(guard, clock) + script })
}

func TestEveryKeyIsDeclared(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	config := Config{Addrs: []string{server.Addr}}
	ledgertest.Run(t, opener{config: config, clocks: []string{"clock"}, scripts: guarded}.harness())

	t.Run("the guard works", func(t *testing.T) {
		script := fmt.Sprintf(guard, "clock") + "redis.call('GET', 'clock') return redis.call('GET', KEYS[1] .. 'x')"
		err := connect(t, config).Eval(t.Context(), script, []string{"key"}).Err()
		if err == nil || !strings.Contains(err.Error(), "undeclared key keyx") {
			t.Errorf("got %v from a script that builds a key", err)
		}
	})
}
