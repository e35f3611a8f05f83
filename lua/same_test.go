package lua

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	names    = regexp.MustCompile(`[A-Za-z_]\w*`)
	comments = regexp.MustCompile(`--[^\n]*`)
	texts    = regexp.MustCompile(`'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|--[^\n]*`)
)

// code blanks out strings and comments, so that what is left is names and signs.
func code(text string) string {
	return texts.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, "--") {
			return ""
		}
		return "''"
	})
}

// differences are what Redis' Lua and gopher-lua do otherwise. The scripts have none of it.
var differences = []struct {
	what    string
	pattern *regexp.Regexp
	wrong   string // a line that it finds
}{
	{"goto is another language", regexp.MustCompile(`\bgoto\b|::\w+::`), "goto done"},
	{"these are Redis' alone", regexp.MustCompile(`\b(?:cjson|cmsgpack|bit|struct)\.`), "bit.band(a, b)"},
	{"tostring of a number is 1e+15 in Redis", regexp.MustCompile(`\btostring\(`), "tostring(now)"},
	{"concat of numbers is 1e+15 in Redis", regexp.MustCompile(`table\.concat\(`), "table.concat(t)"},
	{"'010' is octal to one of them", regexp.MustCompile(`\btonumber\(`), "tonumber(x)"},
	{"%f is a frontier to one of them", regexp.MustCompile(`string\.(?:g?match|gsub|find)\([^\n]*'[^'\n]*%f`),
		"string.match(s, '%f[%w]')"},
	{"^ in gmatch is an anchor to one of them", regexp.MustCompile(`gmatch\((?:[^()\n]|\([^()\n]*\))*, '\^`),
		"for a in string.gmatch(s, '^a') do end"},
	{"a global is an error to one of them", regexp.MustCompile(`(?m)^function |_G\b|\bloadstring\b|\brequire\b`),
		"function f() end"},
	{"next and pairs have no order", regexp.MustCompile(`\b(?:pairs|next)\(`), "for k in pairs(t) do end"},
	{"% and // of numbers beyond 2^53, os and io", regexp.MustCompile(`\b(?:os|io)\.`), "os.time()"},
}

func TestWhatBothLuasAgreeAbout(t *testing.T) {
	for verb, script := range loaded() {
		if clients(verb) {
			continue // in Redis alone
		}
		text := comments.ReplaceAllString(script, "")
		for _, d := range differences {
			if found := d.pattern.FindString(text); found != "" {
				t.Errorf("%s has %q: %s", verb, found, d.what)
			}
		}
		for _, found := range concatenations(script) {
			if !slices.Contains(knownTexts, found) && verb+" "+found != "walk from" {
				t.Errorf("%s has %q in `..`: if it is a number, it is 1.764e+15 in Redis", verb, found)
			}
		}
		for _, found := range formats(script) {
			t.Errorf("%s has the format %q: of a number it is 1.764e+15 in Redis, write %%.0f", verb, found)
		}
		for _, found := range readWhileAssigned(script) {
			t.Errorf("%s assigns what the same statement reads, which gopher-lua evaluates otherwise: %q", verb, found)
		}
	}
	for _, d := range differences {
		if !d.pattern.MatchString(d.wrong) {
			t.Errorf("%q is not found", d.wrong)
		}
	}
}

// knownTexts are the names of texts, or of tables and functions of texts. None is ever a number.
var knownTexts = strings.Fields(`ARGV string span window name w of list another would this text rest was lines line
	opened entry c old redis grant number why page id info charged`)

// concatenations lists what stands on both sides of each `..`, without calls and indexes, but for strings.
func concatenations(script string) (found []string) {
	for _, line := range strings.Split(code(script), "\n") {
		for from := 0; ; {
			at := strings.Index(line[from:], " .. ")
			if at < 0 {
				break
			}
			at += from
			left, right := lastName(line[:at]), ""
			if !strings.HasPrefix(line[at+4:], "''") {
				right = names.FindString(line[at+4:])
			}
			for _, name := range []string{left, right} {
				if name != "" {
					found = append(found, name)
				}
			}
			from = at + 4
		}
	}
	return found
}

// lastName returns the name at the end of a line, without what it is called or indexed with; "" of a string.
func lastName(line string) string {
	for line != "" && strings.ContainsAny(line[len(line)-1:], ")]") {
		depth := 0
		for i := len(line) - 1; i >= 0; i-- {
			if strings.ContainsAny(line[i:i+1], ")]") {
				depth++
			} else if strings.ContainsAny(line[i:i+1], "([") {
				depth--
			}
			if depth == 0 {
				line = line[:i]
				break
			}
		}
	}
	found := regexp.MustCompile(`(\w+)(?:\.\w+)*$`).FindStringSubmatch(line)
	if found == nil {
		return ""
	}
	return found[1]
}

var format = regexp.MustCompile(`string\.format\('([^'\n]*)'`)

// formats lists those that write a number otherwise than as %.0f. %s is for texts.
func formats(script string) (wrong []string) {
	for _, found := range format.FindAllStringSubmatch(script, -1) {
		for _, verb := range regexp.MustCompile(`%[^ \n%]*?[a-zA-Z]`).FindAllString(found[1], -1) {
			if verb != "%.0f" && verb != "%s" {
				wrong = append(wrong, found[1])
			}
		}
	}
	return wrong
}

var assignment = regexp.MustCompile(`(?m)^\s*(local )?([\w, .\[\]+#*]+?) = ([^\n]*)$`)

// readWhileAssigned lists assignments to several places, of which one is a name that the right side, or another
// place, reads.
func readWhileAssigned(script string) (wrong []string) {
	for _, found := range assignment.FindAllStringSubmatch(code(script), -1) {
		places := strings.Split(found[2], ", ")
		if found[1] != "" || len(places) < 2 {
			continue
		}
		for i, place := range places {
			if !regexp.MustCompile(`^\w+$`).MatchString(place) {
				continue
			}
			read := regexp.MustCompile(`\b` + place + `\b`)
			for j, other := range places {
				if i != j && read.MatchString(other) {
					wrong = append(wrong, found[0])
				}
			}
			values := strings.Split(found[3], ", ")
			for j, value := range values {
				if len(values) == len(places) && j != i && read.MatchString(value) {
					wrong = append(wrong, found[0])
				}
			}
		}
	}
	return wrong
}

func TestFindsWhatDiffers(t *testing.T) {
	const wrong = "local x = 'a' .. clock .. 'b'\nlocal y = string.format('%d', now)\nk, t[k] = k + 5, s[k + 5]\n" +
		"a, b = b, a\nsum, through = sum - units(n), at\nlocal c, d = d, c\n"
	if got := concatenations(wrong); !slices.Equal(got, []string{"clock", "clock"}) {
		t.Errorf("found %q in `..`", got)
	}
	if got := formats(wrong); !slices.Equal(got, []string{"%d"}) {
		t.Errorf("found the formats %q", got)
	}
	if got := readWhileAssigned(wrong); len(got) != 4 {
		t.Errorf("found %q, want the third line twice, and the fourth twice", got)
	}
}
