package store

//ci:norace

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestSearchFindsWords(t *testing.T) {
	s := openTest(t)
	s.mustSave(t, Page{Items: []json.RawMessage{
		video("title", "Über den Flüssen", nil),
		video("tag", "something", map[string]any{"tags": []string{"flüsse", "Uber"}}),
		video("description", "something else", map[string]any{"description": strings.Repeat("long ", 40) + "uber die flussen"}),
		video("cyrillic", "Тихий Дон", nil), video("cjk", "東京タワーの夜2026", nil), video("korean", "서울타워를 보다", nil),
		video("thai", "กรุงเทพที่รัก", nil), video("hindi", "हिन्दी गाना", nil), video("emoji", "❤️Song", nil), video("apart", "Cafe\u0301 東洋の京都", nil), video("mixed", "c++ & AC/DC: don't stop", nil),
	}})
	for _, row := range []struct {
		name, words string
		want        string
	}{
		{"accents and case do not count", "UBER FLUSSEN", "title description"},
		{"all words, in any order", "flussen uber", "title description"},
		{"a beginning", "fluss*", "title tag description"},
		{"not a beginning", "fluss", ""}, {"one character is a word", "f*", ""},
		{"the title before the description", "uber", "title tag description"},
		{"cyrillic", "дон", "cyrillic"}, {"japanese, wherever it stands", "タワー", "cjk"}, {"its characters side by side", "東京", "cjk"}, {"beside other scripts", "夜 2026", "cjk"}, {"a beginning of it", "タワ*", "cjk"},
		{"korean, without its particle", "서울타워", "korean"}, {"thai", "เทพ", "thai"}, {"hindi, with its vowels", "हिन्दी", "hindi"}, {"no other word of the same consonants", "हुन्दू", ""}, {"a beginning in hindi", "हिन्*", "hindi"},
		{"behind an emoji in colour", "song", "emoji"}, {"an accent of its own", "cafe", "apart"},
		{"signs part words", "ac/dc", "mixed"}, {"a sign alone is none", "c++ & stop", "mixed"}, {"apostrophe", "don't", "mixed"},
		{"quotes", `"uber" "den`, "title"}, {"operators are words", "uber AND den", ""}, {"columns are words", "title:uber", ""},
		{"a word that is not there", "uber nowhere", ""},
		{"a phrase", `"uber den"`, "title"}, {"a phrase in another order", `"den uber"`, ""}, {"a phrase of characters", `"東京タワー"`, "cjk"}, {"the beginning of a phrase", `"uber de*"`, "title"},
		{"without a word", "uber -die", "title tag"}, {"without a phrase", `uber -"die flussen"`, "title tag"}, {"without a beginning", "uber -flus*", ""}, {"a word with a hyphen", "ac-dc", "mixed"},
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
	found, err := s.Search(t.Context(), Query{Words: "flussen", Limit: 1})
	if want := []Part{{"Über den ", false}, {"Flüssen", true}}; err != nil || !slices.Equal(found.Hits[0].Highlight.Title, want) {
		t.Errorf("got %+v, %v, want %+v", found, err, want)
	}
	found, err = s.Search(t.Context(), Query{Words: "タワー", Limit: 1})
	if want := []Part{{"東京", false}, {"タワー", true}, {"の夜2026", false}}; err != nil || !slices.Equal(found.Hits[0].Highlight.Title, want) {
		t.Errorf("got %+v, %v, want %+v", found, err, want)
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

// What was found is counted, told page by page, and in the order that is asked for.
func TestSearchInPagesAndOrders(t *testing.T) {
	s := openTest(t)
	var items []json.RawMessage
	for i := range 7 {
		items = append(items, fmt.Appendf(nil, `{"id":"v%d","snippet":{"title":"word","publishedAt":"2026-11-%02dT10:00:00Z"},"statistics":{"viewCount":"%d"}}`, i, 1+i*3%7, i*5%7))
	}
	s.mustSave(t, Page{Items: append(items, []byte(`{"id":"unknown","snippet":{"title":"word"}}`))})
	var all []string
	for skip := 0; skip < 9; skip += 3 {
		found, err := s.Search(t.Context(), Query{Words: "word", Limit: 3, Offset: skip})
		if err != nil || found.Total != 8 || found.More || len(found.Hits) != min(3, 8-skip) {
			t.Fatalf("behind %d: %d of %d, %v", skip, len(found.Hits), found.Total, err)
		}
		for _, hit := range found.Hits {
			all = append(all, hit.ID)
		}
	}
	if want := s.finds(t, Query{Words: "word"}); !slices.Equal(all, want) {
		t.Errorf("page by page %v, at once %v", all, want)
	}
	if found, err := s.Search(t.Context(), Query{Words: "word", Limit: 3, Offset: 20}); err != nil || len(found.Hits) != 0 || found.Total != 8 {
		t.Errorf("behind the last: %+v, %v", found, err)
	}
	for by, want := range map[Order]string{ByViews: "v4 v1 v5 v2 v6 v3 v0 unknown", ByDate: "v2 v4 v6 v1 v3 v5 v0 unknown"} {
		if got := strings.Join(s.finds(t, Query{Words: "word", By: by}), " "); got != want {
			t.Errorf("by %s: %s, want %s", by, got, want)
		}
	}
}
