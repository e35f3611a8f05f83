package store

//ci:norace

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"quotad/quota/seedtest"
)

// keptVariable names the directory in which TestManyVideos leaves its file. Where there
// is one already it stores only what that lacks.
const keptVariable = "QUOTAD_TEST_ARTIFACTS"

// TestManyVideos measures: to store a page of 50, new and known ones; to search for one,
// two and three words and for a beginning of one; the size. The sqlite3 shell, if there is
// one, searches the same file for the same words with FTS5's own bm25, which ranks all
// videos that have them. Words are as frequent as in a language: half of all videos have
// the most frequent one, and who searches types frequent ones more often, too.
//
// To fill a file with a million videos takes a quarter of an hour. To measure searches
// again without that:
//
//	QUOTAD_TEST_LONG=1000000 QUOTAD_TEST_ARTIFACTS=/tmp/videos go test -v -count=1 -timeout 60m -run TestManyVideos ./cmd/ytfetch/store
func TestManyVideos(t *testing.T) {
	videos := max(seedtest.OnlyLong(t, "videos"), 20_000)
	m := openMany(t)
	if m.videos == 0 {
		m.pages("new", m.newest)
		m.pages("known", m.any)
	}
	m.fill(videos)
	m.pages("new", m.newest)
	m.pages("known", m.any)
	m.size()
	m.searches()
}

// many is a file of made-up videos.
type many struct {
	t      *testing.T
	dir    string
	store  *Store
	words  []string // the most frequent one first
	random *rand.Rand
	videos int // that are stored: those with a lower number
	charts int
}

func openMany(t *testing.T) *many {
	m := &many{t: t, dir: os.Getenv(keptVariable), random: rand.New(rand.NewPCG(16, 6))}
	if m.dir == "" {
		m.dir = t.TempDir()
	}
	var err error
	if m.store, err = Open(m.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.store.Close() })
	m.videos, m.charts = int(m.store.count(t, "videos")), int(m.store.count(t, "charts"))
	m.invent()
	return m
}

func (m *many) invent() {
	syllables := strings.Fields("ba be bi bo bu da de di do du fa fe ga go ka ki ko la li lo ma mi mo na ne no pa pi po ra ri ro sa se so ta te ti to va vi wa za zu")
	seen := map[string]bool{}
	for len(m.words) < 100_000 {
		word := ""
		for range 2 + m.random.IntN(3) {
			word += syllables[m.random.IntN(len(syllables))]
		}
		if !seen[word] {
			seen[word], m.words = true, append(m.words, word)
		}
	}
}

// An author writes words as frequently as a language has them.
type author struct {
	words []string
	zipf  *rand.Zipf
}

func (m *many) author(seed int) author {
	return author{m.words, rand.NewZipf(rand.New(rand.NewPCG(16, uint64(seed))), 1.1, 20, uint64(len(m.words)-1))}
}

func (a author) text(words int) string {
	list := make([]string, words)
	for i := range list {
		list[i] = a.words[a.zipf.Uint64()]
	}
	return strings.Join(list, " ")
}

// item makes up a video: the same one each time, but for its number of views.
func (m *many) item(number int) json.RawMessage {
	thumbnails := map[string]any{}
	for _, size := range []string{"default", "medium", "high", "standard", "maxres"} {
		thumbnails[size] = map[string]any{"url": fmt.Sprintf("https://i.ytimg.com/vi/%011d/%sdefault.jpg", number, size), "width": 480, "height": 360}
	}
	author := m.author(number)
	raw, err := json.Marshal(map[string]any{
		"kind": "youtube#video", "etag": "abcdefghijklmnopqrstuvwxyz", "id": fmt.Sprintf("%011d", number),
		"snippet": map[string]any{
			"publishedAt": noon, "channelId": fmt.Sprintf("UC%022d", number/10), "title": author.text(8), "description": author.text(60),
			"channelTitle": author.text(2), "tags": strings.Fields(author.text(8)), "categoryId": "10", "thumbnails": thumbnails,
		},
		"contentDetails": map[string]any{"duration": "PT4M13S"},
		"statistics":     map[string]any{"viewCount": strconv.Itoa(m.charts * 7), "likeCount": strconv.Itoa(number), "commentCount": "12"},
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return raw
}

// fill stores so many videos, with less care than a page of a pass has.
func (m *many) fill(videos int) {
	if err := m.store.exec("PRAGMA synchronous = off"); err != nil {
		m.t.Fatal(err)
	}
	began, before := time.Now(), m.videos
	for m.videos < videos {
		m.save(m.videos, 2_000)
	}
	m.t.Logf("%d videos stored beside %d in %v, 2,000 a transaction", m.videos-before, before, time.Since(began).Round(time.Second))
	if err := m.store.exec("PRAGMA synchronous = full"); err != nil {
		m.t.Fatal(err)
	}
}

// save stores a chart of one page, and tells how long that took.
func (m *many) save(first, videos int) time.Duration {
	items := make([]json.RawMessage, videos)
	for i := range items {
		items[i] = m.item(first + i)
	}
	m.charts++
	m.videos = max(m.videos, first+videos)
	slot := noon.Add(time.Duration(m.charts) * time.Minute)
	began := time.Now()
	if err := m.store.Save(Page{Chart: Chart{Region: []string{"DE", "FR", "US", "GB"}[m.charts%4], Slot: slot}, Number: 1, First: 1, Items: items, At: slot}); err != nil {
		m.t.Fatal(err)
	}
	return time.Since(began)
}

func (m *many) newest() int { return m.videos }
func (m *many) any() int    { return m.random.IntN(m.videos - 50) }

func (m *many) pages(which string, first func() int) {
	const pages = 200
	before := m.videos
	var took []time.Duration
	for range pages {
		took = append(took, m.save(first(), 50))
	}
	m.t.Logf("a page of 50 %s videos beside %d: %s", which, before, percentiles(took))
}

func percentiles(took []time.Duration) string {
	slices.Sort(took)
	at := func(share float64) time.Duration {
		return took[int(share*float64(len(took)-1))].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v, worst %v", at(0.5), at(0.99), at(1))
}

// size tells how large the file is, and what takes most of it.
func (m *many) size() {
	info, err := os.Stat(m.store.Path())
	if err != nil {
		m.t.Fatal(err)
	}
	videos := m.store.count(m.t, "videos")
	m.t.Logf("%d videos, %d appearances: %d bytes a video", videos, m.store.count(m.t, "appearances"), info.Size()/videos)
	if _, err := exec.LookPath("sqlite3"); errors.Is(err, exec.ErrNotFound) {
		return
	}
	command := exec.Command("sqlite3", "-readonly", filepath.Join(m.dir, FileName), fmt.Sprintf(
		"SELECT name || ' ' || (pgsize / %d) FROM dbstat WHERE aggregate = true AND pgsize / %d > 0 ORDER BY pgsize DESC", videos, videos))
	output, err := command.CombinedOutput()
	if err != nil {
		m.t.Fatalf("sqlite3: %v\n%.2000s", err, output)
	}
	m.t.Logf("of these: %s", strings.ReplaceAll(strings.TrimSpace(string(output)), "\n", ", "))
}

// searches measures words as they are typed, and words of one frequency: a rare word is in
// 20 of a million videos, a middling one in 2,000, the most frequent ones in a quarter.
func (m *many) searches() {
	reader := m.author(8)
	of := func(first, last int) string { return m.words[first+m.random.IntN(last-first)] }
	for _, kind := range []struct {
		name  string
		words func() string
	}{
		{"one word", func() string { return reader.text(1) }},
		{"two words", func() string { return reader.text(2) }},
		{"three words", func() string { return reader.text(3) }},
		{"a beginning", func() string { return reader.text(1)[:3] + "*" }},
		{"a rare word", func() string { return of(50_000, 100_000) }},
		{"a middling word", func() string { return of(2_000, 10_000) }},
		{"a most frequent word", func() string { return of(0, 10) }},
		{"two most frequent words", func() string { return of(0, 5) + " " + of(5, 10) }},
		{"a frequent and a rare word", func() string { return of(0, 10) + " " + of(10_000, 50_000) }},
	} {
		queries := make([]string, 100)
		for i := range queries {
			queries[i] = kind.words()
		}
		m.t.Logf("%s: in %s of %d videos", kind.name, m.frequency(queries), m.videos)
		m.measure("ytfetch", queries, Query{})
		m.measure("of a region", queries, Query{Region: "DE"})
		m.measure("of the last hour", queries, Query{Since: noon.Add(time.Duration(m.charts-60) * time.Minute)})
		m.shell(queries[:20])
	}
}

// frequency tells how many videos have all words of the queries.
func (m *many) frequency(queries []string) string {
	var counts []int64
	for _, words := range queries[:20] {
		if err := m.store.query("SELECT count(*) FROM search WHERE search MATCH ?", []any{parseExpression(words).match()},
			func(row *sqlite3.Stmt) { counts = append(counts, row.ColumnInt64(0)) }); err != nil {
			m.t.Fatal(err)
		}
	}
	slices.Sort(counts)
	return fmt.Sprintf("%d to %d (p50 %d)", counts[0], counts[len(counts)-1], counts[len(counts)/2])
}

func (m *many) measure(name string, queries []string, q Query) {
	var took []time.Duration
	for _, words := range queries {
		q.Words, q.Limit = words, 20
		began := time.Now()
		if _, err := m.store.Search(m.t.Context(), q); err != nil {
			m.t.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	m.t.Logf("    %-18s %s", name+":", percentiles(took))
}

// shell asks the sqlite3 shell for the same.
func (m *many) shell(queries []string) {
	if _, err := exec.LookPath("sqlite3"); errors.Is(err, exec.ErrNotFound) {
		m.t.Log("no sqlite3 shell is here to compare with: apt-get install sqlite3")
		return
	}
	script := ".timer on\n"
	for _, words := range queries {
		script += fmt.Sprintf("SELECT number, videos.title, videos.description FROM search JOIN videos ON number = search.rowid WHERE search MATCH '%s' ORDER BY rank LIMIT 20;\n",
			parseExpression(words).match())
	}
	command := exec.Command("sqlite3", "-readonly", filepath.Join(m.dir, FileName))
	command.Stdin = strings.NewReader(script)
	output, err := command.CombinedOutput()
	if err != nil {
		m.t.Fatalf("sqlite3: %v\n%.2000s", err, output)
	}
	var took []time.Duration
	for _, found := range regexp.MustCompile(`Run Time: real ([0-9.]+)`).FindAllSubmatch(output, -1) {
		seconds, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil {
			m.t.Fatal(err)
		}
		took = append(took, time.Duration(seconds*float64(time.Second)))
	}
	if len(took) != len(queries) {
		m.t.Fatalf("sqlite3 told %d times of %d:\n%.2000s", len(took), len(queries), output)
	}
	m.t.Logf("    %-18s %s", "the sqlite3 shell:", percentiles(took))
}
