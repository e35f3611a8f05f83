package jobs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/regions"
)

// A job needs three passes to get through twelve pages: each goes on where the one
// before it was denied, over a restart and a kill; what is done is forgotten.
func TestBookmark(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trendingIn(t, 2)
		b := newBed(t, dir, job)
		found := map[string][]string{}
		hang := make(chan struct{})
		play := func(b *bed) func(context.Context, played) Exit {
			return func(_ context.Context, p played) Exit {
				mark := ""
				if i := slices.IndexFunc(p.Env, func(v string) bool { return strings.HasPrefix(v, "QUOTAD_BOOKMARK=") }); i >= 0 {
					_, mark, _ = strings.Cut(p.Env[i], "=")
				}
				found[p.region] = append(found[p.region], mark)
				if p.region != "US" {
					return Exit{}
				}
				next := map[string]string{"": "page 5", "page 5": "page 9", "page 9": ""}[mark]
				if next == "" {
					return Exit{}
				}
				if err := b.SetBookmark("trending", "US", "", next); err != nil {
					t.Error(err)
				}
				if mark == "page 5" {
					<-hang // until it is killed
					return Exit{}
				}
				b.deny(p)
				return Exit{Code: ExitExhausted}
			}
		}
		b.play = play(b)
		b.run()
		if got, err := b.Bookmark("trending", "US"); err != nil || got != "page 5" {
			t.Errorf("got %q, %v", got, err)
		}
		b.stop()
		b = newBed(t, dir, job)
		b.play = play(b)
		b.tick()
		next := b.killed(job)
		next.play = play(next)
		next.run()
		if want := []string{"", "page 5", "page 9"}; !slices.Equal(found["US"], want) || !slices.Equal(found["GB"], []string{""}) {
			t.Errorf("the passes found %q, want %q for US and nothing for GB", found, want)
		}
		if got, err := next.Bookmark("trending", "US"); err != nil || got != "" {
			t.Errorf("got %q, %v of what is done", got, err)
		}
		if got := next.killed(job).states["trending"].state.Bookmarks; len(got) != 0 {
			t.Errorf("on disk there is %q", got)
		}
		close(hang)
	})
}

func TestBookmarkIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		for _, test := range []struct {
			name, region, text string
			want               error
		}{
			{"another region", "XX", "page 5", ErrUnknown},
			{"too long", "US", strings.Repeat("x", MaxBookmark+1), ErrInvalid},
			{"no text", "US", "\xff", ErrInvalid},
			{"a NUL", "US", "a\x00b", ErrInvalid},
			{"as long as may be", "US", strings.Repeat("x", MaxBookmark), nil},
		} {
			if err := b.SetBookmark("trending", regions.Region(test.region), "", test.text); !errors.Is(err, test.want) {
				t.Errorf("%s: got %v, want %v", test.name, err, test.want)
			}
		}
		time.Sleep(time.Second)
	})
}
