package store

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
)

// videosVariable asks for TestManyVideos, and says of how many.
const videosVariable = "QUOTAD_TEST_VIDEOS"

// TestManyVideos measures: to store a page of 50, new and known ones; to search for one,
// two and three words and for a beginning of one; the size. The sqlite3 shell, if there is
// one, searches the same file for the same words with FTS5's own bm25, which ranks all
// videos that have them. Words are as frequent as in a language: half of all videos have
// the most frequent one, and who searches types frequent ones more often, too.
func TestManyVideos(t *testing.T) {
	if os.Getenv(videosVariable) == "" {
		t.Skip("set " + videosVariable + "=1000000 to measure with a million videos")
	}
	videos, err := strconv.Atoi(os.Getenv(videosVariable))
	if err != nil || videos < 20_000 {
		t.Fatalf("%s=%s: want a number of at least 20,000", videosVariable, os.Getenv(videosVariable))
	}
	m := &many{t: t, dir: t.TempDir(), random: rand.New(rand.NewPCG(16, 6))}
	m.invent()
	m.fill(videos)
	m.pages("of new videos", func(i int) int { return videos + 50*i })
	m.pages("of known ones", func(i int) int { return m.random.IntN(videos - 50) })
	m.size()
	m.searches()
}

// many is a file of made-up videos.
type many struct {
	t      *testing.T
	dir    string
	random *rand.Rand
	words  []string
	zipf   *rand.Zipf
	store  *Store
	stored int
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
	m.zipf = rand.NewZipf(m.random, 1.1, 20, uint64(len(m.words)-1))
}

func (m *many) text(words int) string {
	list := make([]string, words)
	for i := range list {
		list[i] = m.words[m.zipf.Uint64()]
	}
	return strings.Join(list, " ")
}

// item makes up a video; its counts differ each time.
func (m *many) item(number int) json.RawMessage {
	m.random = rand.New(rand.NewPCG(16, uint64(number)))
	m.zipf = rand.NewZipf(m.random, 1.1, 20, uint64(len(m.words)-1))
	thumbnails := map[string]any{}
	for _, size := range []string{"default", "medium", "high", "standard", "maxres"} {
		thumbnails[size] = map[string]any{"url": fmt.Sprintf("https://i.ytimg.com/vi/%011d/%sdefault.jpg", number, size), "width": 480, "height": 360}
	}
	raw, err := json.Marshal(map[string]any{
		"kind": "youtube#video", "etag": "abcdefghijklmnopqrstuvwxyz", "id": fmt.Sprintf("%011d", number),
		"snippet": map[string]any{
			"publishedAt": noon, "channelId": fmt.Sprintf("UC%022d", number/10), "title": m.text(8), "description": m.text(60),
			"channelTitle": m.text(2), "tags": strings.Fields(m.text(8)), "categoryId": "10", "thumbnails": thumbnails,
		},
		"contentDetails": map[string]any{"duration": "PT4M13S"},
		"statistics":     map[string]any{"viewCount": strconv.Itoa(number * 7), "likeCount": strconv.Itoa(number), "commentCount": "12"},
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return raw
}

// fill stores so many videos, with less care than a page of a pass has.
func (m *many) fill(videos int) {
	var err error
	if m.store, err = Open(m.dir); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { m.store.Close() })
	if err := m.store.exec("PRAGMA synchronous = off"); err != nil {
		m.t.Fatal(err)
	}
	began := time.Now()
	const bulk = 2_000
	for first := 0; first < videos; first += bulk {
		m.save(first, min(bulk, videos-first))
	}
	m.t.Logf("%d videos stored in %v, 2,000 a transaction", videos, time.Since(began).Round(time.Second))
	if err := m.store.exec("PRAGMA synchronous = full"); err != nil {
		m.t.Fatal(err)
	}
}

func (m *many) save(first, videos int) {
	items := make([]json.RawMessage, videos)
	for i := range items {
		items[i] = m.item(first + i)
	}
	m.stored++
	slot := noon.Add(time.Duration(m.stored) * time.Minute)
	if err := m.store.Save(Page{Chart: Chart{Region: []string{"DE", "FR", "US", "GB"}[m.stored%4], Slot: slot}, Number: 1, First: 1, Items: items, At: slot}); err != nil {
		m.t.Fatal(err)
	}
}

func (m *many) pages(which string, first func(int) int) {
	const pages = 200
	random := rand.New(rand.NewPCG(16, 7))
	var took []time.Duration
	for i := range pages {
		m.random = random
		at := first(i)
		began := time.Now()
		m.save(at, 50)
		took = append(took, time.Since(began))
	}
	m.t.Logf("a page of 50 %s: %s", which, percentiles(took))
}

func percentiles(took []time.Duration) string {
	slices.Sort(took)
	at := func(share float64) time.Duration {
		return took[int(share*float64(len(took)-1))].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v, worst %v", at(0.5), at(0.99), at(1))
}

func (m *many) size() {
	stats, err := m.store.Stats()
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Logf("%d videos, %d appearances: %d bytes a video, of which %d are upstream's own", stats.Videos, stats.Appearances, stats.Bytes/stats.Videos, len(m.item(1)))
}

func (m *many) searches() {
	random := rand.New(rand.NewPCG(16, 8))
	m.zipf = rand.NewZipf(random, 1.1, 20, uint64(len(m.words)-1))
	for _, kind := range []struct {
		name  string
		words func() string
	}{
		{"one word", func() string { return m.text(1) }},
		{"two words", func() string { return m.text(2) }},
		{"three words", func() string { return m.text(3) }},
		{"a beginning", func() string { return m.text(1)[:3] + "*" }},
		{"the most frequent word", func() string { return m.words[0] }},
	} {
		queries := make([]string, 100)
		for i := range queries {
			queries[i] = kind.words()
		}
		m.measure(kind.name, queries, Query{})
		if kind.name == "one word" {
			m.measure(kind.name+", of a region", queries, Query{Region: "DE"})
			m.measure(kind.name+", of the last hour", queries, Query{Since: noon.Add(time.Duration(m.stored-60) * time.Minute)})
		}
		m.shell(kind.name, queries)
	}
}

func (m *many) measure(name string, queries []string, q Query) {
	var took []time.Duration
	for _, words := range queries {
		q.Words, q.Most = words, 20
		began := time.Now()
		if _, err := m.store.Search(m.t.Context(), q); err != nil {
			m.t.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	m.t.Logf("%-24s %s", name+":", percentiles(took))
}

// shell asks the sqlite3 shell for the same.
func (m *many) shell(name string, queries []string) {
	if _, err := exec.LookPath("sqlite3"); errors.Is(err, exec.ErrNotFound) {
		m.t.Log("no sqlite3 shell is here to compare with: apt-get install sqlite3")
		return
	}
	script := ".timer on\n"
	for _, words := range queries {
		script += fmt.Sprintf("SELECT number, videos.title, highlight(search, 0, '[', ']'), snippet(search, 3, '[', ']', '…', 24) FROM search JOIN videos ON number = search.rowid WHERE search MATCH '%s' ORDER BY rank LIMIT 20;\n",
			strings.Join(termsOf(words), " "))
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
	m.t.Logf("%-24s %s", "  the sqlite3 shell:", percentiles(took))
}
