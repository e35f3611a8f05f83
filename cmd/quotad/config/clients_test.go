package config

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
)

func TestClients(t *testing.T) {
	c, err := load(t, t.TempDir(), `[clients.public]
units = 60
window = "1m"
[clients.partner]
algorithm = "counter"
on_outage = "closed"
limits.minute = { units = 600, window = "1m" }
limits.day = { units = 100_000, window = "1d", enforce = false }
operations.search = 10
`)
	must(t, err)
	want := []*clientlimit.Clients{
		{Name: "public", Algorithm: clientlimit.Log, OpenOnOutage: true, Operations: map[string]quota.Units{}, Limits: []quota.Limit{{Name: "default", Units: 60, Window: quota.Sliding(time.Minute)}}},
		{Name: "partner", Algorithm: clientlimit.Counter, Operations: map[string]quota.Units{"search": 10}, Limits: []quota.Limit{
			{Name: "minute", Units: 600, Window: quota.Sliding(time.Minute)},
			{Name: "day", Units: 100_000, Window: quota.Sliding(24 * time.Hour), DryRun: true},
		}},
	}
	if !reflect.DeepEqual(c.Clients, want) {
		t.Errorf("got  %+v %+v\nwant %+v %+v", c.Clients[0], c.Clients[1], want[0], want[1])
	}
}

// What the pages show is a good file.
func TestExamplesOfThePages(t *testing.T) {
	for page, row := range map[string]struct{ begins, before string }{
		"../CLIENTS.md": {"[clients.partners]", ""}, "../PROXY.md": {"[credentials.maps.answers]", strings.Replace(noPreset, "none", "maps", 1)},
	} {
		text, err := os.ReadFile(page)
		must(t, err)
		_, rest, _ := strings.Cut(string(text), "```toml\n"+row.begins)
		block, _, found := strings.Cut(rest, "```")
		if c, err := load(t, t.TempDir(), row.before+row.begins+block); !found || err != nil || len(c.Warnings()) > 0 {
			t.Errorf("%s: %v, %v", page, found, err)
		}
	}
}
