package quota_test

import (
	"testing"

	"quotad/quota"
)

// FuzzGrantID holds that an id is read as what it was written from, in one way only.
func FuzzGrantID(f *testing.F) {
	for _, id := range []string{
		"youtube:mwqbzgxn-0", "a:0-0", "a:1y2p0ij32e8e7-1y2p0ij32e8e7",
		"", ":", "youtube:", ":1-0", "youtube:01-0", "youtube:1-+0", "youtube:-1-0", "you tube:1-0", "a:b:1-0", "youtube:1y2p0ij32e8e8-0", "youtube:MWQX-0",
	} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, text string) {
		credential, id, err := quota.ParseGrantID(text)
		if err != nil {
			if credential != "" || !id.IsZero() {
				t.Errorf("%q is refused, and read as %q and %v", text, credential, id)
			}
			return
		}
		if again := quota.GrantID(credential, id); again != text {
			t.Errorf("%q is read as %q", text, again)
		}
		if err := quota.CheckName(credential); err != nil {
			t.Errorf("%q names a credential: %v", text, err)
		}
		if id.Ms < 0 || id.Seq < 0 {
			t.Errorf("%q names an entry before the beginning: %v", text, id)
		}
	})
}
