package lua

import (
	_ "embed"
	"strings"
)

// The parts that verbs share.
var (
	//go:embed clock.lua
	clock string
	//go:embed grant.lua
	grant string
	//go:embed account.lua
	account string
	//go:embed entries.lua
	entries string
	//go:embed index.lua
	index string
	//go:embed view.lua
	view string
	//go:embed corrections.lua
	corrections string
)

// The verbs.
var (
	//go:embed acquire.lua
	acquire string
	//go:embed adjust.lua
	adjust string
	//go:embed claim.lua
	claim string
	//go:embed client_counter.lua
	clientCounter string
	//go:embed client_log.lua
	clientLog string
	//go:embed close.lua
	closes string
	//go:embed count.lua
	count string
	//go:embed fence.lua
	fence string
	//go:embed hold.lua
	hold string
	//go:embed load.lua
	load string
	//go:embed merge.lua
	merge string
	//go:embed replay.lua
	replay string
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
)

// Scripts are the sources of all verbs, ready to be loaded.
type Scripts struct {
	Acquire, Adjust, Claim, ClientCounter, ClientLog, Close, Count, Fence, Hold, Load, Merge, Replay, Reset, Restore, Save, Settle, Usage string
}

// All returns the scripts, each with the parts that it needs.
func All() Scripts {
	join := func(parts ...string) string { return strings.Join(append([]string{clock}, parts...), "\n") }
	log := strings.Join([]string{account, entries, index, view}, "\n")
	return Scripts{
		Acquire:       join(grant, log, acquire),
		Adjust:        join(log, corrections, adjust),
		Claim:         join(claim),
		ClientCounter: join(clientCounter),
		ClientLog:     join(clientLog),
		Close:         join(log, corrections, closes),
		Count:         join(log, corrections, count),
		Fence:         join(log, fence),
		Hold:          join(hold),
		Load:          join(load),
		Merge:         join(log, corrections, merge),
		Replay:        join(log, corrections, replay),
		Reset:         join(log, corrections, reset),
		Restore:       join(log, corrections, restore),
		Save:          join(save),
		Settle:        join(log, corrections, settle),
		Usage:         join(log, usage),
	}
}
