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
	//go:embed client_swap.lua
	clientSwap string
)

// Scripts are the sources of all verbs, ready to be loaded.
type Scripts struct {
	Append, ClientSwap string
}

// All returns the scripts.
func All() Scripts {
	verb := func(text string) string { return clock + "\n" + text }
	return Scripts{
		Append: verb(appends), ClientSwap: verb(clientSwap),
	}
}
