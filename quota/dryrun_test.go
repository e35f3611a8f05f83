package quota_test

import (
	"testing"

	"quotad/quota"
)

// What a dry run says is so: what is missing, how many calls fit, and when all of them do.
func TestDryRun(t *testing.T) {
	k, _ := service(t)
	acquire(t, k, "videos.list", 940)
	r := quota.Request{Credential: "youtube", Operation: "videos.list", Count: 45}
	d, err := k.DryRun(t.Context(), r)
	short := d.Short(false)
	if err != nil || d.Reason != quota.LimitExceeded || d.GrantID != "" || len(short) != 1 || short[0].Missing != 35 || d.Fits(45, false) != 10 {
		t.Errorf("got %+v, %v, want 35 units missing, and room for 10 calls", d, err)
	}
	if fits := acquire(t, k, "videos.list", 11); fits.Granted() {
		t.Errorf("got %+v, want the eleventh denied", fits)
	}
	r.UseReserve = true
	if d, err := k.DryRun(t.Context(), r); err != nil || !d.Granted() || d.Short(true) != nil || d.Fits(45, true) != 60 {
		t.Errorf("got %+v, %v, want the reserve to have room", d, err)
	}
	for operation, want := range map[string]quota.Reason{"video.list": quota.UnknownOperation, "": quota.BadRequest} {
		if d, _ := k.DryRun(t.Context(), quota.Request{Credential: "youtube", Operation: operation, Count: 1}); d.Reason != want {
			t.Errorf("%q: got %+v, want %s", operation, d, want)
		}
	}
	if usage, err := k.Usage(t.Context(), "youtube"); err != nil || usage.Limits[0].Used != 940 {
		t.Errorf("got %+v, %v: a dry run moved something", usage, err)
	}
}
