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
	//go:embed swap.lua
	swap string
)

// Scripts are the sources of all verbs, ready to be loaded.
type Scripts struct {
	Append, Swap string
}

// All returns the scripts.
func All() Scripts {
	verb := func(text string) string { return clock + "\n" + text }
	return Scripts{
		Append: verb(appends), Swap: verb(swap),
	}
}
