package upstream

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"quotad/quota"
)

// now is a morning in California; its day ends at 07:00 UTC.
var now = time.Date(2026, 9, 25, 15, 20, 0, 0, time.UTC)

func pacific(t testing.TB) quota.Window {
	t.Helper()
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	return quota.Calendar(quota.Day, zone)
}

// An answered is one answer of a file in testdata: to a call in a format, and what Classify returns; or to an operation,
// beside which limit of our own, and which limit is closed for how long.
type answered struct {
	Name                   string
	Now                    time.Time // zero: that above
	Status                 int
	Header                 []string
	Body                   string
	Pointers               string // to the reasons
	Reasons                Reasons
	Headers                Headers
	Day                    bool // daily quotas reset at midnight in California
	Want                   string
	Operation, Own, Closes string
}

func (a answered) answer() Answer { return Answer{a.Status, header(a.Header...), []byte(a.Body)} }

// answers reads a file of answers.
func answers(t testing.TB, file string) (list []answered) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func header(lines ...string) http.Header {
	h := make(http.Header)
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		h.Add(name, value)
	}
	return h
}

// in returns a verdict in words.
func (v Verdict) in() string {
	text := string(v.Class)
	if !v.Reset.IsZero() {
		text += " until " + v.Reset.Format(time.RFC3339Nano)
	}
	if len(v.Names) > 0 {
		text += fmt.Sprintf(", names %q", v.Names)
	}
	if len(v.Left) > 0 {
		text += fmt.Sprintf(", left %v", v.Left)
	}
	return text + ": " + v.Says
}

func TestClassify(t *testing.T) {
	for _, row := range answers(t, "answers.json") {
		t.Run(row.Name, func(t *testing.T) {
			f, at := Format{Reasons: row.Reasons, Headers: row.Headers}, now
			for _, text := range strings.Fields(row.Pointers) {
				p, err := ParsePointer(text)
				if err != nil {
					t.Fatal(err)
				}
				f.Reason = append(f.Reason, p)
			}
			if row.Day {
				f.Day = pacific(t)
			}
			if !row.Now.IsZero() {
				at = row.Now
			}
			if v, err := Classify(row.answer(), f, at); err != nil || v.in() != row.Want {
				t.Errorf("\n got %s, %v\nwant %s", v.in(), err, row.Want)
			}
		})
	}
}

func TestPointersThatAreNone(t *testing.T) {
	for _, wrong := range []string{"", "status", "#/status", "/a~2", "/a~"} {
		if p, err := ParsePointer(wrong); err == nil {
			t.Errorf("%q is taken for %q", wrong, p)
		}
	}
}

// A header is read as curl writes it.
func TestHeader(t *testing.T) {
	status, h, err := ParseHeader("HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\nHTTP/2 429 \r\nset-cookie: secret\r\nretry-after: 7\r\nX-RateLimit-Remaining: 0\r\n\r\n")
	if err != nil || status != 429 || h.Get("Retry-After") != "7" || h.Get("Via") != "" || h.Get("Set-Cookie") == "" {
		t.Errorf("got %d, %v, %v", status, h, err)
	}
	for _, wrong := range []string{"<html>", "HTTP/1.1", ": x"} {
		if _, _, err := ParseHeader("A: b\n" + wrong); err == nil {
			t.Errorf("%q is no error", wrong)
		}
	}
}

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		`exceeded your <a href="/youtube/v3/getting-started#quota">quota</a>.`: "exceeded your quota.",
		`&lt;code&gt;id&lt;/code&gt; isn&#39;t &quot;there&quot; &amp; gone`:   `id isn't "there" & gone`,
		"a<br/>b<!-- c --> 1 < 2 > 0":                                          "ab 1 < 2 > 0",
		"see https://x.example/?part=a&region=US&copy=1":                       "see https://x.example/?part=a&region=US&copy=1",
		"https://x.example/?a=1&amp;key=AIzaSecret.":                           "https://x.example/?a=1&key=…",
		"&#27;[31mred&#10;line":                                                "[31mred line",
	} {
		if got := Line(text); got != want {
			t.Errorf("%s\n got %q\nwant %q", text, got, want)
		}
	}
}

func FuzzClassify(f *testing.F) {
	for _, row := range answers(f, "answers.json") {
		f.Add(row.Status, "60", "1790350200", []byte(row.Body))
	}
	format := github
	format.Day = pacific(f)
	f.Fuzz(func(t *testing.T, status int, after, reset string, body []byte) {
		h := http.Header{"Retry-After": {after}, "X-Ratelimit-Reset": {reset}, "X-Ratelimit-Remaining": {after}}
		v, err := Classify(Answer{status, h, body}, format, now)
		if err != nil {
			return
		}
		if status < 400 && v.Class == Day {
			t.Errorf("status %d closes a day", status)
		}
		if !v.Reset.IsZero() && (v.Reset.Before(now.Add(-skew)) || v.Reset.After(now.Add(maxReset))) {
			t.Errorf("resets at %v", v.Reset)
		}
		for _, text := range append(v.Names, v.Says) {
			if !utf8.ValidString(text) || utf8.RuneCountInString(text) > maxLine+1 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("says %q", text)
			}
		}
		for _, l := range v.Left {
			for _, a := range []Amount{l.Limit, l.Used, l.Remaining} {
				if a.Units < 0 || a.Units > quota.MaxUnits || !a.Known && a.Units != 0 {
					t.Errorf("left %+v", l)
				}
			}
		}
	})
}
