package main

//ci:norace

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"quotad/jobs/process/processtest"
)

func TestMain(m *testing.M) {
	testscript.Main(processtest.Tests(m.Run), map[string]func(){"ytsearch": main})
}

// Scripts run the command. exits CODE CMD... is of one that ends with that code.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Files: []string{"testdata/search.txtar"}, RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": func(ts *testscript.TestScript, _ bool, args []string) {
				got := 0
				if exit, is := ts.Exec(args[1], args[2:]...).(*exec.ExitError); is {
					got = exit.ExitCode()
				}
				if strconv.Itoa(got) != args[0] {
					ts.Fatalf("got exit code %d, want %s", got, args[0])
				}
			},
		}})
}

// A library is a directory of lines, and what a search in it says.
type library struct {
	t   *testing.T
	dir string
}

func (l library) append(file, text string) {
	l.t.Helper()
	f, err := os.OpenFile(filepath.Join(l.dir, file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		l.t.Fatal(err)
	}
}

// of is a line as ytfetch writes it.
func of(id, region, title string) string {
	text, err := json.Marshal(map[string]any{"at": "2026-11-28T10:00:00Z", "region": region, "video": map[string]any{
		"id": id, "snippet": map[string]any{"title": title, "channelTitle": "Someone", "tags": []string{"a tag"}},
		"statistics": map[string]string{"viewCount": "1234"},
	}})
	if err != nil {
		panic(err)
	}
	return string(text) + "\n"
}

// open brings in what is new, and returns the videos by id: title and regions.
func (l library) open() map[string]string {
	l.t.Helper()
	db, err := openIndex(l.t.Context(), l.dir)
	must(l.t, err)
	defer db.Close()
	rows, err := db.Query(`SELECT id, videos.title || (SELECT group_concat(' ' || region, '') FROM places WHERE video = number)
		FROM videos JOIN texts ON texts.rowid = number WHERE texts MATCH '"a tag"'`)
	must(l.t, err)
	defer rows.Close()
	all := map[string]string{}
	for rows.Next() {
		var id, rest string
		must(l.t, rows.Scan(&id, &rest))
		all[id] = rest
	}
	must(l.t, rows.Err())
	return all
}

func (l library) has(want map[string]string) {
	l.t.Helper()
	if got := l.open(); fmt.Sprint(got) != fmt.Sprint(want) {
		l.t.Errorf("got %v, want %v", got, want)
	}
}

func TestIndexFollowsTheFiles(t *testing.T) {
	l := library{t, t.TempDir()}
	const de, fr = "2026-11-28-DE.jsonl", "2026-11-28-FR.jsonl"
	l.append(de, of("a", "DE", "one")+of("b", "DE", "two"))
	l.has(map[string]string{"a": "one DE", "b": "two DE"})
	// A video that is fetched again is one, in all of its regions, with its new texts.
	l.append(fr, of("a", "FR", "uno")+of("a", "FR", "eins"))
	l.has(map[string]string{"a": "eins DE FR", "b": "two DE"})
	// A line that is being written, or was torn, is left for later; ytfetch may cut it off.
	half := of("c", "FR", "xylophone")
	l.append(fr, of("a", "FR", "eins")+half[:40])
	l.has(map[string]string{"a": "eins DE FR", "b": "two DE"})
	l.append(fr, half[40:])
	l.has(map[string]string{"a": "eins DE FR", "b": "two DE", "c": "xylophone FR"})
	// A file that became shorter is another one.
	must(t, os.WriteFile(filepath.Join(l.dir, fr), []byte(of("d", "FR", "four")), 0o600))
	l.has(map[string]string{"a": "eins DE FR", "b": "two DE", "c": "xylophone FR", "d": "four FR"})
	// What was in a file that is gone leaves the index.
	must(t, os.Remove(filepath.Join(l.dir, fr)))
	l.has(map[string]string{"a": "eins DE", "b": "two DE"})
	text, err := os.ReadFile(filepath.Join(l.dir, "ytsearch.db"))
	if err != nil || strings.Contains(string(text), "xylophone") {
		t.Errorf("%v: a word of a video that is gone is still in the file", err)
	}
}

// Each of several processes waits for the one that brings in, also if that is killed.
func TestSeveralAtOnce(t *testing.T) {
	l := library{t, t.TempDir()}
	var text strings.Builder
	for i := range 3000 {
		text.WriteString(of(strconv.Itoa(i), "DE", "golden "+strconv.Itoa(i)))
	}
	l.append("2026-11-28-DE.jsonl", text.String())
	killed := exec.Command("ytsearch", "index", l.dir)
	must(t, killed.Start())
	said := make(chan string, 3)
	for range cap(said) {
		go func() {
			output, err := exec.Command("ytsearch", l.dir, "golden", "--limit", "1").CombinedOutput()
			said <- fmt.Sprintf("%s%v", output, err)
		}()
	}
	killed.Process.Kill()
	killed.Wait()
	for range cap(said) {
		if got := <-said; !strings.Contains(got, "1 of 3,000 videos") {
			t.Errorf("it says %s", got)
		}
	}
}

func TestExpression(t *testing.T) {
	for words, want := range map[string]string{
		`golden river`:         `"golden" "river"`,
		`golden OR silver`:     `"golden" OR "silver"`,
		`riv* "a b"* NOT c`:    `"riv"* "a b"* NOT "c"`,
		`golden -river`:        `"golden" NOT "river"`,
		`-river`:               `"river"`,
		`(a OR b) AND let's`:   `( "a" OR "b" ) AND "let's"`,
		`"`:                    ``,
		`* 🎵 -`:                ``,
		`NEAR`:                 `"NEAR"`,
		`title:x ^y {z} a+b`:   `"title:x" "^y" "{z}" "a+b"`,
		`a"b`:                  `"a" "b"`,
		"東京 \xff x\x00y":       `"東京" "x` + "\x00" + `y"`,
		`"golden river" "open`: `"golden river" "open"`,
	} {
		if got, _ := expression(words); got != want {
			t.Errorf("%s: got %s, want %s", words, got, want)
		}
	}
}

// must ends a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
