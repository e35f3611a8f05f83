package quota_test

import (
	"testing"

	"quotad/quota"
)

// FuzzGrantID holds that an id is read as what it was written from, in one way only, and is safe in a log of Redis.
func FuzzGrantID(f *testing.F) {
	for _, id := range []string{
		"youtube:AAAABBBBCCCCDDDD", "a:0123456789ABCDEFGHIJKLMNOPQRSTUV",
		"youtube:AAAABBBBCCCCDDD", "a:0123456789ABCDEFGHIJKLMNOPQRSTUVW",
		"", ":", "youtube:", "youtube:aaaabbbbccccdddd", "youtube:AAAABBBBCCCCDDD ", "you tube:AAAABBBBCCCCDDDD", "a:b:AAAABBBBCCCCDDDD",
		"youtube:AAAABBBBCCCCDDDÄ", "youtube:AAAA-BBBBCCCCDDDD",
	} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, text string) {
		credential, id, err := quota.ParseGrantID(text)
		if err != nil {
			if credential != "" || id != "" {
				t.Errorf("%q is refused, and read as %q and %q", text, credential, id)
			}
			return
		}
		if again := quota.GrantID(credential, id); again != text {
			t.Errorf("%q is read as %q", text, again)
		}
	})
}

// The id of a request follows from its key; without one, each is another.
func TestIDOfARequest(t *testing.T) {
	r := quota.Request{Operation: "get", Count: 1, RequestID: "a"}
	other := r
	other.RequestID = "b"
	if again := r; again.ID() != r.ID() || r.ID() == other.ID() {
		t.Errorf("got %s, %s and %s", r.ID(), r.ID(), other.ID())
	}
	r.RequestID = ""
	ids := map[quota.ID]bool{}
	for range 100 {
		ids[r.ID()], ids[quota.NewID()] = true, true
	}
	if len(ids) != 200 {
		t.Errorf("of 200 ids %d differ", len(ids))
	}
	for _, id := range []quota.ID{other.ID(), quota.NewID()} {
		if _, got, err := quota.ParseGrantID(quota.GrantID("youtube", id)); err != nil || got != id {
			t.Errorf("%q is read as %q, %v", id, got, err)
		}
	}
}
