// Package lua holds the scripts by which a ledger in Redis decides: one verb per
// file, each headed by what it takes and answers, behind one shared prelude.
package lua

import (
	_ "embed"
	"strings"
)

//go:embed prelude.lua
var prelude string

// The verbs. Each is a whole script: the prelude and the verb's own file.
var (
	//go:embed acquire.lua
	acquire string
	//go:embed adjust.lua
	adjust string
	//go:embed claim.lua
	claim string
	//go:embed count.lua
	count string
	//go:embed hold.lua
	hold string
	//go:embed load.lua
	load string
	//go:embed log.lua
	log string
	//go:embed reset.lua
	reset string
	//go:embed restore.lua
	restore string
	//go:embed save.lua
	save string
	//go:embed settle.lua
	settle string
	//go:embed usage.lua
	usage string
	//go:embed wake.lua
	wake string
	//go:embed when.lua
	when string
)

// Scripts are the sources of all verbs, ready to be loaded.
type Scripts struct {
	Acquire, Adjust, Claim, Count, Hold, Load, Log, Reset, Restore, Save, Settle, Usage, Wake, When string
}

// All returns the scripts as they run in production: on the server's clock.
func All() Scripts { return joined(prelude) }

// AllOnTestClock returns the scripts with their one clock replaced: they read
// the time, in milliseconds, from a key of that name. For tests of the ledger
// that take days; a server's clock cannot be set.
func AllOnTestClock(key string) Scripts {
	return joined(prelude + "\nclock = function() return tonumber(redis.call('GET', '" + key + "')) end\n")
}

func joined(prelude string) Scripts {
	join := func(verb string) string { return strings.Join([]string{prelude, verb}, "\n") }
	return Scripts{
		Acquire: join(acquire),
		Adjust:  join(adjust),
		Claim:   join(claim),
		Count:   join(count),
		Hold:    join(hold),
		Load:    join(load),
		Log:     join(log),
		Reset:   join(reset),
		Restore: join(restore),
		Save:    join(save),
		Settle:  join(settle),
		Usage:   join(usage),
		Wake:    join(wake),
		When:    join(when),
	}
}
