package upstream

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"quotad/quota"
)

// A rpcStatus is Google's google.rpc.Status, with what its APIs add.
type rpcStatus struct {
	Message, Status string
	Errors          []struct{ Domain, Reason, Message, DebugInfo string }
	Details         []struct {
		Reason, Domain, RetryDelay, QuotaResetDelay string

		Metadata   map[string]string
		Violations []struct{ QuotaMetric, QuotaID, QuotaValue string }
	}
}

// A google is what Google's envelope says: nothing without one.
type google struct {
	messages, reasons, names []string // the most specific first
	span                     Class    // of the limit: Minute, hour or Day; empty: it is not said
	left                     []Left
	service                  string // the reason of an ErrorInfo of googleapis.com: about the key, the project or its quota
	foreign                  bool   // about a thing of YouTube's, and no quota: domain "youtube.comment"
	zeroQuota                bool
	reset, retry             time.Time // when the limit resets; when to retry, which says nothing of a day. Zero: it does not say
}

var (
	debugLimit = regexp.MustCompile(`\blimit=(\w+)`)
	quoted     = regexp.MustCompile(`(?i)\blimit '([^']{1,200})'`)                           // "limit 'Search Queries per day'"
	zeroLimit  = regexp.MustCompile(`(?i)^quota exceeded\b.*\blimit: 0(?:[^\d.]|\.\D|\.?$)`) // Gemini's, of a model that is not for free
	retryAt    = regexp.MustCompile(`Retry after (\d[\w:.-]+Z)`)                             // Gmail's
)

// readGoogle reads Google's envelope, at the top where a gateway of gRPC wrote it.
func readGoogle(body []byte, day quota.Window, now time.Time) (g google) {
	var envelope struct {
		Error rpcStatus
		rpcStatus
	}
	_ = json.Unmarshal(body, &envelope) // a field of another type stays empty
	for _, e := range []rpcStatus{envelope.Error, envelope.rpcStatus} {
		if len(e.Errors)+len(e.Details) > 0 || e.Status == "RESOURCE_EXHAUSTED" || quoted.MatchString(e.Message) {
			g.read(e, day, now)
		}
	}
	return g
}

func (g *google) read(e rpcStatus, day quota.Window, now time.Time) {
	var units, ids, metrics, quotes []string
	limit := func(id, metric, value string) {
		add(&ids, Line(id))
		add(&metrics, Line(metric))
		if size := amount(value); size.Known {
			g.zeroQuota = g.zeroQuota || size.Units == 0
			g.left = append(g.left, Left{Name: Line(id), Limit: size})
		}
	}
	for _, one := range e.Errors {
		add(&g.reasons, one.Reason)
		add(&g.messages, one.Message)
		add(&ids, found(debugLimit, one.DebugInfo))
		area, part, _ := strings.Cut(one.Domain, ".")
		g.foreign = g.foreign || area == "youtube" && part != "quota"
	}
	add(&g.messages, e.Message)
	for _, message := range g.messages {
		g.zeroQuota = g.zeroQuota || zeroLimit.MatchString(message)
		g.reset = cmp.Or(g.reset, RFC3339.read(found(retryAt, message), now))
		add(&quotes, found(quoted, message))
	}
	for _, d := range e.Details {
		add(&g.reasons, d.Reason)
		add(&units, d.Metadata["quota_unit"])
		limit(d.Metadata["quota_limit"], d.Metadata["quota_metric"], d.Metadata["quota_limit_value"])
		for _, v := range d.Violations {
			limit(v.QuotaID, v.QuotaMetric, v.QuotaValue)
		}
		if d.Domain == "googleapis.com" {
			g.service = cmp.Or(d.Reason, g.service)
		}
		start := Epoch.read(d.Metadata["window_start_time"], now.Add(-26*time.Hour)) // of a day that is not over
		if strings.Contains(d.Metadata["quota_unit"], "/d") && day.Restarts() && !start.IsZero() {
			_, end := day.Bounds(start)
			g.reset = end.UTC()
		}
		g.reset = cmp.Or(RFC3339.read(d.Metadata["quotaResetTimeStamp"], now), g.reset,
			Duration.read(cmp.Or(d.Metadata["quotaResetDelay"], d.QuotaResetDelay), now))
		g.retry = cmp.Or(g.retry, Duration.read(d.RetryDelay, now))
	}
	g.span = cmp.Or(longest(units...), longest(ids...), longest(quotes...))
	if longest(ids...) == Day { // of several that are exceeded, the day's
		ids = slices.DeleteFunc(ids, func(id string) bool { return longest(id) != Day })
	}
	g.names = slices.Concat(ids, quotes, metrics)
}

// found returns the part that an expression finds, on one line.
func found(expression *regexp.Regexp, text string) string {
	return Line(append(expression.FindStringSubmatch(text), "", "")[1])
}

// Spans of time, in names of limits, in units and in messages: "PerDayPerProject", "per 100 seconds", "1/min/{user}",
// "USER-100s".
var (
	ofMinutes = regexp.MustCompile(`(?i)per[ _-]?([\d,]+[ _-]?)?(second|min)|/ ?(\d+ ?)?(s|sec|min|m)\b|-\d+[sm]$|\b[qr]ps\b`)
	ofHours   = regexp.MustCompile(`(?i)per[ _-]?hour|/h\b|-\d+h$`)
	ofDays    = regexp.MustCompile(`(?i)per[ _-]?([\d,]+[ _-]?)?(day|week|month)|/(d|mo)\b|-\d+d$|\bdaily\b`)
	ofRate    = regexp.MustCompile(`(?i)\brate\b|concurrent`) // beside a reason that is used of a day as well
)

// longest returns the class of the texts that lasts longest; empty if none names a span of time.
func longest(texts ...string) (class Class) {
	for _, text := range texts {
		switch {
		case ofMinutes.MatchString(text):
			class = cmp.Or(class, Minute)
		case ofDays.MatchString(text):
			return Day
		case ofHours.MatchString(text):
			class = hour
		}
	}
	return class
}

// class decides by the most specific thing that the envelope says: by the unit or the name of the limit, then by
// reasons that mean one thing, then by words where a reason is used of a rate and of a day alike.
func (g *google) class() Class {
	class, words := cmp.Or(g.span, gravest(g.reasons, certain)), longest(g.messages...)
	if slices.ContainsFunc(g.messages, ofRate.MatchString) {
		words = cmp.Or(words, Minute)
	}
	switch reason := gravest(g.reasons, unclear); {
	case g.zeroQuota:
		return Key
	case class == "" && (reason != "" || len(g.reasons) == 0):
		return cmp.Or(words, reason)
	case class == "" && g.foreign:
		return OK
	case class == "" && g.service != "":
		return Unknown
	}
	return class
}

// A meaning is a class, and the expression of the reasons that have it.
type meaning struct {
	class   Class
	reasons *regexp.Regexp
}

func means(class Class, reasons string) meaning {
	return meaning{class, regexp.MustCompile(`^(` + strings.Join(strings.Fields(reasons), "") + `)$`)}
}

var (
	// certain are reasons that mean one thing, whatever the words beside them say: those of google.api.ErrorReason
	// (google/api/error_reason.proto), and older ones (developers.google.com/webmaster-tools/v1/errors). What needs a
	// person is first, then what lasts longest. IAM_PERMISSION_DENIED is about one resource, like a 403 that names no
	// reason.
	certain = []meaning{
		means(Key, `(API_KEY|CONSUMER|GCP|ACCESS_TOKEN|JWT_TOKEN|CREDENTIALS?|MCP_SERVER|USER_PROJECT|USER_BLOCKED|SESSION_COOKIE|
			ORG_RESTRICTION|LOCATION|TLS|SECURITY_POLICY|SYSTEM_PARAMETER)_\w+|ACCOUNT_(STATE|TYPE)_\w+|SERVICE_(DISABLED|NOT_VISIBLE)|
			(RESOURCE|ENDPOINT)_USAGE_\w+|RESOURCE_(QUOTA_EXCEEDED|PROJECT_INVALID)|MISSING_ORIGIN|OVERLOADED_CREDENTIALS|
			accessNotConfigured|domainPolicy|ipRefererBlocked|refererBlocked|keyExpired|keyInvalid|\w+ExceededUnreg`),
		means(Billing, `BILLING_DISABLED|billingNotEnabled`),
		means(Day, `dailyLimitExceeded|variableTermLimitExceeded|variableTermExpiredDailyExceeded`),
		means(Minute, `servingLimitExceeded|concurrentLimitExceeded`),
		means(OK, `IAM_PERMISSION_DENIED|storageQuotaExceeded|downloadQuotaExceeded`),
	}
	// unclear are used of a rate and of a day alike. This is what they mean where no words decide.
	unclear = []meaning{
		means(Day, `quotaExceeded`),
		means(Minute, `RATE_LIMIT_EXCEEDED|rateLimitExceeded|userRateLimitExceeded`),
		means(Unknown, `EMULATOR_QUOTA_EXCEEDED`),
	}
)

// gravest returns the first class in a table that any of the reasons has.
func gravest(reasons []string, table []meaning) Class {
	for _, one := range table {
		if slices.ContainsFunc(reasons, one.reasons.MatchString) {
			return one.class
		}
	}
	return ""
}

// add adds a text to a list that does not have it yet.
func add(list *[]string, text string) {
	if text != "" && !slices.Contains(*list, text) {
		*list = append(*list, text)
	}
}
