package upstream_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"quotad/cmd/ytfetch/upstream"
)

// The books: a request without a known key costs nothing, what is beyond the quota is refused as documented, and the day
// begins at midnight in California in winter.
func TestBooks(t *testing.T) {
	now := time.Date(2026, 12, 1, 7, 59, 59, 0, time.UTC)
	u := upstream.New(upstream.Config{Quota: 102, Key: "right", Now: func() time.Time { return now }})
	for _, row := range []struct {
		name, path, key string
		status          int
		reason          string
		units           int // charged then
	}{
		{"no key", "/videos?part=snippet&chart=mostPopular", "", 403, "dailyLimitExceededUnreg", 0},
		{"another key", "/videos?part=snippet&chart=mostPopular", "wrong", 403, "dailyLimitExceededUnreg", 0},
		{"a page", "/videos?part=snippet&chart=mostPopular", "right", 200, "", 1},
		{"what is invalid", "/videos?part=snippet&chart=mostPopular&maxResults=51", "right", 400, "invalidParameter", 2},
		{"a search", "/search?part=snippet&q=golden&type=video", "right", 200, "", 102},
		{"one too many", "/videos?part=snippet&chart=mostPopular", "right", 403, "quotaExceeded", 102},
		{"a new day", "/videos?part=snippet&chart=mostPopular", "right", 200, "", 1},
	} {
		if row.name == "a new day" {
			now = now.Add(time.Second)
		}
		client := http.Client{Transport: u}
		answer, err := client.Get("http://sample" + upstream.Path + row.path + "&key=" + row.key)
		if err != nil {
			t.Fatal(err)
		}
		var said struct {
			Error struct{ Errors []struct{ Reason string } }
		}
		err = json.NewDecoder(answer.Body).Decode(&said)
		reason := ""
		if len(said.Error.Errors) > 0 {
			reason = said.Error.Errors[0].Reason
		}
		if units := u.Counts().Units; err != nil || answer.StatusCode != row.status || reason != row.reason || units != row.units {
			t.Errorf("%s: got %d %q, %v, and %d units are charged", row.name, answer.StatusCode, reason, err, units)
		}
	}
}
