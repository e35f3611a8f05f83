package config

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/upstream"
)

// A body is a refusal that somebody has shown in public, or the like of one: what quotad makes of
// it with a preset, or with a day and a minute of calls.
type body struct {
	Name, Preset, Operation string
	Status                  int
	Headers                 []string
	Body                    string
	Answers                 string // what a file says of a provider that no preset knows
	Want                    upstream.Class
	Limit, Until            string // that is closed, and for how long
}

const noPreset = `[credentials.none]
limits.daily = { units = 10_000, window = { calendar = "day", timezone = "America/Los_Angeles" } }
limits.minute = { units = 60, window = "1m" }
operations = { call = 1 }
`

// What refusals mean: the class, the limit that is closed, and until when.
func TestBodies(t *testing.T) {
	text, err := os.ReadFile("testdata/bodies.json")
	must(t, err)
	var bodies []body
	must(t, json.Unmarshal(text, &bodies))
	file := noPreset
	for _, name := range presetNames() {
		file += "[credentials." + name + "]\npreset = \"" + name + "\"\n"
	}
	for i, row := range bodies {
		if row.Answers != "" {
			file += strings.Replace(noPreset, "none", strconv.Itoa(i), 1) + "answers = { " + row.Answers + " }\n"
			bodies[i].Preset = strconv.Itoa(i)
		}
	}
	c, err := load(t, t.TempDir(), file)
	must(t, err)
	now := time.Date(2026, 9, 25, 15, 20, 0, 0, time.UTC) // 08:20 in California
	for _, row := range bodies {
		t.Run(row.Name, func(t *testing.T) {
			service, err := quota.NewService(ledgertest.NewModel(func() time.Time { return now }), c.Credentials, time.Minute)
			must(t, err)
			lines := strings.ReplaceAll(strings.Join(row.Headers, "\n"), "<unix seconds, 1465 s from now>", strconv.FormatInt(now.Unix()+1465, 10))
			_, header, err := upstream.ParseHeader(lines)
			must(t, err)
			observer := upstream.NewObserver(service, c.Profiles, func(upstream.Outcome) {})
			out, err := observer.Observe(t.Context(), upstream.Observation{Credential: row.Preset, Operation: row.Operation,
				Answer: upstream.Answer{Status: row.Status, Header: header, Body: []byte(row.Body)}})
			must(t, err)
			until := ""
			if out.Changed {
				until = out.Closed.Until.Sub(now).String()
			}
			if out.Class != row.Want || out.Limit != row.Limit || until != row.Until {
				t.Errorf("got %s %q %q, want %s %q %q", out.Class, out.Limit, until, row.Want, row.Limit, row.Until)
			}
			if out.Class != upstream.OK && out.Says == "" {
				t.Error("says nothing")
			}
		})
	}
}
