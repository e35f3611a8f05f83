package config

import (
	"testing"
	"time"

	"quotad/quota"
)

// The log has an entry for as long as keep says, and without it for ten minutes, where limits count for shorter.
func TestKeep(t *testing.T) {
	for _, row := range []struct {
		name, keep string
		lasts      time.Duration
	}{
		{"a day", "keep = \"1d\"\n", 24 * time.Hour},
		{"ten minutes", "keep = \"10m\"\n", 10 * time.Minute},
		{"without", "", 10 * time.Minute},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := newCapped(t, "[credentials.api]\n"+row.keep+"limits.minute = { units = 9, window = \"1m\" }\noperations.list = 1\n")
			c.granted("backfill", "list", 9)
			for _, at := range []struct {
				after time.Duration
				has   bool
			}{{row.lasts - time.Second, true}, {row.lasts / 10, false}} {
				c.clock.Add(at.after)
				c.granted("trending", "list", 9)
				has := false
				must(t, c.service.Walk(t.Context(), "api", time.Unix(0, 0), func(e quota.Entry) bool {
					has = has || e.By == "backfill"
					return true
				}))
				if has != at.has {
					t.Errorf("%v later, the log has the first grant: %v, want %v", at.after, has, at.has)
				}
			}
		})
	}
}
