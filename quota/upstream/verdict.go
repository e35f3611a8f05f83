package upstream

import (
	"cmp"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"quotad/quota"
)

// A Class says what an answer means for the calls after it.
type Class string

// The classes. The texts are part of the API and of configuration files.
const (
	OK      Class = "ok"      // the answer says nothing against the quota
	Minute  Class = "minute"  // too many calls in a short time: the quota itself is not exhausted
	Day     Class = "day"     // a limit is exhausted until it resets: a day's, an hour's, a month's
	Key     Class = "key"     // a person has to change something: the key, the project, a quota of 0
	Billing Class = "billing" // a person has to pay, or to raise a spending cap
	Unknown Class = "unknown" // refused for its quota, but for how long is not said

	hour Class = "hour" // a Day that ends within the hour
)

// MaxBody is the longest body that is read, in bytes.
const MaxBody = 64 << 10

// An Answer is what an upstream answered to one call.
type Answer struct {
	Status int // as HTTP has it, 100 … 599
	Header http.Header
	Body   []byte // at most MaxBody, UTF-8, not compressed; may be empty
}

// A Verdict is what an answer says of the upstream's quota.
type Verdict struct {
	Class Class
	Names []string  // of the limit that it refers to, the most specific first: an id, the name in its message, a metric
	Reset time.Time // when the limit resets; zero where the answer does not say
	Says  string    // the upstream's own words on one line; empty where it has none
	Left  []Left    // what the upstream says of what is left, limit by limit
}

// A Left is what an upstream says of one limit.
type Left struct {
	Name                   string // what the upstream calls the limit; may be empty
	Limit, Used, Remaining Amount
}

// An Amount is a number of units that may be unknown: its zero value is not zero units.
type Amount struct {
	Units quota.Units
	Known bool
}

// Known returns an amount that is known.
func Known(units quota.Units) Amount { return Amount{Units: units, Known: true} }

// A Format says what is particular to the answers of one upstream. The zero value reads what several have in common.
type Format struct {
	// Reason is where a body says its reason, whatever the status is; the first that Reasons has counts. Reasons are of
	// these, of Google's, and of statuses ("429"): they outrank the common ones.
	Reason  []Pointer    `toml:"reason"`
	Reasons Reasons      `toml:"reasons" oneof:"ok minute day key billing unknown"`
	Headers Headers      `toml:"headers"` // of what is left
	Day     quota.Window // by which its daily quotas reset; zero: the start of a day does not say when it ends
}

// Classify returns what an answer says at now. It fails where the answer cannot be read.
func Classify(a Answer, f Format, now time.Time) (Verdict, error) {
	switch {
	case a.Status < 100 || a.Status > 599:
		return Verdict{}, fmt.Errorf("status must be from 100 to 599: %d", a.Status)
	case len(a.Body) > MaxBody:
		return Verdict{}, fmt.Errorf("the body has %d bytes, at most %d are read", len(a.Body), MaxBody)
	case !utf8.Valid(a.Body):
		return Verdict{}, fmt.Errorf("the body is not UTF-8 text; a compressed one must be decompressed first")
	}
	reasons, message := f.readBody(a)
	var g google
	if a.Status >= 400 {
		g = readGoogle(a.Body, f.Day, now)
	}
	message, reasons = append(g.messages, message)[0], slices.Concat(reasons, g.reasons)
	v := Verdict{Names: g.names, Left: append(f.Headers.left(a.Header), g.left...), Says: Line(message)}
	after := retryAfter(a.Header.Get("Retry-After"), now)
	timed := after.After(now) || !g.reset.IsZero() || !g.retry.IsZero()
	if v.Class = f.classOf(a, reasons, &g, v.Left, timed, message); v.Class == OK {
		return v, nil
	}
	v.Says = cmp.Or(v.Says, Line(fmt.Sprintf("%d %s", a.Status, cmp.Or(strings.Join(reasons, " "), http.StatusText(a.Status)))))
	if name := Line(a.Header.Get(f.Headers.Resource)); name != "" && len(v.Names) == 0 {
		v.Names = []string{name}
	}
	times := []time.Time{g.reset, f.Headers.reset(a.Header, now), after}
	switch v.Class {
	case Key:
		return v, nil
	case Minute: // Gemini says seconds of a day, too; a header's reset is that of a day or an hour
		times[1] = g.retry
	case hour:
		v.Class, times = Day, append(times, now.Add(time.Hour).UTC())
	}
	isSaid := func(at time.Time) bool { return !at.IsZero() && (v.Class == Day || at.After(now)) }
	if i := slices.IndexFunc(times, isSaid); i >= 0 {
		v.Reset = times[i]
	}
	return v, nil
}

// ofQuota are words of a refusal for a quota. They do not say which, nor for how long.
var ofQuota = regexp.MustCompile(`(?i)quota|(rate|request|calls?|usage) ?limit|limit (is )?(exceeded|reached)|too many|throttl|abuse detection`)

// classOf decides by the most specific thing that the answer says: by what the file or a preset says of its reasons, by
// Google's envelope, by the fields of its header, and by the status last.
func (f Format) classOf(a Answer, reasons []string, g *google, left []Left, timed bool, message string) Class {
	for _, reason := range reasons {
		if class := f.Reasons.classOf(reason); class != "" {
			return class
		}
	}
	isEmpty := func(l Left) bool { return l.Remaining == Known(0) }
	limits := a.Status == http.StatusTooManyRequests || a.Status == http.StatusForbidden
	class, byStatus := g.class(), f.Reasons[strconv.Itoa(a.Status)]
	switch {
	case a.Status < 400:
		return OK
	case class != "" && class != Unknown:
		return class
	case byStatus != "":
		return byStatus
	case limits && slices.ContainsFunc(left, isEmpty):
		return Day
	case limits && timed:
		return Minute
	case class == Unknown, a.Status == http.StatusTooManyRequests, a.Status == 420:
		return Unknown
	case a.Status == http.StatusUnauthorized:
		return Key
	case a.Status == http.StatusPaymentRequired:
		return Billing
	case (a.Status == http.StatusForbidden || a.Status == http.StatusBadRequest) && ofQuota.MatchString(message):
		return Unknown
	}
	return OK
}

// maxLine is how much Line keeps, in bytes.
const maxLine = 300

var (
	secrets  = regexp.MustCompile(`(?i)([?&](?:key|access_token|token|api_?key|client_secret)=)[^&\s"'<>\\]+`)
	tags     = regexp.MustCompile(`</?[A-Za-z][A-Za-z0-9]*(?:[\s/][^<>]*)?>|<!--.*?-->`)
	entities = regexp.MustCompile(`&(?:#x?)?\w{1,31};`) // they end with a semicolon: an address holds &region=US
)

// Line keeps a foreign text on one line and short, without escape sequences, without tags and entities of HTML, and
// without a key that it may quote from an address.
func Line(text string) string {
	text = entities.ReplaceAllStringFunc(tags.ReplaceAllString(text, ""), html.UnescapeString)
	return quota.Clipped(secrets.ReplaceAllString(tags.ReplaceAllString(text, ""), "$1…"), maxLine)
}
