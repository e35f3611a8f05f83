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
			if ofLedger(h) {
				if all := []string{"account", "log", "settled", "requests", "view", "staged"}; len(h.keys) < 5 || !slices.Equal(h.keys, all[:len(h.keys)]) {
					t.Errorf("the header has the keys %q, want those that account.lua binds, and perhaps staged", h.keys)
				}
				if staged := strings.Contains(body, "KEYS[6]"); staged != (len(h.keys) == 6) {
					t.Errorf("the body uses the sixth key: %v, the header has %d", staged, len(h.keys))
				}
				return
			}
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
				// refresh sets the expiry of every key that is declared.
				used := i < len(bound) || strings.Contains(body, "refresh(") || strings.Contains(body, "KEYS["+strconv.Itoa(i+1)+"]")
				if !used {
					t.Errorf("the header has a key %q, which the body does not use", name)
				}
			}
			if extra := "KEYS[" + strconv.Itoa(len(h.keys)+1) + "]"; strings.Contains(body, extra) {
				t.Errorf("the body uses %s, which the header does not have", extra)
			}
		})
	}
}

// ofLedger tells whether account.lua binds the keys of a verb and reads what stands in
// front of its arguments.
func ofLedger(h header) bool {
	return strings.HasPrefix(h.argv, "1… the head, as account.lua reads it")
}

func TestHeadersSayWhichArgumentsAreUsed(t *testing.T) {
	_, verbs := sources(t)
	for verb, text := range verbs {
		t.Run(verb, func(t *testing.T) {
			top, body := split(text)
			h := parseHeader(t, top)
			argv := h.argv
			if ofLedger(h) {
				if !regexp.MustCompile(`ARGV\[4\]|ARGV, 4|\bat = 4\n`).MatchString(body) && strings.Contains(argv, "·") {
					t.Error("the body does not begin to read behind the head")
				}
				return
			}
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

// sameRest compares how many arguments stand behind those: a number of them, or
// some for each of something.
func sameRest(t *testing.T, argv, body string) {
	t.Helper()
	_, rest, found := strings.Cut(argv, "· then ")
	documented := 0
	if found {
		documented = strings.Count(rest, "·") + 1
	}
	repeated := strings.Contains(rest, "for each")
	if loops := regexp.MustCompile(`ARGV\[at [^\]]*\bi\b|\bat = at \+ [\d#]`).MatchString(body); loops != repeated {
		t.Errorf("some arguments repeat by the header: %v, in the body: %v", repeated, loops)
	}
	if repeated {
		return
	}
	used := 0
	for _, found := range regexp.MustCompile(`(?:ARGV\[at|ARGV, at, at)(?: \+ (\d+))?\b`).FindAllStringSubmatch(body, -1) {
		offset, _ := strconv.Atoi(found[1]) // none is 0
		used = max(used, offset+1)
	}
	if documented != used {
		t.Errorf("the header has %d arguments behind the first ones, the body uses %d", documented, used)
	}
}
