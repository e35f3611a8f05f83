package store

import (
	"strings"
	"testing"
)

// A video's raw form is what upstream wrote, whichever was packed before, and a fraction of it.
func TestRawIsWhatUpstreamWrote(t *testing.T) {
	var p packer
	long := strings.Repeat("a description that is longer than the window of deflate ", 1_000)
	for _, row := range []struct{ name, raw, texts string }{
		{"empty", "", ""},
		{"no texts", `{"id":"a"}`, ""},
		{"as usual", usual, "title"},
		{"texts once more", `{"snippet":{"title":"some words","description":"and some more of them"}}`, "some words\nchannel\n\nand some more of them"},
		{"texts of 56 KB", `{"snippet":{"description":"` + long + `"}}`, long},
	} {
		t.Run(row.name, func(t *testing.T) {
			packed, err := p.pack(row.raw, row.texts)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := unpack(packed, row.texts); err != nil || string(got) != row.raw {
				t.Errorf("got %.100q, %v, want %.100q", got, err, row.raw)
			}
			if len(row.raw) > 1_000 && len(packed) > len(row.raw)/10 {
				t.Errorf("%d bytes take %d", len(row.raw), len(packed))
			}
		})
	}
}
