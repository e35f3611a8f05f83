package config

import (
	"strings"
	"testing"
)

const twoHungry = `
[credentials.youtube.limits.daily]
units = 100
[credentials.youtube.operations]
"videos.list" = 1

[jobs.one]
credential = "youtube"
regions = ["US", "GB"]
every = "1h"
expects = { "videos.list" = 60 }
command = ["fetch"]

[jobs.two]
credential = "youtube"
regions = ["US", "GB"]
every = "1h"
command = ["fetch"]
`

// Where no change of one job is enough, it is the limit that is told of.
func TestWarnings(t *testing.T) {
	for _, row := range []struct {
		name, more string
		want       string // after the file
	}{
		{"a job that expects nothing in particular", "", `:11: warning: jobs.one.expects."videos.list": the jobs ask for 2880 units of youtube daily in one window, ` +
			`and for 2940 when passes are late; 100 are for them: they run dry; 2 videos.list for a pass of one instead of 60 would do, or one every 72h instead of 1h`},
		{"two that each ask for more than there is", `expects = { "videos.list" = 100 }`, `:2: warning: credentials.youtube.limits.daily: ` +
			`the jobs ask for 7680 units of youtube daily in one window, and for 7840 when passes are late; 100 are for them: they run dry; no single change is enough`},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, err := load(t, t.TempDir(), twoHungry+row.more)
			if err != nil {
				t.Fatal(err)
			}
			warnings := c.Warnings()
			if len(warnings) != 1 || strings.TrimPrefix(warnings[0].Warning(), c.File) != row.want {
				t.Errorf("got %v, want %s", warnings, row.want)
			}
		})
	}
}
