package jobs

import (
	"testing"
	"time"

	"quotad/quota"
)

func TestWhatTheGateSays(t *testing.T) {
	tomorrow := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		reason    quota.Reason
		spokenFor bool
		want      string
	}{
		{quota.LimitExceeded, false, "a pass does not fit: no room"},
		{quota.LimitExceeded, true, "a pass with those under way does not fit: no room"},
		{quota.LimitClosed, false, "no room"},
	} {
		got := refusal(quota.Decision{Reason: row.reason, Detail: "no room", RetryAt: tomorrow}, row.spokenFor)
		if got.reason != Unaffordable || got.detail != row.want || !got.retryAt.Equal(tomorrow) {
			t.Errorf("got %+v, want unaffordable, %q, until tomorrow", *got, row.want)
		}
	}
}
