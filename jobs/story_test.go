package jobs

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"quotad/quota"
	"quotad/regions"
)

var at11 = time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)

func begun(id, host string, slot time.Time, ring ...regions.Region) record {
	return record{Run: &Run{ID: id, Host: host, Trigger: Scheduled, Slot: slot, StartedAt: slot, State: RunRunning, Ring: ring}, Terms: &terms{Lease: time.Second}}
}

func passed(id string, region regions.Region, o Outcome) record {
	return passRecord(id, Pass{Region: region, Outcome: o, StartedAt: at11, EndedAt: at11})
}

func ended(id string, state RunState) record {
	return record{ID: id, End: &ending{At: at11.Add(time.Minute), State: state}}
}

// tell returns the story of lines that stand in the log of the hosts, a millisecond apart.
func tell(lines ...record) *logState {
	s := &logState{}
	s.tell(0, lines...)
	return s
}

func (s *logState) tell(after int64, lines ...record) {
	for i, one := range lines {
		s.apply(one, quota.ID{Ms: at11.UnixMilli() + after + int64(i) + 1})
	}
}

// What lines tell once they tell as well twice, one after the other or all over again.
func TestDoubledLines(t *testing.T) {
	lines := func() []record {
		cursor := regions.Cursor("DE")
		return []record{
			begun("1", "a", at11, "US", "GB"), passed("1", "US", Running), passed("1", "US", OK), passed("1", "GB", Exhausted), ended("1", RunStopped),
			{Bookmark: &bookmarked{"GB", "page 5"}}, {Pause: &Pause{Since: at11}}, {Cursor: &cursor}, begun("2", "b", at11.Add(time.Hour), "DE", "US"), passed("2", "DE", OK),
		}
	}
	once := tell(lines()...)
	if cursor, _ := once.next(); cursor != "US" || once.running() == nil || once.Bookmarks["GB"].Text != "page 5" || once.Pause == nil || !once.Slot.Equal(at11.Add(time.Hour)) {
		t.Fatalf("got the cursor at %s of %+v", cursor, once)
	}
	var twice []record
	for i, one := range lines() {
		twice = append(twice, one, lines()[i])
	}
	for name, list := range map[string][]record{"one after the other": twice, "the end of them again": append(lines(), lines()[8:]...)} {
		got := tell(list...)
		for _, s := range []*logState{once, got} {
			s.Turn, s.Paused, s.Seen, s.Alive = quota.ID{}, quota.ID{}, quota.ID{}, quota.ID{}
			s.Last.at = nil
			for region, mark := range s.Bookmarks {
				s.Bookmarks[region] = bookmark{Text: mark.Text}
			}
		}
		want, _ := json.Marshal(once)
		if is, _ := json.Marshal(got); string(is) != string(want) {
			t.Errorf("%s: got\n\t%s\nwant\n\t%s", name, is, want)
		}
	}
}

// A run that others have gone on without moves nothing any more, whatever it tells.
func TestARunThatWasLeftBehind(t *testing.T) {
	s := tell(begun("1", "a", at11, "US", "GB"), passed("1", "US", OK), record{ID: "1", End: &ending{At: at11, State: RunInterrupted, Reason: Died}},
		begun("2", "b", at11.Add(time.Hour), "GB", "US"), passed("1", "GB", OK), ended("1", RunDone))
	if cursor, _ := s.next(); cursor != "GB" || s.Last.ID != "2" || s.running() == nil || !s.Good.IsZero() {
		t.Errorf("got the cursor at %s of %+v", cursor, s)
	}
	// One that nobody has gone on without is known better by its own host.
	s = tell(begun("1", "a", at11, "US", "GB"), passed("1", "US", OK), record{ID: "1", End: &ending{At: at11, State: RunInterrupted, Reason: Died}},
		record{Run: &Run{ID: "1", Host: "a", Trigger: Scheduled, Slot: at11, State: RunDone, EndedAt: at11, Ring: regions.Ring{"US", "GB"},
			Passes: []Pass{{Region: "US", Outcome: OK}, {Region: "GB", Outcome: OK}}}})
	if cursor, _ := s.next(); cursor != "US" || s.Last.State != RunDone || s.Good.IsZero() {
		t.Errorf("got the cursor at %s of %+v", cursor, s)
	}
}

// A host whose clock is a day ahead claims a slot: the others have theirs all the same.
func TestAClaimFromTheFuture(t *testing.T) {
	s := tell(begun("1", "a", at11.Add(24*time.Hour), "US"))
	if !s.Slot.IsZero() {
		t.Errorf("the slots until %v are taken", s.Slot)
	}
	s.tell(10, begun("2", "b", at11, "US"))
	if !s.Slot.Equal(at11) {
		t.Errorf("the slots until %v are taken, want %v", s.Slot, at11)
	}
}

// The log was lost, and is told anew by hosts that knew it up to different places: whoever
// knows more of a part says so, and nothing that was taken away comes back.
func TestJoin(t *testing.T) {
	cursor := regions.Cursor("FR")
	whole := []record{
		begun("1", "a", at11, "US", "GB"), passed("1", "US", OK), ended("1", RunStopped), // 1 to 3
		{Bookmark: &bookmarked{"DE", "page 2"}}, {Bookmark: &bookmarked{"FR", "page 9"}}, // 4, 5
		{Pause: &Pause{Since: at11}},          // 6
		{Bookmark: &bookmarked{Region: "FR"}}, // 7
		{Cursor: &cursor},                     // 8
	}
	of := func(n int) *logState { return tell(whole[:n]...) }
	for _, test := range []struct {
		name         string
		told, mine   int // so many lines each of them knew
		after        []record
		more, paused bool
		cursor       regions.Cursor
		bookmarks    map[regions.Region]string
	}{
		{"the same", 8, 8, nil, false, true, "FR", map[regions.Region]string{"DE": "page 2"}},
		{"mine is older", 8, 5, nil, false, true, "FR", map[regions.Region]string{"DE": "page 2"}},
		{"mine knows more", 5, 8, nil, true, true, "FR", map[regions.Region]string{"DE": "page 2"}},
		{"they went on", 5, 8, []record{{Bookmark: &bookmarked{"US", "page 1"}}, begun("2", "b", at11.Add(time.Hour), "GB", "US")}, true, true, "GB",
			map[regions.Region]string{"DE": "page 2", "US": "page 1"}},
		{"they went on with nothing", 0, 8, []record{begun("2", "b", at11.Add(time.Hour), "US", "GB")}, true, true, "US", map[regions.Region]string{"DE": "page 2"}},
		{"nothing is there", 0, 8, nil, true, true, "FR", map[regions.Region]string{"DE": "page 2"}},
		{"mine is new", 8, 0, nil, false, true, "FR", map[regions.Region]string{"DE": "page 2"}},
	} {
		told, mine := of(test.told), of(test.mine)
		before := told.Seen
		told.tell(1000, test.after...)
		more := told.join(mine, before)
		got := map[regions.Region]string{}
		for region, mark := range told.Bookmarks {
			got[region] = mark.Text
		}
		cursor, _ := told.next()
		if more != test.more || (told.Pause != nil) != test.paused || cursor != test.cursor || !reflect.DeepEqual(got, test.bookmarks) {
			t.Errorf("%s: got more %v, paused %v, the cursor at %s, the bookmarks %q", test.name, more, told.Pause != nil, cursor, got)
		}
	}
}

// What a pass takes is measured by the last run of which one ended well: those that failed or ran
// dry say nothing.
func TestMeasured(t *testing.T) {
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	run := func(id string, passes ...Pass) record {
		return record{Run: &Run{ID: id, Job: "trending", State: RunDone, Slot: at, StartedAt: at, EndedAt: at, Passes: passes}}
	}
	s := tell(run("1", Pass{Region: "US", Outcome: OK, Made: Made{"videos.list": 4, "search.list": 1}}, Pass{Region: "GB", Outcome: OK, Made: Made{"videos.list": 3}}, Pass{Region: "DE", Outcome: Exhausted, Made: Made{"videos.list": 90}}))
	if got := s.measured(); len(got) != 2 || got["videos.list"] != 4 || got["search.list"] != 1 {
		t.Errorf("got %v", got)
	}
	s.tell(2, run("2", Pass{Region: "US", Outcome: Failed}))
	if got := s.measured(); got["videos.list"] != 4 {
		t.Errorf("after a run that failed: %v", got)
	}
	s.tell(3, run("3", Pass{Region: "US", Outcome: OK, Made: Made{"videos.list": 9}}))
	if got := s.measured(); len(got) != 1 || got["videos.list"] != 9 {
		t.Errorf("after a run that ended well: %v", got)
	}
}
