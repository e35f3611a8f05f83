package trouble

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A history is what a book reports of a list that comes and goes. At each step some troubles are there, named "of" or
// "of cause".
type history struct {
	*testing.T
	Book
	now      time.Time
	reported []string
}

func (h *history) step(after time.Duration, there ...string) {
	h.now = h.now.Add(after)
	var list []Trouble
	for _, one := range there {
		of, cause, _ := strings.Cut(one, " ")
		list = append(list, Trouble{Kind: Failing, Of: of, Cause: cause})
	}
	for _, c := range h.Update(list, h.now) {
		text := map[bool]string{false: "+", true: "-"}[c.Ended] + strings.TrimSpace(c.Of+" "+c.Cause)
		if c.Again {
			text += "?"
		}
		h.reported = append(h.reported, text)
	}
}

func (h *history) wants(want ...string) {
	h.Helper()
	if !slices.Equal(h.reported, want) {
		h.Errorf("reported %q, want %q", h.reported, want)
	}
	h.reported = nil
}

// What began after the start was not reported before it, however late the first look is.
func TestFirstLook(t *testing.T) {
	b := Book{Began: now}
	list := []Trouble{{Of: "before", Since: now.Add(-time.Hour)}, {Of: "after", Since: now.Add(time.Second)}, {Of: "unknown"}}
	for i, c := range b.Update(list, now.Add(time.Minute)) {
		if want := i != 1; c.Again != want {
			t.Errorf("%s: again is %v, want %v", c.Of, c.Again, want)
		}
	}
}

func TestABook(t *testing.T) {
	const look = 10 * time.Second
	begin := func(t *testing.T) *history {
		h := &history{T: t, now: now}
		h.step(0)
		return h
	}
	t.Run("it begins once, and is over after a minute", func(t *testing.T) {
		h := begin(t)
		h.step(look, "a")
		h.step(look, "a", "b")
		for range 5 {
			h.step(look, "b")
		}
		h.wants("+a", "+b")
		h.step(look, "b")
		h.wants("-a")
		h.step(look, "a", "b")
		h.wants("+a")
	})
	t.Run("it comes and goes", func(t *testing.T) {
		h := begin(t)
		for range 100 {
			h.step(look, "a")
			h.step(50 * time.Second)
		}
		h.wants("+a")
	})
	t.Run("another cause is another trouble", func(t *testing.T) {
		h := begin(t)
		h.step(look, "a full")
		h.step(time.Hour, "a away")
		h.wants("+a full", "+a away", "-a full")
		if since := h.Dated([]Trouble{{Kind: Failing, Of: "a", Cause: "away"}}, h.now)[0].Since; !since.Equal(h.now) {
			t.Errorf("since %v, want %v", since, h.now)
		}
	})
	t.Run("since when", func(t *testing.T) {
		h := begin(t)
		h.step(0, "a")
		h.step(time.Hour, "a")
		if since := h.Dated([]Trouble{{Kind: Failing, Of: "a"}, {Kind: Failing, Of: "b", Since: ago(time.Hour)}, {Kind: Failing, Of: "c"}}, h.now); !since[0].Since.Equal(now) || !since[1].Since.Equal(ago(time.Hour)) || !since[2].Since.Equal(h.now) {
			t.Errorf("got %+v", since)
		}
	})
	t.Run("after a restart what lasts comes again", func(t *testing.T) {
		h := &history{T: t, now: now}
		h.step(0, "a")
		h.step(look, "a", "b")
		h.wants("+a?", "+b")
	})
	t.Run("a clock that steps", func(t *testing.T) {
		h := begin(t)
		h.step(0, "a", "b")
		h.step(-time.Hour, "a")
		h.step(50*time.Second, "a")
		h.wants("+a", "+b")
		h.step(look, "a")
		h.wants("-b")
		h.step(24*time.Hour, "a")
		h.wants()
	})
}
