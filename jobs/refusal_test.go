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
		word      Reason
		want      string
	}{
		{quota.LimitExceeded, false, "not_launched", "no room"},
		{quota.LimitExceeded, true, "not_launched", "no room, with the passes under way"},
		{quota.LimitClosed, false, "closed", "no room"},
	} {
		got := refusal(quota.Decision{Reason: row.reason, Detail: "no room", RetryAt: tomorrow}, row.spokenFor)
		if got.Reason != row.word || got.Detail != row.want || !got.RetryAt.Equal(tomorrow) {
			t.Errorf("got %+v, want %s, %q, until tomorrow", *got, row.word, row.want)
		}
	}
}
