package upstream

import (
	"cmp"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
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
	Config  Class = "config"  // a person has to change something: the key, the project, a quota of 0
	Billing Class = "billing" // a person has to pay, or to raise a spending cap
	Unknown Class = "unknown" // refused for its quota, but for how long is not said
)

// Classes are all of them.
func Classes() []Class { return []Class{OK, Minute, Day, Config, Billing, Unknown} }

// MaxBody is the longest body that is read, in bytes.
const MaxBody = 64 << 10

// maxReset is how far ahead a reset may lie: no quota is of more than a month.
const maxReset = 32 * 24 * time.Hour

// skew is by how much the upstream's clock may be behind ours.
const skew = time.Minute

// An Answer is what an upstream answered to one call.
type Answer struct {
	Status int // as HTTP has it, 100 … 599
	Header http.Header
	Body   []byte // at most MaxBody, UTF-8, not compressed; may be empty
}

// A Verdict is what an answer says of the upstream's quota.
type Verdict struct {
	Class Class
	// Names are what the upstream calls the limit that it refers to, the most specific
	// first: an id, the name in its message, a metric. Empty where it names none.
	Names []string
	// Reset is when the limit resets; zero where the answer does not say.
	Reset time.Time
	// Says is the upstream's own words on one line; empty where it has none.
	Says string
	// Left is what the upstream says of what is left, limit by limit.
	Left []Left

	hourly bool   // of Day: it resets within the hour
	reason string // of Unknown: what the upstream calls it
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

// A Format says what is particular to the answers of one upstream. The zero value
// reads what several have in common.
type Format struct {
	// Reasons gives a class to a reason, and outranks the common ones.
	Reasons map[string]Class
	Headers Headers
	// Day is the calendar window by which the upstream's daily quotas reset; without
	// one, the start of a day does not say when it ends.
	Day quota.Window
}

// Classify returns what an answer says at now. It fails where the answer cannot be
// read, or where it refuses until a time that cannot be right.
func Classify(a Answer, f Format, now time.Time) (Verdict, error) {
	switch {
	case a.Status < 100 || a.Status > 599:
		return Verdict{}, fmt.Errorf("status must be from 100 to 599: %d", a.Status)
	case len(a.Body) > MaxBody:
		return Verdict{}, fmt.Errorf("the body has %d bytes, at most %d are read", len(a.Body), MaxBody)
	case !utf8.Valid(a.Body):
		return Verdict{}, fmt.Errorf("the body is not UTF-8 text; a compressed one must be decompressed first")
	}
	found := readBody(a)
	v := Verdict{Names: found.names(), Left: append(f.Headers.left(a.Header), found.left...)}
	if len(found.messages) > 0 {
		v.Says = Line(found.messages[0])
	}
	after := retryAfter(a.Header.Get("Retry-After"), now)
	class := f.classOf(a, found, v.Left, !after.IsZero())
	if v.Class = class; class == OK {
		return v, nil
	}
	if v.Says == "" {
		v.Says = Line(fmt.Sprintf("%d %s", a.Status, cmp.Or(strings.Join(found.reasons, " "), http.StatusText(a.Status))))
	}
	switch class {
	case Config:
		return v, nil
	case Unknown:
		v.reason = found.named()
	}
	if name := Line(a.Header.Get(f.Headers.Resource)); name != "" && len(v.Names) == 0 {
		v.Names = []string{name}
	}
	var err error
	if v.Reset, err = f.reset(a.Header, found, class, now); err != nil {
		return Verdict{}, err
	}
	if v.Reset.IsZero() {
		v.Reset = found.retryAt(class, after, now)
	}
	if class == hour {
		if v.Class, v.hourly = Day, true; v.Reset.IsZero() {
			v.Reset = now.Add(time.Hour).UTC()
		}
	}
	return v, nil
}

// hour is the class of a limit that resets within the hour: a Day that is shorter.
const hour Class = "hour"

// classOf decides by the most specific thing that the answer says: by structure, then by reasons
// that mean one thing, then by words, then by other reasons, and by the status last.
func (f Format) classOf(a Answer, found *findings, left []Left, timed bool) Class {
	switch {
	case a.Status < 400 && !found.refuses:
		return OK
	case found.zeroQuota:
		return Config
	}
	class := found.class()
	for _, reason := range found.reasons {
		class = cmp.Or(class, f.Reasons[reason])
	}
	if class = cmp.Or(class, gravest(found.reasons, certain)); class != "" {
		return class
	}
	isEmpty := func(l Left) bool { return l.Remaining == Known(0) }
	if (a.limits() || found.refuses) && slices.ContainsFunc(left, isEmpty) {
		return Day
	}
	byReason := gravest(found.reasons, unclear)
	if found.refuses || byReason != "" || slices.Contains(refusals, a.Status) {
		loose := byReason != "" || a.Status == http.StatusTooManyRequests
		class = cmp.Or(words(found.messages, loose), byReason, words(found.reasons, false))
	}
	return cmp.Or(class, classOfStatus(a, found, timed))
}

// refusals are the statuses with which upstreams refuse calls that are too many.
var refusals = []int{http.StatusBadRequest, http.StatusForbidden, 420, http.StatusTooManyRequests, http.StatusServiceUnavailable}

// limits reports whether the answer's status is one of a limit, most of the time.
func (a Answer) limits() bool {
	return a.Status == http.StatusTooManyRequests || a.Status == http.StatusForbidden
}

// classOfStatus decides where nothing more specific does. A 403 that does not name its reason
// may be about anything: it says nothing of the quota.
func classOfStatus(a Answer, found *findings, timed bool) Class {
	switch {
	case a.limits() && (timed || found.hasDelay()):
		return Minute
	case a.Status == http.StatusTooManyRequests:
		return Unknown
	case a.Status == http.StatusUnauthorized:
		return Config
	case a.Status == http.StatusPaymentRequired:
		return Billing
	case found.service != "" || a.limits() && slices.ContainsFunc(found.messages, speaksOfExhaustion):
		return Unknown
	default:
		return OK
	}
}

// reset returns when the upstream says that the limit resets; the zero time where it does not
// say. No quota resets in the past, or after more than a month.
func (f Format) reset(h http.Header, found *findings, class Class, now time.Time) (time.Time, error) {
	at, err := found.reset(f.Day, now)
	if at.IsZero() && err == nil && class != Minute {
		at, err = f.Headers.ResetIs.read(h.Get(f.Headers.Reset), now)
	}
	switch {
	case err != nil || at.IsZero():
		return time.Time{}, err
	case at.Before(now.Add(-skew)):
		return time.Time{}, fmt.Errorf("the answer refuses until %s, which has passed", at.UTC().Format(time.RFC3339))
	case at.After(now.Add(maxReset)):
		return time.Time{}, fmt.Errorf("the answer refuses until %s, which no quota does", at.UTC().Format(time.RFC3339))
	}
	return at.UTC(), nil
}

// maxLine is how much Line keeps, in runes.
const maxLine = 300

var (
	// secrets are the parameters of an address that hold one.
	secrets = regexp.MustCompile(`(?i)([?&](?:key|access_token|token|api_?key|client_secret)=)[^&\s"'<>\\]+`)
	// tags are those of HTML: not all that stands between < and >.
	tags = regexp.MustCompile(`(?i)</?(?:a|abbr|b|body|br|center|code|div|em|font|h[1-6]|head|hr|html|i|img|li|meta|ol|p|pre|small|span|strong|style|sub|sup|table|td|th|title|tr|tt|u|ul)(?:[\s/][^<>]*)?>|<!--.*?-->|<!doctype[^<>]*>`)
	// entities end with a semicolon: an address holds &region=US.
	entities = regexp.MustCompile(`&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]{2,31}\d{0,2});`)
)

// Line keeps a foreign text on one line and short, without escape sequences, without tags and
// entities of HTML, and without a key that it may quote from an address.
func Line(text string) string {
	text = tags.ReplaceAllString(strings.ToValidUTF8(text, "?"), "")
	text = tags.ReplaceAllString(entities.ReplaceAllStringFunc(text, html.UnescapeString), "")
	text = secrets.ReplaceAllString(text, "$1…")
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }), " ")
	if runes := []rune(text); len(runes) > maxLine {
		text = string(runes[:maxLine]) + "…"
	}
	return text
}
