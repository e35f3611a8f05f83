package upstream

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"quotad/quota"
)

// said is what a body says, gathered from the forms that upstreams use.
type said struct {
	message  string
	messages []string // all that were read, to look for a limit's name in
	reasons  []string // the most telling first
	units    []string // "1/d/{project}"
	limits   []string // ids: "defaultPerDayPerProject"
	metrics  []string // "youtube.googleapis.com/search_list"
	left     []Left

	zeroQuota bool   // the upstream says that the quota is 0
	refused   bool   // also where the status does not say so
	window    string // epoch seconds at which the upstream's window began
	resetAt   string // RFC 3339
	resetIn   string // a duration
	retryIn   string // a duration after which to try again, which says nothing of a day
}

// readBody takes from a body what it can: one that is no JSON, of a proxy perhaps, says
// nothing.
func readBody(body []byte) said {
	var s said
	var value any
	if json.Unmarshal(body, &value) != nil {
		return s
	}
	switch top := value.(type) {
	case map[string]any:
		s.readTop(top)
	case []any: // Salesforce
		for _, e := range objects(top) {
			s.readError(e)
		}
	}
	return s
}

// readTop reads the object that a body is.
func (s *said) readTop(top map[string]any) {
	switch e := top["error"].(type) {
	case map[string]any:
		s.readError(e)
	case string: // OAuth, and many small ones
		s.reason(e)
		s.say(text(top["error_description"]))
		s.say(text(top["message"]))
	default: // RFC 9457, X, GitHub
		s.reason(text(top["title"]))
		_, last, _ := cutLast(text(top["type"]), "/")
		s.reason(last)
		s.say(text(top["detail"]))
		s.say(text(top["message"]))
	}
	for _, e := range objects(top["errors"]) {
		s.readError(e)
	}
	s.readPropertyQuota(top["propertyQuota"])
}

// readError reads one error: Google's envelope, OpenAI's, Shopify's, Salesforce's.
func (s *said) readError(e map[string]any) {
	for _, inner := range objects(e["errors"]) {
		s.reason(text(inner["reason"]))
		s.say(text(inner["message"]))
		s.readDebug(text(inner["debugInfo"]))
	}
	for _, key := range []string{"reason", "errorCode", "code", "type"} {
		s.reason(text(e[key]))
	}
	s.say(text(e["message"]))
	for _, d := range objects(e["details"]) {
		s.readDetail(d)
	}
	s.reason(text(e["status"]))
	if extensions, ok := e["extensions"].(map[string]any); ok {
		s.reason(text(extensions["code"]))
		s.refused = s.refused || text(extensions["code"]) == "THROTTLED"
	}
}

// readDetail reads one of the details of google.rpc: ErrorInfo, QuotaFailure, RetryInfo.
func (s *said) readDetail(d map[string]any) {
	s.reason(text(d["reason"]))
	if m, ok := d["metadata"].(map[string]any); ok {
		s.name(&s.units, text(m["quota_unit"]))
		s.name(&s.limits, text(m["quota_limit"]))
		s.name(&s.metrics, text(m["quota_metric"]))
		s.window = text(m["window_start_time"])
		s.resetAt, s.resetIn = text(m["quotaResetTimeStamp"]), text(m["quotaResetDelay"])
		s.limitValue(text(m["quota_limit"]), text(m["quota_limit_value"]))
	}
	for _, v := range objects(d["violations"]) {
		s.name(&s.limits, text(v["quotaId"]))
		s.name(&s.metrics, text(v["quotaMetric"]))
		s.say(text(v["description"]))
		s.limitValue(text(v["quotaId"]), text(v["quotaValue"]))
	}
	if delay := text(d["retryDelay"]); delay != "" {
		s.retryIn = delay
	}
}

// limitValue takes in how large the upstream says that a limit is.
func (s *said) limitValue(name, value string) {
	units, ok := whole(value)
	if !ok {
		return
	}
	s.zeroQuota = s.zeroQuota || units == 0
	s.left = append(s.left, Left{Name: name, Limit: Known(units)})
}

var debugLimit = regexp.MustCompile(`\blimit=(\w+)`)

// readDebug finds the limit that the debug text of YouTube's old pool names.
func (s *said) readDebug(debug string) {
	if found := debugLimit.FindStringSubmatch(debug); found != nil {
		s.name(&s.limits, found[1])
	}
}

// readPropertyQuota reads what Google Analytics says is left: of tokensPerDay,
// tokensPerHour and others.
func (s *said) readPropertyQuota(value any) {
	property, _ := value.(map[string]any)
	for _, name := range slices.Sorted(keys(property)) {
		one, _ := property[name].(map[string]any)
		if units, ok := whole(text(one["remaining"])); ok {
			s.left = append(s.left, Left{Name: name, Remaining: Known(units)})
		}
	}
}

func (s *said) reason(reason string) {
	if reason != "" && !slices.Contains(s.reasons, reason) {
		s.reasons = append(s.reasons, reason)
	}
}

func (s *said) say(message string) {
	if message == "" {
		return
	}
	if s.message == "" {
		s.message = message
	}
	s.messages = append(s.messages, message)
}

func (s *said) name(list *[]string, name string) {
	if name = line(name); name != "" && !slices.Contains(*list, name) {
		*list = append(*list, name)
	}
}

// names returns what the limit is called, the most telling first.
func (s *said) names() []string {
	names := slices.Clone(s.limits)
	if slices.ContainsFunc(names, perDay) { // of several that are exceeded, the day's
		names = slices.DeleteFunc(names, func(name string) bool { return !perDay(name) })
	}
	for _, message := range s.messages {
		if found := namedLimit.FindStringSubmatch(message); found != nil {
			s.name(&names, found[1])
		}
	}
	for _, metric := range s.metrics {
		s.name(&names, metric)
	}
	return names
}

// byUnit decides by the unit of the quota: "1/d/{project}", "1/min/{project}/{user}".
func (s *said) byUnit() Class {
	class := Class("")
	for _, unit := range s.units {
		switch _, rest, _ := strings.Cut(unit, "/"); {
		case strings.HasPrefix(rest, "d"), strings.HasPrefix(rest, "h"), strings.HasPrefix(rest, "mo"):
			return Day
		case strings.HasPrefix(rest, "min"), strings.HasPrefix(rest, "s"):
			class = Minute
		}
	}
	return class
}

// byLimit decides by the limit's id: "defaultSearchListPerDayPerProject".
func (s *said) byLimit() Class { return classOfNames(s.limits) }

func classOfNames(names []string) Class {
	class := Class("")
	for _, name := range names {
		if perDay(name) {
			return Day
		}
		if perMinute(name) {
			class = Minute
		}
	}
	return class
}

// squeezed makes "Queries per day", "queries_per_day" and "QueriesPerDay" alike.
var squeezed = strings.NewReplacer(" ", "", "_", "", "-", "")

func perDay(name string) bool {
	name = strings.ToLower(squeezed.Replace(name))
	return strings.Contains(name, "perday") || strings.Contains(name, "perhour") || strings.Contains(name, "permonth")
}

func perMinute(name string) bool {
	name = strings.ToLower(squeezed.Replace(name))
	return strings.Contains(name, "perminute") || strings.Contains(name, "persecond") || strings.Contains(name, "per100seconds")
}

var namedLimit = regexp.MustCompile(`(?i)\blimit '([^']{1,200})'`)

// byMessage decides by the limit that a message names: "limit 'Search Queries per day'".
func (s *said) byMessage() Class {
	for _, message := range s.messages {
		if found := namedLimit.FindStringSubmatch(message); found != nil {
			if c := classOfNames(found[1:]); c != "" {
				return c
			}
		}
	}
	return ""
}

// daily tells whether the limit is one of a day, rather than of an hour or a month.
func (s *said) daily() bool {
	for _, unit := range s.units {
		if _, rest, _ := strings.Cut(unit, "/"); !strings.HasPrefix(rest, "d") {
			return false
		}
	}
	return len(s.units) > 0
}

// delayed tells whether the body says how long to wait.
func (s *said) delayed() bool { return s.resetAt != "" || s.resetIn != "" || s.retryIn != "" }

// reset returns when the body says that the limit is given back: at a time, after a
// duration, or at the end of the day that began at a time. How long to wait before
// trying again counts for a limit of minutes alone: Gemini says seconds of a day.
func (s *said) reset(class Class, day quota.Window, now time.Time) (time.Time, error) {
	switch {
	case s.resetAt != "":
		return parseTime(s.resetAt)
	case s.window != "" && day.IsCalendar() && s.daily():
		start, err := parseEpoch(s.window)
		if err != nil {
			return time.Time{}, err
		}
		_, end := day.Bounds(start)
		return end, nil
	case s.resetIn != "":
		return parseDelay(s.resetIn, now)
	case s.retryIn != "" && class == Minute:
		return parseDelay(s.retryIn, now)
	}
	return time.Time{}, nil
}

// objects returns the objects of a list, whatever else is in it.
func objects(value any) []map[string]any {
	list, _ := value.([]any)
	var found []map[string]any
	for _, e := range list {
		if o, ok := e.(map[string]any); ok {
			found = append(found, o)
		}
	}
	return found
}

// text returns a string as it is and a whole number in digits; anything else is "".
func text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case float64:
		if v == float64(int64(v)) {
			return fmt.Sprint(int64(v))
		}
	}
	return ""
}

func keys(m map[string]any) func(func(string) bool) {
	return func(yield func(string) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}
}

// cutLast cuts around the last separator; without one, all is after it.
func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+len(separator):], true
}
