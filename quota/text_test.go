package quota_test

import (
	"testing"

	"quotad/quota"
)

func TestCount(t *testing.T) {
	for _, row := range []struct {
		n    int64
		want string
	}{
		{0, "0 calls"}, {1, "1 call"}, {2, "2 calls"}, {-1, "-1 calls"}, {999, "999 calls"}, {1000, "1,000 calls"},
		{-999, "-999 calls"}, {-1000, "-1,000 calls"}, {-100_000, "-100,000 calls"}, {1_234_567, "1,234,567 calls"},
		{int64(quota.MaxUnits), "9,007,199,254,740,991 calls"},
	} {
		if got := quota.Count(row.n, "call", "calls"); got != row.want {
			t.Errorf("%d: %q, want %q", row.n, got, row.want)
		}
	}
	if got := quota.Units(1).Text(); got != "1 unit" {
		t.Errorf("one unit is %q", got)
	}
}
