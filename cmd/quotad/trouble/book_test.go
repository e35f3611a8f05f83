package trouble

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A history is what a book reports of a list that comes and goes. At each step some troubles are there.
type history struct {
	*testing.T
	Book
	now      time.Time
	reported []string
}

func (h *history) step(after time.Duration, there ...string) {
	h.now = h.now.Add(after)
	var list []Trouble
	for _, of := range there {
		list = append(list, Trouble{Kind: Failing, Of: of})
	}
	h.report(h.Update(list, h.now), true)
}

// report reports of changes; their commands run at once, or never.
func (h *history) report(changes []Change, runs bool) {
	for _, c := range changes {
		if !runs {
			continue
		}
		h.reported = append(h.reported, map[bool]string{false: "+", true: "-"}[c.Ended]+c.Of)
		h.Reported(c)
	}
}

// again goes on as after a restart, with what the file has.
func (h *history) again() {
	data, err := json.Marshal(h.Entries)
	if err != nil {
		h.Fatal(err)
	}
	h.Book = Book{}
	if err := json.Unmarshal(data, &h.Entries); err != nil {
		h.Fatal(err)
	}
	h.report(h.Resume(h.now), true)
}

func (h *history) wants(want ...string) {
	h.Helper()
	if !slices.Equal(h.reported, want) {
		h.Errorf("reported %q, want %q", h.reported, want)
	}
	h.reported = nil
}

func TestABook(t *testing.T) {
	const look = 10 * time.Second
	begin := func(t *testing.T) *history { return &history{T: t, now: now} }
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
	t.Run("since when", func(t *testing.T) {
		h := begin(t)
		h.step(0, "a")
		h.step(time.Hour, "a")
		h.again()
		h.step(time.Hour, "a")
		if since := h.Dated([]Trouble{{Kind: Failing, Of: "a"}, {Kind: Failing, Of: "b", Since: ago(time.Hour)}, {Kind: Failing, Of: "c"}}, h.now); !since[0].Since.Equal(now) || !since[1].Since.Equal(ago(time.Hour)) || !since[2].Since.Equal(h.now) {
			t.Errorf("got %+v", since)
		}
	})
	t.Run("ten restarts in trouble", func(t *testing.T) {
		h := begin(t)
		for range 10 {
			h.step(look, "a", "b")
			h.again()
			h.step(look, "a", "b")
		}
		h.wants("+a", "+b")
		h.again()
		h.step(50*time.Second, "b")
		h.wants()
		h.step(look, "b")
		h.wants("-a")
	})
	t.Run("killed before the command ran", func(t *testing.T) {
		h := begin(t)
		list := []Trouble{{Kind: Failing, Of: "a"}}
		h.report(h.Update(list, h.now), false)
		h.again()
		h.wants("+a")
		h.now = h.now.Add(over)
		h.report(h.Update(nil, h.now), false)
		h.again()
		h.wants("-a")
		h.again()
		h.wants()
		h.report(h.Update(list, h.now), false)
		h.report(h.Update(nil, h.now.Add(over)), false)
		h.again()
		h.wants("+a", "-a")
		if len(h.Entries) > 0 {
			t.Errorf("the book keeps %+v", h.Entries)
		}
	})
	t.Run("back before its end was reported", func(t *testing.T) {
		h := begin(t)
		h.step(0, "a")
		ended := h.Update(nil, now.Add(over))
		h.step(2*over, "a") // the command for the end waits still
		h.report(ended, true)
		h.step(look, "a")
		h.wants("+a", "+a", "-a")
		if !h.Has(Failing, "a") {
			t.Error("it is forgotten, though it is there")
		}
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

// The book has one entry for each name, whatever happens: 500 limits that are closed and opened for a day.
func TestABookStaysSmall(t *testing.T) {
	var b Book
	size := 0
	for i := range 2000 {
		var list []Trouble
		for n := range 500 {
			if (i/10+n)%2 == 0 {
				list = append(list, Trouble{Kind: Closed, Of: fmt.Sprint("limit api ", n), Says: strings.Repeat("x", i%100)})
			}
		}
		b.Update(list, now.Add(time.Duration(i)*10*time.Second)) // no command ever ends
		size = max(size, len(b.Entries))
	}
	if size > 500 {
		t.Errorf("the book has %d entries", size)
	}
}
