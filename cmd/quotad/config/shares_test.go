package config

import (
	"strings"
	"testing"
)

// What shares come to is told before they are used.
func TestWarningsOfShares(t *testing.T) {
	const file = `
[credentials.api]
limits.pool = { units = 100, reserve = 10 }
SHARES
operations = { list = 2, search = 20 }
[jobs.a]
credential = "api"
regions = ["US"]
schedule = "manual"
command = ["fetch"]
[jobs.b]
credential = "api"
regions = ["US"]
schedule = "manual"
command = ["fetch"]
`
	for _, row := range []struct{ name, shares, want string }{
		{"well", `limits.cap = { units = 30, jobs = ["a"] }`, ""},
		{"too small for any call", `limits.cap = { units = 1, jobs = ["a"] }`, "4: warning: credentials.api.limits.cap.units: the jobs that it counts can make no call: the cheapest, list, costs 2 units"},
		{"as large as the pool", `limits.cap = { units = 90, jobs = ["a"] }`, "4: warning: credentials.api.limits.cap.units: it denies nothing before limit pool does, which has 90 for jobs"},
		{"parts that are more than the pool", "limits.one = { units = 40, except_jobs = [\"a\"] }\nlimits.two = { units = 30, except_jobs = [\"b\"] }",
			"5: warning: credentials.api.limits.two.units: more is kept for some jobs than limit pool has: 110 of 90"},
		{"of another window", `limits.cap = { units = 900, jobs = ["a"], window = "7d" }`, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := said(t, t.TempDir(), edited(t, file, "SHARES", row.shares)); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
	c, err := load(t, t.TempDir(), strings.Replace(file, "SHARES", "limits.cap = { units = 30, jobs = [\"a\"] }\nlimits.others = { units = 60, except_jobs = [\"b\"] }", 1))
	must(t, err)
	for job, want := range map[string]string{"a": "can have at most 30 of pool", "b": "can have at most 90 of pool, 30 of it kept for b"} {
		if got := strings.Join(Counts(c.Credentials[0], job, false), "\n"); got != want {
			t.Errorf("job %s: got %q, want %q", job, got, want)
		}
	}
}
