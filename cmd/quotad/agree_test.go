package main

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
)

// Windows of a day hold all that the test spends, however slow the host is.
const agreeing = `
[ledger]
%s
[credentials.api.limits.daily]
units = 3_000
reserve = 100
[credentials.api.limits.search]
units = 1_000
only = ["search"]
[credentials.api.operations]
search = { daily = 100, search = 40 }
list = 1
`

// Whatever is acquired, settled, released, booked and reset: the status, the usage, the
// log, why, the metrics, and the rate of quotactl are the same.
func TestFiguresAgree(t *testing.T) {
	seedtest.SkipUnderRace(t)
	t.Parallel()
	_, client := startWith(t, fmt.Sprintf(agreeing, onRedis(redistest.Start(t).Addr)))
	f := &figures{T: t, Client: client, random: rand.New(rand.NewPCG(seedtest.Seed(t, 1), 1))}
	for range seedtest.Long(t, 8) {
		for range 15 {
			f.step()
		}
		f.agree()
	}
	if f.full == 0 || f.paced == 0 {
		t.Errorf("%d checks met a limit that was full, and %d a pace: this history says nothing", f.full, f.paced)
	}
}

// figures are in the middle of a random history.
type figures struct {
	*testing.T
	*api.Client
	random      *rand.Rand
	grants      []string
	full, paced int // how many checks met that
}

func (f *figures) step() {
	f.Helper()
	var err error
	switch f.random.IntN(8) {
	case 0:
		limit := []string{"daily", "search"}[f.random.IntN(2)]
		_, err = f.Book(f.Context(), "api", api.Booking{Limit: limit, Units: 1 + f.random.Int64N(100), Note: "checked"})
	case 1:
		if len(f.grants) > 0 {
			_, err = f.Settle(f.Context(), f.grants[f.random.IntN(len(f.grants))], f.random.Int64N(400))
		}
	case 2:
		if len(f.grants) > 0 {
			_, err = f.Release(f.Context(), f.grants[f.random.IntN(len(f.grants))])
		}
	case 3:
		if f.random.IntN(4) == 0 {
			_, err = f.Reset(f.Context(), "api", "begun anew")
			f.grants = f.grants[:0]
		}
	default:
		r := api.AcquireRequest{Credential: "api", Operation: []string{"list", "search"}[f.random.IntN(2)], Count: 1 + f.random.Int64N(8)}
		var d api.Decision
		if d, err = f.Acquire(f.Context(), r); d.Granted {
			f.grants = append(f.grants, d.GrantID)
		}
	}
	must(f.T, err)
}

func (f *figures) agree() {
	f.Helper()
	status, err := f.Status(f.Context())
	must(f.T, err)
	usage, err := f.Usage(f.Context(), "api", api.UsageQuery{By: "operation"})
	must(f.T, err)
	log, err := f.Log(f.Context(), api.LogQuery{Credential: "api", Most: 1000})
	must(f.T, err)
	metrics := scrape(f.T, f.Client)
	for _, limit := range status.Credentials[0].Limits {
		series := func(name string) float64 {
			return metrics[fmt.Sprintf("quotad_limit_%s{credential=\"api\",limit=%q}", name, limit.Name)]
		}
		for what, got := range map[string]int64{
			"usage":                      usage.Total.Limits[limit.Name],
			"the log":                    inLog(log.Entries, limit.Name),
			"the gauge of what is used":  int64(series("used_units")),
			"units but for what is left": limit.Units - limit.Reserve - f.number("status", "api", limit.Name, "-o", "value") + max(0, limit.Used-(limit.Units-limit.Reserve)),
		} {
			if got != limit.Used {
				f.Errorf("limit %s has %d units used, by %s %d", limit.Name, limit.Used, what, got)
			}
		}
		if got := int64(series("left_units")); got != limit.Remaining {
			f.Errorf("limit %s has %d units left, in the metrics %d", limit.Name, limit.Remaining, got)
		}
		f.rateAgrees(limit, ofCalls(log.Entries, limit.Name))
	}
	if f.Failed() {
		f.FailNow()
	}
}

// inLog sums what the lines of the log count in a limit.
func inLog(entries []api.Entry, limit string) (sum int64) {
	for _, e := range entries {
		if e.Kind == "reset" { // what is older counts no more
			sum = 0
		}
		for _, charge := range e.Charges {
			if charge.Limit == limit {
				sum += charge.Units
			}
		}
	}
	return sum
}

// ofCalls sums what the calls in the log cost in a limit, as they were settled.
func ofCalls(entries []api.Entry, limit string) (sum int64) {
	for _, e := range entries {
		if e.Kind != "grant" {
			continue
		}
		var greatest int64
		for _, charge := range e.Charges {
			greatest = max(greatest, charge.Debited)
		}
		for _, charge := range e.Charges {
			switch {
			case charge.Limit != limit:
			case e.SettledTo == nil:
				sum += charge.Debited
			case charge.Debited == greatest:
				sum += *e.SettledTo
			default:
				sum += min(charge.Debited, *e.SettledTo)
			}
		}
	}
	return sum
}

// quotactl runs a command, and returns what it prints with one space between words.
func (f *figures) quotactl(args ...string) string {
	f.Helper()
	output, err := exec.Command("quotactl", append([]string{"--socket", f.Socket}, args...)...).CombinedOutput()
	if err != nil {
		f.Fatalf("quotactl %q: %v: %s", args, err, output)
	}
	return strings.Join(strings.Fields(string(output)), " ")
}

func (f *figures) number(args ...string) int64 {
	f.Helper()
	n, err := strconv.ParseInt(f.quotactl(args...), 10, 64)
	must(f.T, err)
	return n
}

var rateText = regexp.MustCompile(`(used up at about)|([0-9,]+) in the last hour`)

// rateAgrees holds that what is shown of the last hour is what the calls cost, and that the limit is used up within a day
// if that goes on: there are no jobs, and the test is over within an hour. It may be a little older than what is used.
func (f *figures) rateAgrees(limit api.Limit, spent int64) {
	f.Helper()
	var text string
	var said []string
	eventually(f.T, func() bool {
		text = f.quotactl("status", "api", limit.Name)
		said = rateText.FindStringSubmatch(text)
		return said == nil && (spent == 0 || limit.Remaining == 0) || said != nil && (said[1] != "" || said[2] == quota.Thousands(spent))
	})
	if limit.Remaining == 0 && spent > 0 {
		f.full++ // when units come back is said in place of the pace
	}
	if said == nil {
		return
	}
	f.paced++
	hours := float64(limit.Remaining) / float64(spent)
	if gone := said[1] != ""; gone && (limit.Remaining == 0 || hours > 25) || !gone && limit.Remaining > 0 && hours < 4 {
		f.Errorf("limit %s has what lasts %.1f hours, and quotactl shows %q", limit.Name, hours, text)
	}
}
