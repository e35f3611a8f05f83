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
	keys []string // the names of KEYS 1, 2 and so on
	argv string   // what it takes beside
}

var sections = regexp.MustCompile(`(?s)\n KEYS  (.*?)\n ARGV  (.*?)\n reply \S`)

func parseHeader(t *testing.T, text string) header {
	t.Helper()
	found := sections.FindStringSubmatch("\n" + text)
	if found == nil {
		t.Fatalf("the header has no sections KEYS, ARGV and reply:\n%s", text)
	}
	h := header{argv: strings.Join(strings.Fields(found[2]), " ")}
	for i, item := range strings.Split(found[1], "·") {
		number, name, _ := strings.Cut(strings.TrimSpace(item), " ")
		if number != strconv.Itoa(i+1) || name == "" {
			t.Fatalf("KEYS %q stands where number %d should", item, i+1)
		}
		h.keys = append(h.keys, name)
	}
	return h
}

func TestHeadersSayWhichKeysAreUsed(t *testing.T) {
	_, verbs := sources(t)
	for verb, text := range verbs {
		t.Run(verb, func(t *testing.T) {
			top, body := split(text)
			h := parseHeader(t, top)
			var bound, want []string
			if found := regexp.MustCompile(`(?m)^local ([\w, ]+) = (KEYS\[1\].*)$`).FindStringSubmatch(body); found != nil {
				bound = strings.Split(found[1], ", ")
				for i := range bound {
					want = append(want, "KEYS["+strconv.Itoa(i+1)+"]")
				}
				if found[2] != strings.Join(want, ", ") {
					t.Errorf("%s are bound to %s, want them in order", found[1], found[2])
				}
			}
			if len(bound) > len(h.keys) || !slices.Equal(bound, h.keys[:len(bound)]) {
				t.Errorf("the body binds the keys %q, the header has %q", bound, h.keys)
			}
			for i, name := range h.keys {
				key := strconv.Itoa(i + 1)
				if i >= len(bound) && !strings.Contains(body, "KEYS["+key+"]") && !strings.Contains(body, "for k = "+key+", #KEYS") {
					t.Errorf("the header has a key %q, which the body does not use", name)
				}
			}
			if extra := "KEYS[" + strconv.Itoa(len(h.keys)+1) + "]"; strings.Contains(body, extra) {
				t.Errorf("the body uses %s, which the header does not have", extra)
			}
		})
	}
}

func TestHeadersSayWhichArgumentsAreUsed(t *testing.T) {
	_, verbs := sources(t)
	for verb, text := range verbs {
		t.Run(verb, func(t *testing.T) {
			top, body := split(text)
			h := parseHeader(t, top)
			argv := h.argv
			sameNumbers(t, argv, body)
			sameRest(t, argv, body)
		})
	}
}

// sameNumbers compares the arguments that have a number of their own.
func sameNumbers(t *testing.T, argv, body string) {
	t.Helper()
	argv, _, _ = strings.Cut(argv, "· then ")
	var documented, used []string
	for _, found := range regexp.MustCompile(`(?:^|· )(\d+) `).FindAllStringSubmatch(argv, -1) {
		documented = append(documented, found[1])
	}
	for _, found := range regexp.MustCompile(`ARGV\[(\d+)\]`).FindAllStringSubmatch(body, -1) {
		used = append(used, found[1])
	}
	slices.Sort(used)
	if used = slices.Compact(used); !slices.Equal(documented, used) {
		t.Errorf("the header has the arguments %q, the body uses %q", documented, used)
	}
}

// sameRest compares whether some arguments follow for each of the other keys.
func sameRest(t *testing.T, argv, body string) {
	t.Helper()
	documented := strings.Contains(argv, "· then for each of the others ")
	if used := strings.Contains(body, "ARGV[k + "); documented != used {
		t.Errorf("arguments for the other keys: %v by the header, %v in the body", documented, used)
	}
}
