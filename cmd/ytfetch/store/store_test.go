package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func openTest(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// FTS5's own comparison of its index with what stands in the videos.
		if err := s.exec("INSERT INTO search (search, rank) VALUES ('integrity-check', 1)"); err != nil {
			t.Errorf("the index of words is not of these videos: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// video is an item as upstream answers it.
func video(id, title string, more map[string]any) json.RawMessage {
	snippet := map[string]any{"title": title, "channelTitle": "channel of " + id, "description": "", "publishedAt": noon}
	for name, value := range more {
		snippet[name] = value
	}
	raw, err := json.Marshal(map[string]any{"id": id, "snippet": snippet, "statistics": map[string]any{"viewCount": "7"}, "contentDetails": map[string]any{"duration": "PT4M13S"}})
	if err != nil {
		panic(err)
	}
	return raw
}

func (s *Store) mustSave(t *testing.T, p Page) {
	t.Helper()
	if p.Region == "" {
		p.Region = "DE"
	}
	if p.At.IsZero() {
		p.At = noon
	}
	if p.Slot.IsZero() {
		p.Slot = p.At
	}
	if p.Number == 0 {
		p.Number, p.First = 1, 1
	}
	if err := s.Save(p); err != nil {
		t.Fatal(err)
	}
}

// finds returns the ids of what a search finds, the best first.
func (s *Store) finds(t *testing.T, q Query) []string {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 100
	}
	found, err := s.Search(t.Context(), q)
	if err != nil {
		t.Fatalf("%.40q: %v", q.Words, err)
	}
	ids := []string{}
	for _, hit := range found.Hits {
		ids = append(ids, hit.ID)
	}
	return ids
}

func (s *Store) count(t *testing.T, table string) (n int64) {
	t.Helper()
	if err := s.query("SELECT count(*) FROM "+table, nil, func(row *sqlite3.Stmt) { n = row.ColumnInt64(0) }); err != nil {
		t.Fatal(err)
	}
	return n
}

// find returns the video with an id.
func (s *Store) find(t *testing.T, id string) Video {
	t.Helper()
	number := int64(-1)
	if err := s.query("SELECT number FROM videos WHERE id = ?", []any{id}, func(row *sqlite3.Stmt) { number = row.ColumnInt64(0) }); err != nil || number < 0 {
		t.Fatalf("%s is not stored: %v", id, err)
	}
	v, err := s.video(number)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// places returns where a video was: region, query, rank and views, the oldest first.
func (s *Store) places(t *testing.T, id string) (list []string) {
	t.Helper()
	const sql = "SELECT region || ' ' || query || ' ' || rank || ' ' || coalesce(appearances.views, 'none') FROM appearances JOIN videos ON number = video WHERE id = ? ORDER BY region, query, slot"
	if err := s.query(sql, []any{id}, func(row *sqlite3.Stmt) { list = append(list, row.ColumnText(0)) }); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestVideoIsKeptWithAllThatIsKnown(t *testing.T) {
	s := openTest(t)
	s.mustSave(t, Page{Items: []json.RawMessage{[]byte(`{"id":"a",
	"snippet":{"publishedAt":"2026-11-20T10:00:00Z","channelId":"UC1","title":"Ein Lied","description":"of <b>it</b>","channelTitle":"Die Kapelle","tags":["x, y","z"],"categoryId":"10"},
	"contentDetails":{"duration":"P1DT2H3M4S"},"statistics":{"viewCount":"9007199254740993","likeCount":"5"}}`)}, Next: "CDIQAA"})
	text, err := json.Marshal(s.find(t, "a"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"id":"a","title":"Ein Lied","channel":"Die Kapelle","channel_id":"UC1","category":"10","tags":["x, y","z"],"description":"of \u003cb\u003eit\u003c/b\u003e",` +
		`"published":"2026-11-20T10:00:00Z","duration_s":93784,"views":9007199254740993,"likes":5,"first_seen":"2026-11-21T12:00:00Z","last_seen":"2026-11-21T12:00:00Z","regions":["DE"]}`
	if string(text) != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	if got, want := s.places(t, "a"), []string{"DE  1 9007199254740993"}; !slices.Equal(got, want) {
		t.Errorf("got places %q, want %q", got, want)
	}
}

// A video that is fetched again has one row: the newest counts, since the first time.
// Its words are indexed again when they changed, and only then.
func TestVideoThatIsFetchedAgainIsOne(t *testing.T) {
	s := openTest(t)
	later := noon.Add(30 * time.Minute)
	s.mustSave(t, Page{Items: []json.RawMessage{video("a", "old words", nil), video("b", "other words", nil)}})
	s.mustSave(t, Page{Items: []json.RawMessage{video("b", "other words", nil), video("a", "new words", nil)}, At: later})
	if n := s.count(t, "videos"); n != 2 {
		t.Errorf("got %d videos, want 2", n)
	}
	if got := s.find(t, "a"); got.Title != "new words" || !got.FirstSeen.Equal(noon) || !got.LastSeen.Equal(later) {
		t.Errorf("got %+v", got)
	}
	if got, want := s.places(t, "a"), []string{"DE  1 7", "DE  2 7"}; !slices.Equal(got, want) {
		t.Errorf("got places %q, want %q", got, want)
	}
	for words, want := range map[string][]string{"old": {}, "new": {"a"}, "other": {"b"}} {
		if got := s.finds(t, Query{Words: words}); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", words, got, want)
		}
	}
}

// Thirty days of charts are a fraction of what their videos take.
func TestSizeFollowsVideosNotSlots(t *testing.T) {
	s := openTest(t)
	items := []json.RawMessage{}
	for i := range 50 {
		items = append(items, video(fmt.Sprintf("video-%06d", i), fmt.Sprintf("title %d", i), map[string]any{"description": strings.Repeat("some words of it ", 100)}))
	}
	size := func() int64 {
		var pages, bytes int64
		if err := s.query("PRAGMA page_count", nil, func(row *sqlite3.Stmt) { pages = row.ColumnInt64(0) }); err != nil {
			t.Fatal(err)
		}
		if err := s.query("PRAGMA page_size", nil, func(row *sqlite3.Stmt) { bytes = row.ColumnInt64(0) }); err != nil {
			t.Fatal(err)
		}
		return pages * bytes
	}
	s.mustSave(t, Page{Items: items})
	one := size()
	const slots = 20
	for i := range slots {
		s.mustSave(t, Page{Items: items, At: noon.Add(time.Duration(i+1) * 30 * time.Minute)})
	}
	if grown := size() - one; grown > slots*50*80 {
		t.Errorf("%d further charts of the same videos took %d bytes beside %d", slots, grown, one)
	}
}

func TestPageTakesThePlaceOfThePage(t *testing.T) {
	s := openTest(t)
	page := func(first int, ids string, next string) Page {
		p := Page{Number: first/50 + 1, First: first, Next: next}
		for _, id := range strings.Fields(ids) {
			p.Items = append(p.Items, video(id, id, nil))
		}
		return p
	}
	ranks := func() string {
		var list []string
		if err := s.query("SELECT rank, id FROM appearances JOIN videos ON video = number ORDER BY rank", nil, func(row *sqlite3.Stmt) {
			list = append(list, row.ColumnText(0)+row.ColumnText(1))
		}); err != nil {
			t.Fatal(err)
		}
		return strings.Join(list, " ")
	}
	for _, step := range []struct {
		page Page
		want string
	}{
		{page(1, "a b c", "x"), "1a 2b 3c"},
		{page(51, "d e", "y"), "1a 2b 3c 51d 52e"},
		{page(101, "f", ""), "1a 2b 3c 51d 52e 101f"},
		{page(1, "g", "x"), "1g 51d 52e 101f"},
		{page(51, "h", ""), "1g 51h"},
	} {
		s.mustSave(t, step.page)
		if got := ranks(); got != step.want {
			t.Errorf("after page %d: got %s, want %s", step.page.Number, got, step.want)
		}
	}
}

// A page with something that is no video is not stored, nor any part of it.
func TestPageIsStoredAsAWhole(t *testing.T) {
	s := openTest(t)
	chart := Chart{Region: "DE", Slot: noon}
	for _, wrong := range []string{`{"id":""}`, `{}`, `"a"`, `null`} {
		err := s.Save(Page{Chart: chart, Number: 1, First: 1, At: noon, Items: []json.RawMessage{video("a", "a", nil), json.RawMessage(wrong)}})
		if err == nil || !strings.Contains(err.Error(), "item 2 is not a video") {
			t.Errorf("%s: got %v", wrong, err)
		}
	}
	if progress, err := s.Progress(chart); err != nil || progress.Pages != 0 || s.count(t, "videos") != 0 {
		t.Errorf("got %+v, %v, want nothing stored", progress, err)
	}
}

func TestProgressOfAChart(t *testing.T) {
	s := openTest(t)
	chart := Chart{Region: "DE", Slot: noon, Arguments: "x"}
	for number, next := range []string{"two", "three", ""} {
		s.mustSave(t, Page{Chart: chart, Number: number + 1, First: number*50 + 1, Next: next, At: noon.Add(time.Duration(number) * time.Second)})
		got, err := s.Progress(chart)
		if want := (Progress{number + 1, next, next == ""}); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		_, _, found, err := s.Latest(chart)
		if err != nil || found != (next == "") {
			t.Errorf("page %d: found %v, %v", number+1, found, err)
		}
	}
	for _, other := range []Chart{{Region: "FR", Arguments: "x"}, {Region: "DE", Arguments: "y"}, {Region: "DE", Query: "q", Arguments: "x"}} {
		if _, _, found, err := s.Latest(other); err != nil || found {
			t.Errorf("%v: found %v, %v", other, found, err)
		}
	}
}

// A page of what a query finds has the rank of each video, and rows of those that are new.
func TestPageOfAQuery(t *testing.T) {
	s := openTest(t)
	s.mustSave(t, Page{Items: []json.RawMessage{video("known", "a word", nil)}})
	ids := []string{"new", "gone", "known"}
	if unknown, err := s.Unknown(ids); err != nil || !slices.Equal(unknown, ids[:2]) {
		t.Errorf("got %v, %v, want the first two", unknown, err)
	}
	later := noon.Add(time.Hour)
	page := Page{Chart: Chart{Region: "DE", Query: "word", Slot: noon}, At: later, Found: ids, Items: []json.RawMessage{video("new", "a word", nil)}}
	for range 2 { // once more takes its place
		s.mustSave(t, page)
	}
	for id, want := range map[string][]string{"new": {"DE word 1 7"}, "known": {"DE  1 7", "DE word 3 none"}} {
		if got := s.places(t, id); !slices.Equal(got, want) {
			t.Errorf("%s: got places %q, want %q", id, got, want)
		}
		got := s.find(t, id)
		if told := map[string]time.Time{"new": later, "known": noon}[id]; !got.LastSeen.Equal(told) {
			t.Errorf("%s: seen at %v, want %v: upstream was asked for the new one alone", id, got.LastSeen, told)
		}
	}
	if _, err := s.Purge(later.Add(time.Second)); err != nil || s.count(t, "charts") != 0 || s.count(t, "appearances") != 0 {
		t.Errorf("%v: %d charts and %d appearances are left, want none", err, s.count(t, "charts"), s.count(t, "appearances"))
	}
}

func TestFileOfAnotherVersionIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	for _, row := range []struct {
		version int
		want    string
	}{{99, "a newer ytfetch made it (version 99, here 5): install that version again, or remove it"}, {1, "an older ytfetch made it"}} {
		path := filepath.Join(dir, FileName)
		os.Remove(path)
		s, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.exec(fmt.Sprintf("PRAGMA user_version = %d", row.version)), s.Close()); err != nil {
			t.Fatal(err)
		}
		for name, open := range map[string]func(string) (*Store, error){"open": Open, "read": OpenExisting} {
			if _, err := open(dir); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%s: got %v, want %q", name, err, row.want)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, FileName), []byte("this is no SQLite file, but some text\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "not a database") {
		t.Errorf("got %v, want that it is no database", err)
	}
	if _, err := OpenExisting(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v, want that there is none", err)
	}
}

func TestSeconds(t *testing.T) {
	for text, want := range map[string]int64{"PT4M13S": 253, "PT1H": 3600, "P1DT2H3M4S": 93784, "PT0S": 0, "P0D": 0, "P1W": 604800} {
		if got := seconds(text); got == nil || *got != want {
			t.Errorf("%s: got %v, want %d", text, got, want)
		}
	}
	for _, text := range []string{"", "P", "4M", "PT4", "PTM", "P4M", "PT4D", "PT-1S", "PT99999999999S"} {
		if got := seconds(text); text != "P" && got != nil {
			t.Errorf("%q: got %d, want none", text, *got)
		}
	}
}
