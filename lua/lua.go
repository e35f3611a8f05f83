package lua

import (
	_ "embed"
	"strconv"
	"strings"
)

// The parts, in the order in which they are joined.
var (
	//go:embed clock.lua
	clock string
	//go:embed known.lua
	known string
	//go:embed pages.lua
	pages string
	//go:embed settle.lua
	settle string
	//go:embed server.lua
	server string
	//go:embed acquire.lua
	acquire string
	//go:embed correct.lua
	correct string
	//go:embed walk.lua
	walk string
	//go:embed restore.lua
	restore string
	//go:embed declare.lua
	declare string
	//go:embed mirror.lua
	mirror string
	//go:embed hosts.lua
	hosts string
	//go:embed client_log.lua
	clientLog string
	//go:embed client_counter.lua
	clientCounter string
)

// Bounds are what one call may do: entries that an acquire reads, those of a walk, of the first page, and those that
// are trimmed at once; and for how long a new log, or one on another server, grants nothing.
type Bounds struct {
	Work, Walk, Page, Trim int
	QuietMicros            int64
}

// Usual are the bounds outside of tests. The quiet time is two polls of each host.
func Usual() Bounds { return Bounds{Work: 500, Walk: 100, Page: 10, Trim: 200, QuietMicros: 2_000_000} }

// Scripts are the sources of all verbs, ready to be loaded.
type Scripts struct {
	Acquire, Correct, Walk, Restore, Declare, Mirror, Hosts, ClientLog, ClientCounter string
}

// All returns the scripts.
func All(b Bounds) Scripts {
	n := func(n int) string { return strconv.Itoa(n) }
	front := strings.NewReplacer("$WORK", n(b.Work), "$WALK", n(b.Walk), "$PAGE", n(b.Page), "$TRIM", n(b.Trim),
		"$QUIET", strconv.FormatInt(b.QuietMicros, 10)).Replace(clock)
	verb := func(parts ...string) string { return front + "\n" + strings.Join(parts, "\n") }
	return Scripts{
		Acquire: verb(known, pages, acquire), Correct: verb(known, settle, correct), Walk: verb(pages, walk),
		Restore: verb(server, settle, restore), Declare: verb(server, declare), Mirror: verb(pages, mirror),
		Hosts: verb(hosts), ClientLog: clientLog, ClientCounter: clientCounter,
	}
}
