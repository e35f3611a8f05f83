package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
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
	if q.Most == 0 {
		q.Most = 100
	}
	hits, err := s.Search(t.Context(), q)
	if err != nil {
		t.Fatalf("%.40q: %v", q.Words, err)
	}
	ids := []string{}
	for _, hit := range hits {
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

func TestVideoIsKeptWithAllThatIsKnown(t *testing.T) {
	s := openTest(t)
	s.mustSave(t, Page{Items: []json.RawMessage{[]byte(`{"id":"a",
	"snippet":{"publishedAt":"2026-11-20T10:00:00Z","channelId":"UC1","title":"Ein Lied","description":"of <b>it</b>","channelTitle":"Die Kapelle","tags":["x, y","z"],"categoryId":"10"},
	"contentDetails":{"duration":"P1DT2H3M4S"},"statistics":{"viewCount":"9007199254740993","likeCount":"5"}}`)}, Next: "CDIQAA"})
	got, err := s.Show("a")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"id":"a","title":"Ein Lied","channel":"Die Kapelle","channel_id":"UC1","category":"10","tags":["x, y","z"],"description":"of \u003cb\u003eit\u003c/b\u003e",` +
		`"published":"2026-11-20T10:00:00Z","duration_s":93784,"views":9007199254740993,"likes":5,"first_seen":"2026-11-21T12:00:00Z","last_seen":"2026-11-21T12:00:00Z","regions":["DE"],` +
		`"stays":[{"region":"DE","charts":1,"first":"2026-11-21T12:00:00Z","last":"2026-11-21T12:00:00Z","best_rank":1,"last_rank":1,"last_views":9007199254740993}],` +
		`"raw":{"id":"a","snippet":{"publishedAt":"2026-11-20T10:00:00Z","channelId":"UC1","title":"Ein Lied","description":"of \u003cb\u003eit\u003c/b\u003e","channelTitle":"Die Kapelle","tags":["x, y","z"],"categoryId":"10"},` +
		`"contentDetails":{"duration":"P1DT2H3M4S"},"statistics":{"viewCount":"9007199254740993","likeCount":"5"}}}`
	if string(text) != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	if _, err := s.Show("b"); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v, want ErrUnknown", err)
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
	got, err := s.Show("a")
	if err != nil || got.Title != "new words" || !got.FirstSeen.Equal(noon) || !got.LastSeen.Equal(later) {
		t.Errorf("got %+v, %v", got, err)
	}
	if want := []Stay{{Region: "DE", Charts: 2, First: noon, Last: later, BestRank: 1, LastRank: 2, LastViews: count("7")}}; fmt.Sprint(*got.Stays[0].LastViews) != "7" || got.Stays[0].BestRank != want[0].BestRank || got.Stays[0].LastRank != 2 || got.Stays[0].Charts != 2 {
		t.Errorf("got %+v, want %+v", got.Stays, want)
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
		if err == nil || !strings.Contains(err.Error(), "item 2 is no video") {
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
		if want := (Progress{noon, number + 1, next, next == ""}); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		_, _, found, err := s.Latest("DE", "x")
		if err != nil || found != (next == "") {
			t.Errorf("page %d: found %v, %v", number+1, found, err)
		}
	}
	for _, other := range [][2]string{{"FR", "x"}, {"DE", "y"}} {
		if _, _, found, err := s.Latest(other[0], other[1]); err != nil || found {
			t.Errorf("%v: found %v, %v", other, found, err)
		}
	}
}

func TestSearchFindsWords(t *testing.T) {
	s := openTest(t)
	s.mustSave(t, Page{Items: []json.RawMessage{
		video("title", "Über den Flüssen", nil),
		video("tag", "something", map[string]any{"tags": []string{"flüsse", "Uber"}}),
		video("description", "something else", map[string]any{"description": strings.Repeat("long ", 40) + "uber die flussen"}),
		video("cyrillic", "Тихий Дон", nil), video("cjk", "東京 タワー", nil), video("mixed", "c++ & AC/DC: don't stop", nil),
	}})
	for _, row := range []struct {
		name, words string
		want        string
	}{
		{"accents and case do not count", "UBER FLUSSEN", "title description"},
		{"all words, in any order", "flussen uber", "title description"},
		{"a beginning", "fluss*", "title tag description"},
		{"not a beginning", "fluss", ""},
		{"the title before the description", "uber", "title tag description"},
		{"cyrillic", "дон", "cyrillic"}, {"cjk", "東京", "cjk"}, {"the beginning of a word without spaces", "タワ*", "cjk"},
		{"signs part words", "ac/dc", "mixed"}, {"a sign alone is none", "c++ & stop", "mixed"}, {"apostrophe", "don't", "mixed"},
		{"quotes", `"uber" "den`, "title"}, {"operators are words", "uber AND den", ""}, {"columns are words", "title:uber", ""},
		{"a word that is not there", "uber nowhere", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := s.finds(t, Query{Words: row.words})
			slices.Sort(got)
			want := strings.Fields(row.want)
			if row.name == "the title before the description" {
				got = s.finds(t, Query{Words: row.words})
			} else {
				slices.Sort(want)
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
	hits, err := s.Search(t.Context(), Query{Words: "flussen", Most: 1})
	if want := []Part{{"Über den ", false}, {"Flüssen", true}}; err != nil || !slices.Equal(hits[0].Highlight.Title, want) {
		t.Errorf("got %+v, %v, want %+v", hits, err, want)
	}
}

func TestSearchWithinARegionAndATime(t *testing.T) {
	s := openTest(t)
	for i, region := range []string{"DE", "FR", "DE"} {
		at := noon.AddDate(0, 0, i)
		s.mustSave(t, Page{Chart: Chart{Region: region}, At: at, Items: []json.RawMessage{video(fmt.Sprint(region, i), "word", nil), video("both", "word", nil)}})
	}
	for _, row := range []struct {
		query Query
		want  string
	}{
		{Query{}, "DE0 DE2 FR1 both"}, {Query{Region: "DE"}, "DE0 DE2 both"}, {Query{Region: "US"}, ""},
		{Query{Since: noon.AddDate(0, 0, 1)}, "DE2 FR1 both"}, {Query{Region: "FR", Since: noon.AddDate(0, 0, 2)}, ""},
		{Query{Region: "DE", Since: noon.AddDate(0, 0, 1)}, "DE2 both"},
	} {
		row.query.Words = "word"
		got := s.finds(t, row.query)
		slices.Sort(got)
		if strings.Join(got, " ") != row.want {
			t.Errorf("%+v: got %v, want %s", row.query, got, row.want)
		}
	}
}

// Whatever is typed is a search for words, and never an error of the query's syntax.
func TestOddInputIsSearchedAsWords(t *testing.T) {
	s := openTest(t)
	s.mustSave(t, Page{Items: []json.RawMessage{video("a", "🎵 word \x00 NEAR * and \x1b[31mmore 🎵", nil)}})
	odd := []string{
		`"`, `""`, `word"`, `"word`, `wo"rd`, "*", "**", "word**", "^word", "-word", "+word", "word OR", "NOT", "NEAR(", "NEAR(word, 2)", "(word", "word)", "{title}: word",
		"title:", ":", "a:b:c", "\x00", "word\x00more", "🎵", "word 🎵", "'; DROP TABLE videos; --", "\xff\xfe", "word\xff", "\u202eword", "\ufdd0word\ufdd1", "\U000E0001", "e\u0301", "word" + strings.Repeat("\u0301", 300),
		strings.Repeat("x", 10_000), strings.Repeat("x ", 5_000), strings.Repeat(`"*(`, 3_333), strings.Repeat("word ", 2_000), strings.Repeat("🎵", 2_500), distinct(2_000),
	}
	random := rand.New(rand.NewPCG(16, 1))
	alphabet := []rune("\"*(){}^+-:,' \x00\t\n🎵wordNEARANDORNOT\u0301\u200d東日\ufdd0\x1b")
	for range 300 {
		text := make([]rune, random.IntN(40))
		for i := range text {
			text[i] = alphabet[random.IntN(len(alphabet))]
		}
		odd = append(odd, string(text))
	}
	for _, words := range odd {
		s.finds(t, Query{Words: words})
		s.finds(t, Query{Words: words, Region: "DE", Since: noon})
	}
	for _, words := range []string{`"word`, "word 🎵", "(word", "word\x00near", "-word", strings.Repeat("word ", 2_000), "wor**", "NEAR", "\xffword"} {
		if got := s.finds(t, Query{Words: words}); !slices.Equal(got, []string{"a"}) {
			t.Errorf("%.40q: got %v, want the video", words, got)
		}
	}
	if HasWords(`"*(🎵)`) || !HasWords("🎵 7") {
		t.Error("a word has a letter or a digit")
	}
}

func distinct(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "w%d ", i)
	}
	return b.String()
}

// A purge removes what upstream last told before a time, and nothing else; one that ends
// early has the next one go on.
func TestPurge(t *testing.T) {
	s := openTest(t)
	const days = 40
	for day := range days {
		at := noon.AddDate(0, 0, day)
		items := []json.RawMessage{video("always", "word always", nil)}
		for i := range 30 {
			items = append(items, video(fmt.Sprintf("%d-%d", day, i), "word", nil))
		}
		s.mustSave(t, Page{Items: items, At: at})
	}
	before := noon.AddDate(0, 0, 10)
	ctx := &steps{Context: t.Context(), left: 40}
	if done, err := s.Purge(ctx, before); err == nil || done.Charts == 10 && done.Videos == 300 {
		t.Fatalf("got %+v, %v, want a purge that is interrupted", done, err)
	}
	if _, err := s.Purge(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	if videos, charts, appearances := s.count(t, "videos"), s.count(t, "charts"), s.count(t, "appearances"); videos != 30*30+1 || charts != 30 || appearances != 30*31 {
		t.Errorf("got %d videos, %d charts, %d appearances, want 901, 30 and 930", videos, charts, appearances)
	}
	if got := s.finds(t, Query{Words: "always"}); !slices.Equal(got, []string{"always"}) {
		t.Errorf("got %v, want the video that is in every chart", got)
	}
	if _, err := s.Show("9-1"); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v, want ErrUnknown", err)
	}
	if done, err := s.Purge(t.Context(), before); err != nil || done != (Purged{}) {
		t.Errorf("got %+v, %v, want nothing left to do", done, err)
	}
}

func TestFileOfANewerVersionIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.exec("PRAGMA user_version = 99"), s.Close()); err != nil {
		t.Fatal(err)
	}
	for name, open := range map[string]func(string) (*Store, error){"open": Open, "read": OpenExisting} {
		if _, err := open(dir); err == nil || !strings.Contains(err.Error(), "its version is 99") {
			t.Errorf("%s: got %v", name, err)
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

// A steps context ends after it was asked so often whether it has: SQLite asks at each step.
type steps struct {
	context.Context
	left int
}

func (s *steps) Err() error {
	if s.left--; s.left < 0 {
		return context.Canceled
	}
	return nil
}
