package main

import (
	"fmt"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// What quotactl log, usage and why print, seen from one instant.
func TestAnswersOnTheScreen(t *testing.T) {
	for _, width := range []int{40, 80, 200} {
		v := viewOf(width)
		for name, got := range map[string]string{
			"log":         logTable(api.LogPage{Entries: someEntries()}, v),
			"log-empty":   logTable(api.LogPage{}, v),
			"acquired":    pairs(v, append([][2]string{{"granted", "1 unit"}, {"grant", "a-credential-with-a-long-name:P6C7MCXZRIWZH5UKP6PA"}}, particulars(someGrant())...)...),
			"reloaded":    renderReload(api.Reloaded{Changed: "3 jobs, 2 limits changed"}, v),
			"usage":       usageTable(someUsage("job"), "", v),
			"usage-limit": usageTable(someUsage("job"), "search", v),
			"usage-day":   usageTable(dailyUsage(), "", v),
			"usage-none":  usageTable(api.Usage{Credential: "youtube", By: "job", Since: at.Add(-time.Hour), Until: at}, "", v),
			"why-not":     whyPage(whyNot(), v),
			"why-reserve": whyPage(whyReserve(), v),
			"why-never":   whyPage(whyNever(), v),
			"why-fits":    whyPage(whyFits(), v),
		} {
			checkScreen(t, fmt.Sprintf("%s-%d", name, width), got, v)
		}
	}
}

func someGrant() api.Decision {
	return api.Decision{Granted: true, Units: 1, Limits: limitsAt(100, 3_900), Replayed: true, Mode: "outage"}
}

func someEntries() []api.Entry {
	entry := func(ago time.Duration, operation string, count, units int64, by, region, note string) api.Entry {
		when := at.Add(-ago)
		e := api.Entry{ID: fmt.Sprintf("youtube:R5XNI6CC%012d", when.Unix()), At: when, Operation: operation, Count: count, Units: units,
			Kind: "grant", By: by, Region: region, Note: note}
		if units > 0 {
			e.Charges = []api.Charge{{Limit: "daily", Units: units, Debited: units}}
		}
		return e
	}
	settled := entry(2*time.Hour, "search.list", 1, 40, "charts", "GB", "")
	settled.Charges[0].Debited = 100
	to := int64(40)
	settled.SettledTo = &to
	settlement := entry(time.Hour, "", 0, 0, "charts", "GB", "")
	settlement.Kind, settlement.GrantID, settlement.SettledTo = "settlement", settled.ID, &to
	booked := entry(time.Minute, "", 0, 6000, "@1000", "", "the old script runs until the end of the month, and counts on its own")
	booked.Kind = "booking"
	return []api.Entry{
		entry(20*time.Hour, "videos.list", 4, 4, "trending", "US", ""),
		settled,
		settlement,
		booked,
		entry(time.Second, "channels.list.of.a\x1b[31mfriend", 1200, 1200, "@0", "", ""),
	}
}

func someUsage(by string) api.Usage {
	share := func(name string, calls, daily, search int64) api.SpentBy {
		return api.SpentBy{Name: name, Calls: calls, Units: daily, Limits: map[string]int64{"daily": daily, "search": search}}
	}
	return api.Usage{
		Credential: "youtube", By: by, Since: at.Add(-24 * time.Hour), Until: at,
		Shares: []api.SpentBy{share("trending", 5204, 5204, 0), share("charts", 41, 3_900, 3_800), share("", 12, 12, 0), share("backfill-of-a-very-long-name", 1, 1, 0)},
		Total:  share("", 5258, 9117, 3_800),
	}
}

func dailyUsage() api.Usage {
	u := api.Usage{Credential: "youtube", By: "day", Since: at.Add(-4 * 24 * time.Hour), Until: at}
	for i, units := range []int64{412, 0, 7, 1} {
		when := at.Add(time.Duration(i-4) * 24 * time.Hour)
		u.Shares = append(u.Shares, api.SpentBy{Name: when.Format(time.DateOnly), Calls: units, Units: units})
		u.Total.Calls += units
		u.Total.Units += units
	}
	u.Total.WouldDeny = map[string]int64{"daily": 3}
	return u
}

func limitsAt(daily, search int64) []api.Limit {
	return []api.Limit{
		{Name: "daily", Units: 10_000, Reserve: 500, Used: daily, Remaining: max(0, 9_500-daily), Window: "24h", WindowMs: 86_400_000, Describe: "in any 24h"},
		{Name: "search", Units: 4_000, Used: search, Remaining: max(0, 4_000-search), Window: "24h", WindowMs: 86_400_000, Describe: "in any 24h"},
	}
}

func whyNot() whyBody {
	retry := at.Add(3*time.Hour + 11*time.Minute + 17250*time.Millisecond)
	return whyBody{Request: api.AcquireRequest{Credential: "youtube", Operation: "search.list", Count: 3}, Decision: api.Decision{
		Units: 300, Reason: "limit_exceeded", Limit: "daily", Detail: "no room for 300 units in limit daily, which has 140 left",
		RetryAt: &retry, Fits: 1, KeyRefused: "The project \x1b[31mis suspended.",
		Missing: []quota.Shortage{{Limit: "daily", Missing: 160}, {Limit: "search", Closed: quota.Closed{Until: at.Add(time.Hour), Says: "gone"}}},
	}}
}

func whyReserve() whyBody {
	w := whyNot()
	w.ReserveGrants, w.Missing, w.KeyRefused = true, w.Missing[:1], ""
	return w
}

func whyNever() whyBody {
	return whyBody{Request: api.AcquireRequest{Operation: "search.list", Count: 50}, Decision: api.Decision{
		Units: 5_000, Reason: "cost_exceeds_limit", Limit: "search", Detail: "5,000 units can never fit limit search of 4,000 units"}}
}

func whyFits() whyBody {
	return whyBody{Request: api.AcquireRequest{Operation: "videos.list", Count: 1}, Decision: api.Decision{Granted: true, Units: 1, Fits: 5_380}}
}

func TestPercent(t *testing.T) {
	for _, row := range []struct {
		part, whole int64
		want        string
	}{{0, 0, "0%"}, {0, 9, "0%"}, {1, 1000, "<1%"}, {1, 100, "1%"}, {999, 1000, "99%"}, {1000, 1000, "100%"}, {1500, 1000, "150%"}, {1 << 52, 1<<53 - 1, "50%"}} {
		if got := percent(row.part, row.whole); got != row.want {
			t.Errorf("%d of %d: got %s, want %s", row.part, row.whole, got, row.want)
		}
	}
}
