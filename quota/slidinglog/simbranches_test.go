package slidinglog_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var branchProfile = flag.String("branches", "", "what go test -covermode=count -coverprofile wrote of 5,000 histories of TestSimulation")

// leastReached is how often the simulation reaches each branch at least.
const leastReached = 100

// A branch is statements that run one after the other.
type branch struct {
	function string // with its file
	begins   string
	reached  int
}

func (b branch) String() string { return fmt.Sprintf("%8d  %s: %s", b.reached, b.function, b.begins) }

// TestBranches holds that the simulation reaches each branch of the package often, but for some
// that are listed with what plays them. It prints how often it reaches those that it reaches least. Only .ci/nightly has
// the profile that it reads.
func TestBranches(t *testing.T) {
	if *branchProfile == "" {
		t.Skip("-branches names the profile")
	}
	profile, err := os.ReadFile(*branchProfile)
	if err != nil {
		t.Fatal(err)
	}
	all := branchesOf(t, string(profile))
	slices.SortStableFunc(all, func(x, y branch) int { return cmp.Compare(x.reached, y.reached) })
	often, table, fewer := 0, "", make(map[string][]branch)
	for _, b := range all {
		if b.reached < leastReached {
			fewer[b.function] = append(fewer[b.function], b)
		} else if often++; often <= 10 {
			table += b.String() + "\n"
		}
	}
	for function, list := range fewer {
		if len(list) > seldom()[function] {
			t.Errorf("%d branches of %s are reached less than %d times, not %d: %v", len(list), function, leastReached, seldom()[function], list)
		}
	}
	t.Logf("%d of %d branches are reached %d times or more, and these least:\n%s", often, len(all), leastReached, table)
}

var (
	profileLine  = regexp.MustCompile(`quotad/quota/slidinglog/(\S+)\.go:(\d+)\.\d+,\d+\.\d+ \d+ (\d+)`)
	functionLine = regexp.MustCompile(`^func (?:\([^)]*\) )?(\w+)`)
)

func branchesOf(t *testing.T, profile string) (all []branch) {
	t.Helper()
	sources := make(map[string][]string)
	for _, m := range profileLine.FindAllStringSubmatch(profile, -1) {
		lines := sources[m[1]]
		if lines == nil {
			text, err := os.ReadFile(m[1] + ".go")
			if err != nil {
				t.Fatal(err)
			}
			lines = strings.Split(string(text), "\n")
			sources[m[1]] = lines
		}
		at, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		b := branch{begins: strings.TrimSpace(lines[at-1])}
		for i := at - 1; i >= 0 && b.function == ""; i-- {
			if name := functionLine.FindStringSubmatch(lines[i]); name != nil {
				b.function = m[1] + " " + name[1]
			}
		}
		if b.reached, err = strconv.Atoi(m[3]); err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

// seldom says of how many branches of a function the simulation may reach less often, with what plays them.
func seldom() map[string]int {
	return map[string]int{
		// A start, and the end of a daemon: scripts.
		"follow bye":       5,
		"follow pending":   1,
		"follow readToEnd": 1,
		"host CheckFile":   6,
		"host CheckStore":  7,
		"host openHead":    2,
		"host readHead":    2,
		"host writeHead":   1,
		"ledger Await":     2,
		"ledger Close":     3,
		"ledger Open":      6,
		"ledger wait":      1,
		"lost checkStore":  1,
		"lost startOver":   2,
		"replica await":    3,
		"replica joining":  1,
		// The goroutines: the simulation follows and folds by itself.
		"follow goFollow": 2,
		"follow pollAll":  14,
		"follow work":     9,
		// A ledger without a store: ledgertest.
		"commit write":      7,
		"exchange applyOwn": 1,
		"exchange catchUp":  1,
		"fold replay":       3,
		// Bytes that are damaged, or of another version: TestRecordsOfAnotherVersion, FuzzDecodeRecord.
		"codec fail":          1,
		"codec keyID":         1,
		"codec length":        1,
		"codec next":          1,
		"codec skip":          1,
		"codec uvarint":       1,
		"copy decode":         1,
		"copy ids":            1,
		"copy named":          1,
		"copy openCopy":       2,
		"facts decodeFacts":   2,
		"record decode":       1,
		"record decodeHex":    1,
		"record decodeRecord": 2,
		"record kind":         1,
		// The file fails, or the caller went away: TestFileErrorIsNoOutage.
		"commit append":         1,
		"commit commit":         6,
		"commit fail":           1,
		"decide Adjust":         1,
		"decide Peek":           2,
		"fold Fold":             1,
		"fold trim":             3,
		"ledger Health":         2,
		"ledger SetCredentials": 1,
		"ledger read":           1,
		"ledger replica":        1,
		"offline commitOffline": 2,
		"replica unavailable":   1,
		// What cannot happen.
		"facts encode":     1,
		"follow ownRecord": 1,
		"host draw":        1,
		"set overlap":      1,
		// The greatest number, and limits that are not enforced: ledgertest.
		"account Fits":    1,
		"account fits":    1,
		"account forbids": 1,
		"decide adjust":   1,
		"decide settle":   1,
		"slack parts":     1,
		"slack room":      1,
		"view room":       1,
		// Only shown to people: scripts.
		"copy Facts":      1,
		"copy all":        2,
		"copy page":       3,
		"facts termsOf":   3,
		"replica health":  3,
		"store NewTag":    1,
		"view nextExpiry": 2,
		// Only a person takes records from the middle of a log: TestRemovedRecordsAreNoticed.
		"exchange noticeHole": 2,
		// A turn lasts for less than a simulated round trip: TestADistantHostGetsItsTurn.
		"commit yield": 3,
		// Rare at any length, and each beside one that is not.
		"account CatchingUp": 3,
		"commit update":      1,
		"copy expire":        1,
		"exchange applyOne":  1,
		"fold restore":       1,
		"set correct":        2,
		"set merge":          3,
		"set put":            2,
		"set reset":          2,
		"standing stand":     1,
	}
}
