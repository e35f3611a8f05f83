package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
)

const (
	recipesFile    = "RECIPES.md"
	recipesBase    = "the key of all recipes"
	recipesScripts = "testdata/recipes"
)

// Each recipe, and each task of MOVE.md, is played as it is printed: its configuration by readme, its commands
// and their output by shows. Beside the commands of the other scripts:
//
//	shows TEXT [PAGE]   runs the commands of the only block of RECIPES.md, or of another page, that holds
//	                    TEXT, and holds their output against the block; -update puts the output there
//
// A command follows "$ ", or "host1$ " for the quotad whose state directory is host1. What varies
// is the same as any: times, durations, ids, how the lines are broken.
func TestRecipes(t *testing.T) {
	seedtest.SkipUnderRace(t)
	t.Parallel()
	environ := map[string]string{"NOON": zoneAt(time.Now(), 12)}
	if _, err := exec.LookPath("redis-server"); err == nil || os.Getenv("CI") == "true" {
		environ["REDIS"] = redistest.Start(t).Addr
	}
	runScripts(t, scriptsIn(t, recipesScripts), environ)
}

// zoneAt returns a time zone in which it is an hour of the day.
func zoneAt(now time.Time, hour int) string {
	east := hour - now.UTC().Hour() // from -11 to 21
	if east > 14 {
		east -= 24
	}
	return fmt.Sprintf("Etc/GMT%+d", -east) // whose sign is that of POSIX
}

// playedElsewhere has, by the test, what the blocks hold that no script plays.
var playedElsewhere = map[string][]string{
	"newcomer.txtar and .ci/run":             {"go build -o bin/ ./cmd/quotad ./cmd/quotactl ./cmd/ytfetch && ./bin/quotad", `{"granted":true`},
	"steps.txtar, by such a script":          {`-base = "https://www.googleapis.com/"`, "┌────────┐"},
	"TestImports in cmd":                     {"cmd/quotad ── config"},
	"TestClientsOfThePage":                   {"[clients.partners]"},
	"TestNothingIsRefusedToTheUserOfThePage": {"ACL SETUSER"},
	"TestPageOfPrometheus":                   {"scrape_configs:"},
	"TestAnswersOfThePage":                   {"[credentials.maps.answers]"},
	"TestRelease":                            {"go mod edit -module", "go mod edit -require"},
	"TestReadmeCommands":                     {"POST /v1/grants/{id}/settle"},
	"TestBoot":                               {"apt install ./quotad_", "apt purge quotad", "systemctl enable --now quotad", "install -m 755 charts.py", "systemctl disable --now quotad", "userdel quotad"},
}

// Every block of the pages is played by a script, or by another test.
func TestEveryBlockIsPlayed(t *testing.T) {
	played, all := map[string]bool{recipesBase: true}, ""
	for _, texts := range playedElsewhere {
		for _, text := range texts {
			played[text] = true
		}
	}
	for _, file := range slices.Concat(scriptsIn(t, "testdata"), scriptsIn(t, recipesScripts), scriptsIn(t, "testdata/oncall")) {
		for _, command := range regexp.MustCompile(`(?m)^(?:\[.*\] )?(?:readme \S+|shows|recipe) ('[^']+'|\S+)`).FindAllStringSubmatch(readPage(t, file), -1) {
			played[strings.Trim(command[1], "'")] = true
		}
	}
	blocks := 0
	for _, page := range userPages(t) {
		for _, block := range blocksOf(readPage(t, page), "") {
			blocks, all = blocks+1, all+block
			holds := func(text string) bool { return strings.Contains(block, text) }
			if !slices.ContainsFunc(slices.Collect(maps.Keys(played)), holds) {
				t.Errorf("no test plays this block of %s:\n%s", page, block)
			}
		}
	}
	if blocks < 60 {
		t.Errorf("the pages have %d blocks", blocks)
	}
	for text := range played {
		if !strings.Contains(all, text) {
			t.Errorf("a test plays a block that no page has: %q", text)
		}
	}
}

// shownMu guards the page, which several scripts may write at the same time.
var shownMu sync.Mutex

func shows(ts *testscript.TestScript, _ bool, args []string) {
	page := "cmd/quotad/" + recipesFile
	if len(args) == 2 {
		page = args[1]
	}
	shown := onlyBlock(ts, page, args[0])
	played := play(ts, shown)
	switch {
	case sameShown(shown, played):
	case *update:
		shownMu.Lock()
		defer shownMu.Unlock()
		file := filepath.Join(ts.Getenv("ROOT"), page)
		ts.Check(os.WriteFile(file, []byte(strings.Replace(ts.ReadFile(file), shown, played, 1)), 0o644))
	default:
		ts.Fatalf("%s shows:\n%s\nIt is, as this test writes it with -update:\n%s", page, shown, played)
	}
}

// prompt is what precedes a command: the host, if there are several.
var prompt = regexp.MustCompile(`^(\w*)\$ (.*)`)

// play runs the commands of a block, and returns it with their output.
func play(ts *testscript.TestScript, block string) string {
	var played strings.Builder
	for line := range strings.Lines(block) {
		command := prompt.FindStringSubmatch(line)
		if command == nil {
			continue
		}
		cmd := exec.Command("sh", "-c", command[2])
		cmd.Dir = ts.MkAbs(".")
		for _, name := range []string{"PATH", "HOME", "TMPDIR", "GORACE"} {
			cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
		}
		cmd.Env = append(cmd.Env, "LC_ALL=C.UTF-8", "QUOTAD_SOCKET="+ts.MkAbs(filepath.Join(command[1], ".quotad/quotad.sock")))
		output, _ := cmd.CombinedOutput() // a command that fails says so
		played.WriteString(line + string(output))
	}
	return played.String()
}

// varying is what differs from one time to the next: instants, ids, durations.
var varying = regexp.MustCompile(`\b(\w{3} |\d{4}-\d\d-\d\d[ T])?\d\d:\d\d(:\d\d)?Z?\b|\b(youtube:)?[0-9A-Z]{16,32}\b|\b[0-9a-f]{40}\b|\b[0-9]{16}\b|\b[0-9a-z]{15}\b|\bjust now\b|\b\d+(\.\d+)?(ms|[dhms])\b( \d+[hms]\b)*( ago\b)?`)

func sameShown(shown, played string) bool {
	plain := func(text string) string {
		return strings.Join(strings.Fields(varying.ReplaceAllString(strings.Join(strings.Fields(text), " "), "~")), " ")
	}
	return plain(shown) == plain(played)
}
