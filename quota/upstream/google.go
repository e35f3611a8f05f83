package upstream

import (
	"cmp"
	_ "embed" // for the reasons
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"quotad/quota"
)

//go:embed google.json
var googleJSON []byte

// googleReasons are those of google.api.ErrorReason (google/api/error_reason.proto), and older ones
// (developers.google.com/webmaster-tools/v1/errors). Certain ones mean one thing, whatever the words beside them say.
// Unclear ones are used of a rate and of a day alike: this is what they mean if no words decide.
var googleReasons = func() (table struct{ Certain, Unclear Reasons }) {
	if err := json.Unmarshal(googleJSON, &table); err != nil {
		panic(err)
	}
	return table
}()

// A rpcStatus is Google's google.rpc.Status, with what its APIs add.
type rpcStatus struct {
	Message, Status string
	Errors          []struct{ Reason, Message, DebugInfo string }
	Details         []struct {
		Reason, RetryDelay, QuotaResetDelay string

		Metadata   map[string]string
		Violations []struct{ QuotaMetric, QuotaID, QuotaValue string }
	}
}

// A google is what Google's envelope says: nothing without one.
type google struct {
	messages, reasons, names []string // the most specific first
	span                     Class    // of the limit: Minute, hour or Day; empty: it is not said
	left                     []Left
	zeroQuota                bool
	reset, retry             time.Time // when the limit resets; when to retry, which says nothing of a day. Zero: it does not say
}

var (
	debugLimit = regexp.MustCompile(`\blimit=(\w+)`)
	quoted     = regexp.MustCompile(`(?i)\blimit '([^']{1,200})'`) // "limit 'Search Queries per day'"
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
	}
	add(&g.messages, e.Message)
	for _, message := range g.messages {
		add(&quotes, found(quoted, message))
	}
	for _, d := range e.Details {
		add(&g.reasons, d.Reason)
		add(&units, d.Metadata["quota_unit"])
		limit(d.Metadata["quota_limit"], d.Metadata["quota_metric"], d.Metadata["quota_limit_value"])
		for _, v := range d.Violations {
			limit(v.QuotaID, v.QuotaMetric, v.QuotaValue)
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
	g.span = cmp.Or(longest(units), longest(ids), longest(quotes))
	if longest(ids) == Day { // of several that are exceeded, the day's
		ids = slices.DeleteFunc(ids, func(id string) bool { return longest([]string{id}) != Day })
	}
	g.names = slices.Concat(ids, quotes, metrics)
}

// found returns the part that an expression finds, on one line.
func found(expression *regexp.Regexp, text string) string {
	return Line(append(expression.FindStringSubmatch(text), "", "")[1])
}

// spans are of time, the longest first, in names of limits, in units and in messages: "PerDayPerProject",
// "per 100 seconds", "1/min/{user}", "USER-100s".
var spans = []struct {
	class Class
	names *regexp.Regexp
}{
	{Day, regexp.MustCompile(`(?i)per[ _-]?([\d,]+[ _-]?)?(day|week|month)|/(d|mo)\b|-\d+d$|\bdaily\b`)},
	{hour, regexp.MustCompile(`(?i)per[ _-]?hour|/h\b|-\d+h$`)},
	{Minute, regexp.MustCompile(`(?i)per[ _-]?([\d,]+[ _-]?)?(second|min)|/ ?(\d+ ?)?(s|sec|min|m)\b|-\d+[sm]$|\b[qr]ps\b`)},
}

// longest returns the class of the longest span of time that any of the texts names; empty if none does.
func longest(texts []string) Class {
	for _, span := range spans {
		if slices.ContainsFunc(texts, span.names.MatchString) {
			return span.class
		}
	}
	return ""
}

var ofRate = regexp.MustCompile(`(?i)\brate\b|concurrent`) // beside a reason that is used of a day as well

// class decides by the most specific thing that the envelope says: by the unit or the name of the limit, then by
// reasons that mean one thing, then by words where a reason is used of a rate and of a day alike.
func (g *google) class() Class {
	class, words := cmp.Or(g.span, googleReasons.Certain.gravest(g.reasons)), longest(g.messages)
	if slices.ContainsFunc(g.messages, ofRate.MatchString) {
		words = cmp.Or(words, Minute)
	}
	switch reason := googleReasons.Unclear.gravest(g.reasons); {
	case g.zeroQuota:
		return Key
	case class == "" && (reason != "" || len(g.reasons) == 0):
		return cmp.Or(words, reason)
	}
	return class
}

// add adds a text to a list that does not have it yet.
func add(list *[]string, text string) {
	if text != "" && !slices.Contains(*list, text) {
		*list = append(*list, text)
	}
}
