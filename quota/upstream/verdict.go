package upstream

import (
	"cmp"
	"fmt"
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
	found := readBody(a.Body)
	v := Verdict{Names: found.names(), Left: append(f.Headers.left(a.Header), found.left...)}
	if len(found.messages) > 0 {
		v.Says = Line(found.messages[0])
	}
	if v.Class = f.classOf(a, found, v.Left); v.Class == OK || v.Class == Config {
		return v, nil
	}
	if v.Says == "" {
		v.Says = Line(fmt.Sprintf("%d %s", a.Status, cmp.Or(strings.Join(found.reasons, " "), http.StatusText(a.Status))))
	}
	if name := Line(a.Header.Get(f.Headers.Resource)); name != "" && len(v.Names) == 0 {
		v.Names = []string{name}
	}
	var err error
	if v.Reset, err = f.reset(a.Header, found, v.Class, now); err != nil {
		return Verdict{}, err
	}
	return v, nil
}

// classOf decides by the most specific thing that the answer says.
func (f Format) classOf(a Answer, found *findings, left []Left) Class {
	switch {
	case a.Status < 400 && !found.throttled:
		return OK
	case found.zeroQuota:
		return Config
	}
	class := found.class()
	for _, reason := range found.reasons {
		class = cmp.Or(class, f.Reasons[reason], commonReasons[reason])
	}
	return cmp.Or(class, classOfStatus(a, found, left))
}

// throttled is Shopify's reason for an answer that refuses with a status of 200.
const throttled = "THROTTLED"

// commonReasons are those that several upstreams use.
var commonReasons = map[string]Class{
	"quotaExceeded": Day, "dailyLimitExceeded": Day, "REQUEST_LIMIT_EXCEEDED": Day,

	"rateLimitExceeded": Minute, "userRateLimitExceeded": Minute, throttled: Minute, "rate_limit_exceeded": Minute,

	"dailyLimitExceededUnreg": Config, "keyInvalid": Config, "keyExpired": Config, "accessNotConfigured": Config,
	"ipRefererBlocked": Config, "API_KEY_INVALID": Config, "API_KEY_SERVICE_BLOCKED": Config, "SERVICE_DISABLED": Config,
	"invalid_api_key": Config,

	"billingNotEnabled": Billing, "BILLING_DISABLED": Billing, "insufficient_quota": Billing, "UsageCapExceeded": Billing,
	"SpendCapReached": Billing, "usage-capped": Billing,
}

// classOfStatus decides where nothing more specific does. A 403 that does not name its reason
// may be about anything: it says nothing of the quota, unless a header says that nothing is
// left.
func classOfStatus(a Answer, found *findings, left []Left) Class {
	limited := a.Status == http.StatusTooManyRequests || a.Status == http.StatusForbidden
	switch {
	case limited && slices.ContainsFunc(left, func(l Left) bool { return l.Remaining == Known(0) }):
		return Day
	case limited && (a.Header.Get("Retry-After") != "" || found.hasDelay()):
		return Minute
	case a.Status == http.StatusTooManyRequests:
		return Unknown
	case a.Status == http.StatusUnauthorized:
		return Config
	case a.Status == http.StatusPaymentRequired:
		return Billing
	default:
		return OK
	}
}

// reset returns when the upstream says that the limit resets; the zero time where it does not
// say. No quota resets in the past, or after more than a month.
func (f Format) reset(h http.Header, found *findings, class Class, now time.Time) (time.Time, error) {
	at, err := found.reset(class, f.Day, now)
	if at.IsZero() && err == nil && class != Minute {
		at, err = f.Headers.ResetIs.read(h.Get(f.Headers.Reset), now)
	}
	if at.IsZero() && err == nil {
		at, err = retryAfter(h.Get("Retry-After"), now)
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

// secrets are the parameters of an address that hold one.
var secrets = regexp.MustCompile(`(?i)([?&](?:key|access_token|token|api_?key|client_secret)=)[^&\s"'<>\\]+`)

// Line keeps a foreign text on one line and short, without escape sequences and
// without a key that it may quote from an address.
func Line(text string) string {
	text = secrets.ReplaceAllString(strings.ToValidUTF8(text, "?"), "$1…")
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }), " ")
	if runes := []rune(text); len(runes) > maxLine {
		text = string(runes[:maxLine]) + "…"
	}
	return text
}
