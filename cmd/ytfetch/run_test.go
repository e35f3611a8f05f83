package main

//ci:norace

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"quotad/cmd/ytfetch/store"
	"quotad/quota/api"
)

// A passRun is a testEnv with one pass in it, ready to go, and what it leaves behind.
type passRun struct {
	*testEnv
	t      *testing.T
	pass   *pass
	out    string
	log    bytes.Buffer // as on stderr
	pauses []time.Duration
}

// newRun prepares a pass over DE. When the test ends, quotad's books must equal
// upstream's, no request id may have served twice, and the key must be nowhere.
func newRun(t *testing.T, c envConfig) *passRun {
	t.Helper()
	e, err := openEnv(c)
	if err != nil {
		t.Fatal(err)
	}
	r := &passRun{testEnv: e, t: t, out: t.TempDir()}
	file, err := store.Open(r.out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	r.pass = &pass{
		keep:    r.marks.keep,
		options: options{region: "DE", slot: e.clock.Now(), baseURL: e.baseURL(), out: r.out, retain: defaultRetain}, begin: firstPage(e.clock.Now()), quota: &api.Client{Socket: e.socket(), Token: runToken},
		tube: newYouTube(e.baseURL(), secret, network()), file: file,
		now: e.clock.Now, sleep: r.sleep,
		say: func(format string, args ...any) { fmt.Fprintf(&r.log, format+"\n", args...) },
	}
	t.Cleanup(r.check)
	return r
}

func (r *passRun) sleep(ctx context.Context, d time.Duration) bool {
	r.pauses = append(r.pauses, d)
	r.clock.Add(d)
	return ctx.Err() == nil
}

func (r *passRun) check() {
	if err := r.compare(); err != nil {
		r.t.Error(err)
	}
	seen := make(map[string]bool)
	for _, request := range r.tokens.Pass(runToken).Requests {
		if request.RequestID == "" || seen[request.RequestID] {
			r.t.Errorf("request id %q stands for two calls", request.RequestID)
		}
		seen[request.RequestID] = true
	}
	r.findSecret()
	if err := r.close(); err != nil {
		r.t.Error(err)
	}
	if r.t.Failed() {
		r.t.Logf("stderr:\n%s", &r.log)
	}
}

func (r *passRun) findSecret() {
	hidden := func(text string) bool { return !strings.Contains(text, "secret") }
	if !hidden(r.log.String()) {
		r.t.Errorf("the key is on stderr:\n%s", &r.log)
	}
	err := filepath.WalkDir(r.out, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err == nil && !hidden(path+string(content)) {
			r.t.Errorf("the key is in %s", path)
		}
		return err
	})
	if err != nil {
		r.t.Error(err)
	}
}

// An ending is how a pass is to end: with which exit code, how many videos on
// each page stored, after how many calls upstream, and what stderr says among
// other things.
type ending struct {
	code  int
	pages []int
	calls int
	log   string
}

// ends runs the pass and checks how it ended.
func (r *passRun) ends(ctx context.Context, want ending) {
	r.t.Helper()
	if code := report(&r.log, r.pass.run(ctx)); code != want.code {
		r.t.Errorf("got exit code %d, want %d", code, want.code)
	}
	if pages := r.pages(); !slices.Equal(pages, want.pages) {
		r.t.Errorf("got pages of %v videos, want %v", pages, want.pages)
	}
	if calls := r.upstream.Counts().Requests; calls != want.calls {
		r.t.Errorf("got %d calls upstream, want %d", calls, want.calls)
	}
	if !strings.Contains(r.log.String(), want.log) {
		r.t.Errorf("want %q on stderr", want.log)
	}
}

// pages returns how many videos the pass stored on each page, in order: as it says, and as the
// file has them.
func (r *passRun) pages() []int {
	r.t.Helper()
	var pages []int
	all := 0
	for _, number := range slices.Sorted(maps.Keys(r.pass.stored)) {
		pages, all = append(pages, r.pass.stored[number]), all+r.pass.stored[number]
	}
	if got := countRows(r.t, r.out, "appearances WHERE slot = "+strconv.FormatInt(r.pass.slot.Unix(), 10)); got != all {
		r.t.Errorf("got %d places in the file, want the %d of %v", got, all, pages)
	}
	return pages
}

// countRows counts the rows of a table of what is stored in a directory, as another program does.
func countRows(t *testing.T, dir, table string) int {
	t.Helper()
	rows, err := countOf(dir, table)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func countOf(dir, table string) (int, error) {
	db, err := sqlite3.OpenFlags(filepath.Join(dir, store.FileName), sqlite3.OPEN_READWRITE)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	count, _, err := db.Prepare("SELECT count(*) FROM " + table)
	if err != nil {
		return 0, err
	}
	defer count.Close()
	if !count.Step() {
		return 0, count.Err()
	}
	return count.ColumnInt(0), nil
}
