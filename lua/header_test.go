package lua

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A header is what a script says of itself.
type header struct {
	keys []string // what KEYS 1, 2 and so on are
	argv []string // the numbers of arguments, in order; "…": others follow, a number of them for each
}

var (
	sections = regexp.MustCompile(`(?s)\n KEYS  (.*?)(?:\n| ·) ARGV  (.*?)(?:\n| ·) reply (\S.*)`)
	numbered = regexp.MustCompile(`(?:^|· )(\d+) (?:to (\d+) )?`)
	indexed  = regexp.MustCompile(`ARGV\[(\d+)\]`)
	follows  = regexp.MustCompile(`for i = (\d+), #ARGV, (\d+) do`)
)

// parse reads a header. One that says "as acquire's" takes that of acquire.
func parse(t *testing.T, text string, acquire header) (h header) {
	t.Helper()
	found := sections.FindStringSubmatch("\n" + text)
	if found == nil {
		t.Fatalf("the header has no sections KEYS, ARGV and reply:\n%s", text)
	}
	flat := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if keys := flat(found[1]); keys == "as acquire's" {
		h.keys = acquire.keys
	} else {
		for _, item := range regexp.MustCompile(`(?:^|· )(\d+) `).FindAllStringSubmatch(keys, -1) {
			h.keys = append(h.keys, item[1])
		}
	}
	argv, rest, more := strings.Cut(flat(found[2]), "· then ")
	for _, item := range numbered.FindAllStringSubmatch(argv, -1) {
		from, _ := strconv.Atoi(item[1])
		to, err := strconv.Atoi(item[2])
		if err != nil {
			to = from
		}
		for n := from; n <= to; n++ {
			h.argv = append(h.argv, strconv.Itoa(n))
		}
	}
	if more {
		h.argv = append(h.argv, "…")
		_ = rest
	}
	return h
}

// The arguments that a header has are those that the script uses, with all that stands in front of it.
func TestHeadersSayWhatIsUsed(t *testing.T) {
	verbs, _ := sources(t)
	all := loaded()
	acquireTop, _ := split(verbs["acquire"])
	acquire := parse(t, acquireTop, header{})
	for verb, text := range verbs {
		t.Run(verb, func(t *testing.T) {
			top, _ := split(text)
			h := parse(t, top, acquire)
			var used []string
			body := comments.ReplaceAllString(all[verb], "")
			for _, found := range indexed.FindAllStringSubmatch(body, -1) {
				used = append(used, found[1])
			}
			slices.SortFunc(used, func(a, b string) int {
				x, _ := strconv.Atoi(a)
				y, _ := strconv.Atoi(b)
				return x - y
			})
			used = slices.Compact(used)
			if follows.MatchString(body) {
				used = append(used, "…")
			}
			if !slices.Equal(h.argv, used) {
				t.Errorf("the header has the arguments %q, the script uses %q", h.argv, used)
			}
			var keys []string
			for _, found := range regexp.MustCompile(`KEYS\[(\d+)\]`).FindAllStringSubmatch(body, -1) {
				if !slices.Contains(keys, found[1]) {
					keys = append(keys, found[1])
				}
			}
			if slices.Sort(keys); !slices.Equal(h.keys, keys) {
				t.Errorf("the header has the keys %q, the script uses %q", h.keys, keys)
			}
		})
	}
}

// Where arguments follow in groups, the first one is behind those with numbers, and the header names as many as each
// group has.
func TestHeadersSayWhatFollows(t *testing.T) {
	verbs, _ := sources(t)
	for verb, want := range map[string]struct{ first, each int }{"acquire": {10, 6}, "restore": {5, 4}} {
		top, body := split(verbs[verb])
		argv := strings.Join(strings.Fields(sections.FindStringSubmatch("\n" + top)[2]), " ")
		_, rest, _ := strings.Cut(argv, "· then of each ")
		_, rest, _ = strings.Cut(rest, ": ")
		if got := len(strings.Split(rest, " · ")); got != want.each {
			t.Errorf("%s: the header has %d arguments of each, want %d: %s", verb, got, want.each, rest)
		}
		for _, found := range follows.FindAllStringSubmatch(body, -1) {
			if found[1] != strconv.Itoa(want.first) || found[2] != strconv.Itoa(want.each) {
				t.Errorf("%s: %s, want from %d, each %d", verb, found[0], want.first, want.each)
			}
		}
	}
}
