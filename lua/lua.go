package lua

import (
	_ "embed"
)

//go:embed clock.lua
var clock string // in front of each verb

// The verbs.
var (
	//go:embed append.lua
	appends string
	//go:embed claim.lua
	claim string
	//go:embed client_counter.lua
	clientCounter string
	//go:embed client_log.lua
	clientLog string
	//go:embed hold.lua
	hold string
	//go:embed load.lua
	load string
	//go:embed save.lua
	save string
)

// Scripts are the sources of all verbs, ready to be loaded.
type Scripts struct {
	Append, Claim, ClientCounter, ClientLog, Hold, Load, Save string
}

// All returns the scripts.
func All() Scripts {
	verb := func(text string) string { return clock + "\n" + text }
	return Scripts{
		Append: verb(appends), Claim: verb(claim), ClientCounter: verb(clientCounter), ClientLog: verb(clientLog),
		Hold: verb(hold), Load: verb(load), Save: verb(save),
	}
}
