package main

import (
	"net/url"
	"strings"
	"testing"
)

// A stolen token spends the share of its caller, or closes it. Others lose none of their calls.
func TestStolenToken(t *testing.T) {
	t.Parallel()
	d := startDistant(t, "")
	good := func(what string) {
		t.Helper()
		for n := range 5 {
			if got := d.call(d.page, "POST", "/v1/acquire", "credential=youtube&operation=videos.list"); got.status != 200 {
				t.Errorf("%s: call %d of the good caller: %d %s", what, n, got.status, got.body)
			}
		}
	}
	grant := d.call(d.shop, "POST", "/v1/acquire", "operation=videos.list").fields.GrantID
	settle := func(units string) reply { return d.call(d.shop, "POST", "/v1/grants/"+grant+"/settle", "units="+units) }
	for units, says := range map[string]string{
		"9007199254740991": "no call costs 9,007,199,254,740,991 units: limit shops has 40 in all",
		"101":              "no call costs 101 units: limit shops has 40 in all",
		"41":               "no call costs 41 units: limit shops has 40 in all",
	} {
		if got := settle(units); got.status != 409 || !strings.Contains(got.body, says) {
			t.Errorf("a settle to %s: %d %s, want 409 and %s", units, got.status, got.body, says)
		}
	}
	good("after settles that no call costs")
	d.want("another grant", d.call(d.shop, "POST", "/v1/acquire", "operation=videos.list&count=30"), 200, "")
	if got := settle("11"); got.status != 409 || !strings.Contains(got.body, "this adds 10 units, and limit shops has 9 left for this caller") {
		t.Errorf("a settle to more than the share has left: %d %s", got.status, got.body)
	}
	d.want("a settle to what the share has left", settle("10"), 200, "")
	if shops, daily := d.used("shops"), d.used("daily"); shops != 40 || daily != 45 {
		t.Errorf("the share holds %d, and all of it %d: want 40 and 45", shops, daily)
	}
	d.want("the share is spent", d.call(d.shop, "POST", "/v1/acquire", "operation=videos.list"), 429, "limit_exceeded")
	good("after the share is spent")

	observed := d.call(d.shop, "POST", "/v1/observe", "status=403&grant_id="+grant+"&body="+url.QueryEscape(`{"error":{"errors":[{"reason":"quotaExceeded"}]}}`))
	if observed.status != 200 || !strings.Contains(observed.body, `"limit":"shops"`) {
		t.Errorf("an observation: %d %s, want that it closes the share", observed.status, observed.body)
	}
	good("after an observation")

	if log := d.daemon.all(); !strings.Contains(log, `"by":"remote/shop"`) || !strings.Contains(log, `"message":"settle refused"`) {
		t.Errorf("the log does not name the caller whose settle is refused:\n%s", log)
	}
}
