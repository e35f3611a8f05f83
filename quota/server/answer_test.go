package server

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"quotad/quota"
)

// A request that fits is refused while the log does not fill a window that was
// lengthened. Whoever reads the answer is told so.
func TestDenialWhileCatchingUp(t *testing.T) {
	until := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	day := quota.Limit{Name: "daily", Units: 100, Window: quota.Sliding(24 * time.Hour)}
	w := httptest.NewRecorder()
	WriteDecision(w, quota.Decision{
		Reason: quota.LimitExceeded, Limit: "daily", Units: 1, RetryAt: until, RetryAfter: time.Hour,
		Limits: []quota.LimitState{{Limit: day, Used: 10, Cost: 1, CatchingUp: until}},
	}.Detailed(false), false, false)
	for _, want := range []string{`"catching_up_until":"2026-11-21T09:00:00Z"`, "counts as spent until its log is as long as its window"} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%q is not in the answer %s", want, w.Body)
		}
	}
}
